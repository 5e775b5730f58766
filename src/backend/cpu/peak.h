// Yardsticks of the machine at hand, measured next to what is judged by them.
#pragma once

#include <time.h>

#include <cstddef>

#include "toy/base/threads.h"

namespace toy::bench {

/// Seconds. With cpu_time only the calling thread's own time counts: for a team of one on a machine that is
/// busy.
inline bool cpu_time = false;
inline double now() {
  timespec t;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

/// f32 GFLOP/s of independent multiply-adds in registers on all threads of the team; about a millisecond.
double fma_gflops(ThreadPool& pool);

/// GB/s of reading `floats` floats from memory with all threads.
double read_gbs(ThreadPool& pool, const float* p, size_t floats);

}  // namespace toy::bench
