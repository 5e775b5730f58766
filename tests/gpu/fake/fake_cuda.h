// What tests set and read of the CUDA driver in fake_cuda.cpp.
#pragma once

#include <cstddef>

namespace toy::testing {

struct FakeCuda {
  int version = 13000, devices = 1, major = 9, minor = 0;
  size_t memory = size_t(1) << 30;
  /// That function returns this instead of what it would; nullptr: none.
  const char* failing = nullptr;
  int result = 0;
  /// What is there now: memory, page-locked memory, streams, events, modules, graphs, contexts.
  int allocations = 0, pinned = 0, streams = 0, events = 0, modules = 0, graphs = 0, contexts = 0;
  /// What happened: kernels of the stream and of graphs.
  int launched = 0, replayed = 0;
};

}  // namespace toy::testing

extern "C" __attribute__((visibility("default"))) toy::testing::FakeCuda toy_fake_cuda;
