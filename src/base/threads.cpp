#include "toy/base/threads.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "toy/base/error.h"

namespace toy {
namespace {

cpu_set_t process_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
  return set;
}

// cgroup v2 writes "max 100000" or "200000 100000" (quota and period in microseconds).
int cgroup_quota() {
  std::FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "r");
  if (!f) return 1 << 20;
  char quota[32] = {};
  long period = 0;
  const int n = std::fscanf(f, "%31s %ld", quota, &period);
  std::fclose(f);
  if (n != 2 || std::strcmp(quota, "max") == 0 || period <= 0) return 1 << 20;
  return std::max(1, int((std::atol(quota) + period - 1) / period));
}

// Thread t on the t-th allowed CPU. Without it Linux can leave two static halves on one core for many milliseconds.
void pin(const cpu_set_t& allowed, int t) {
  int skip = t % std::max(1, CPU_COUNT(&allowed));
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &allowed) && skip-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(c, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void bump(std::atomic<uint32_t>& a) {
  a.fetch_add(1, std::memory_order_release);
  a.notify_all();
}

void wait_change(std::atomic<uint32_t>& a, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (a.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (a.load(std::memory_order_acquire) == old) a.wait(old, std::memory_order_acquire);
}

}  // namespace

int available_cpus() {
  const cpu_set_t set = process_cpus();
  return std::max(1, std::min(CPU_COUNT(&set), cgroup_quota()));
}

// A thread that spins on a core which another thread of the team needs delays what it waits for.
ThreadPool::ThreadPool(int size)
    : size_(size == 0 ? available_cpus() : size), spins_(size_ <= available_cpus() ? 2000 : 20) {
  check(size >= 0 && size <= 1024, "threads: {} is not in 1 to 1024 (0 uses every core)", size);
  try {
    for (int t = 1; t < size_; ++t) threads_.emplace_back([this, t] { worker(t); });
  } catch (const std::system_error& e) {
    const size_t started = threads_.size() + 1;
    stop();
    fail("threads: the system gave {} of {} ({}); use a smaller --threads", started, size_, e.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  bump(epoch_);
  for (auto& t : threads_) t.join();
}

void ThreadPool::run(const std::function<void(int)>& f) {
  if (size_ == 1) {
    f(0);
    return barrier();
  }
  // The caller keeps its own mask outside of a region; with fewer cores than threads pinning would only hurt.
  const cpu_set_t before = process_cpus();
  const bool pinned = CPU_COUNT(&before) >= size_;
  if (pinned) pin(before, 0);
  function_ = &f;
  bump(epoch_);
  f(0);
  barrier();
  if (pinned) sched_setaffinity(0, sizeof before, &before);
}

void ThreadPool::barrier() {
  if (size_ == 1) return claimed_.store(0, std::memory_order_relaxed);
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == uint32_t(size_ - 1)) {
    arrived_.store(0, std::memory_order_relaxed);
    claimed_.store(0, std::memory_order_relaxed);
    bump(phase_);
  } else {
    wait_change(phase_, phase, spins_);
  }
}

void ThreadPool::worker(int thread) {
  const cpu_set_t allowed = process_cpus();
  if (CPU_COUNT(&allowed) >= size_) pin(allowed, thread);
  for (uint32_t seen = 0;;) {
    wait_change(epoch_, seen, spins_);
    ++seen;
    if (stop_) return;
    (*function_)(thread);
    barrier();
  }
}

}  // namespace toy
