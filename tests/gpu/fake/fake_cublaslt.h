// What tests set and read of the cuBLASLt in fake_cublaslt.cpp.
#pragma once

namespace toy::testing {

struct FakeCublasLt {
  /// That function fails; "nothing": no way to multiply is found; nullptr: none.
  const char* failing = nullptr;
  /// What is there now: handles, descriptions of products and of matrices, preferences.
  int made = 0;
  /// Products that were planned, and that were computed.
  int planned = 0, products = 0;
};

}  // namespace toy::testing

extern "C" __attribute__((visibility("default"))) toy::testing::FakeCublasLt toy_fake_cublaslt;
