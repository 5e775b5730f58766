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
/// Exponentials a second (1e9), on values in the first-level cache: the unit of transcendental functions.
double exp_gops(ThreadPool& pool);
/// GFLOP/s of the bf16 dot product instruction; 0 where the machine has none.
double bf16_dot_gflops(ThreadPool& pool);
/// GOP/s of int8 dot products, with VNNI or AVX2 (a multiplication and an addition each count); 0 on other machines.
double int8_dot_gops(ThreadPool& pool);
/// GFLOP/s of products of bf16 tiles (AMX); 0 where the machine has none.
double bf16_tile_gflops(ThreadPool& pool);
/// GOP/s of products of int8 tiles (AMX); 0 where the machine has none.
double int8_tile_gops(ThreadPool& pool);

/// GB/s of reading `floats` floats from memory with all threads.
double read_gbs(ThreadPool& pool, const float* p, size_t floats);
/// GB/s of reading, and of copying (bytes read and written both count), when every thread goes through its own `bytes`
/// again and again: the bandwidth of the level of memory that holds them. `bytes` is a multiple of 16 KiB.
double read_level_gbs(ThreadPool& pool, size_t bytes);
double copy_level_gbs(ThreadPool& pool, size_t bytes);

/// Seconds that a barrier of the team takes.
double barrier_seconds(ThreadPool& pool);
/// The instruction set that the kernels of this process use: "AVX3", "AVX2", "SSSE3", "NEON".
const char* instruction_set();

}  // namespace toy::bench
