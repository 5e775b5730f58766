// What tests set of the NCCL in fake_nccl.cpp. Where the program has set nothing, it is read from the environment:
//   TOY_FAKE_NCCL_VERSION=21304
//   TOY_FAKE_NCCL_FAILS="ncclSend 1 7"   that function, on that rank, from its 7th call on
#pragma once

namespace toy::testing {

struct FakeNccl {
  int version = 21805;
  const char* failing = "";  ///< that function returns `result`; "hang": what is sent never arrives; "": none
  int rank = 0, after = 0;   ///< on that rank, after so many calls of it
  int result = 6;            ///< a remote error
};

}  // namespace toy::testing

extern "C" __attribute__((visibility("default"))) toy::testing::FakeNccl toy_fake_nccl;
