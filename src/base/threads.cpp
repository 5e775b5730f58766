#include "toy/base/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/processors.h"
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

// Thread t on the t-th allowed CPU. Without it Linux can leave two threads of a team on one core for many milliseconds,
// where it has as many threads as there are cores.
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

void bump(std::atomic<uint32_t>& a, uint32_t by = 1) {
  a.fetch_add(by, std::memory_order_release);
  a.notify_all();
}

void wait_change(std::atomic<uint32_t>& a, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (a.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (a.load(std::memory_order_acquire) == old) a.wait(old, std::memory_order_acquire);
}

constexpr uint32_t kRegion = 1 << 11, kThreads = kRegion - 1;  // of epoch_

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

// Watches some times a second whether threads wait for processors.
struct ThreadPool::Crowd {
  explicit Crowd(int threads) : size(threads), ids(size_t(threads)), before(size_t(threads)), waits(size_t(threads)) {}

  // After `ns` of a region. Looking takes microseconds for each thread.
  void look(int64_t ns) {
    worked += ns;
    if (worked < std::max<int64_t>(100'000'000, int64_t(ids.size()) * 2'000'000)) return;
    worked = 0;
    const int64_t now = now_ns(), elapsed = now - std::exchange(looked_at, now);
    const pid_t caller = gettid();
    bool known = caller == ids[0];
    ids[0] = caller;
    for (size_t t = 0; t < ids.size(); ++t) {
      const std::optional<int64_t> sum = waited_ns(ids[t]);
      known = known && sum && before[t];
      waits[t] = known ? *sum - *before[t] : 0;
      before[t] = sum;
    }
    if (!known) return;
    const TeamSize last = size;
    size.waited(elapsed, std::span(waits).first(size_t(last.now())));
    if (size.now() < last.now()) {
      patience = now - grown_at < 2 * kPatience ? std::min(2 * patience, 32 * kPatience) : kPatience;
      if (!watch(now)) size = last;  // it would never know when to grow
    } else if (!size.is_full() && now - watched.at >= patience) {
      grow(now);
    }
  }

  void grow(int64_t now) {
    const Watched then = watched;
    if (!watch(now) || !then.idle || !CPU_EQUAL(&then.processors, &watched.processors)) return;
    const int fewer = size.now();
    size.idle(now - then.at, *watched.idle - *then.idle);
    if (size.now() > fewer) grown_at = now;
  }

  bool watch(int64_t now) {
    watched = {process_cpus(), {}, now};
    watched.idle = idle_ns(watched.processors);
    return watched.idle.has_value();
  }

  // How long processors had been idle when.
  struct Watched {
    cpu_set_t processors;
    std::optional<int64_t> idle;
    int64_t at;
  };

  static constexpr int64_t kPatience = 250'000'000;  // ns
  TeamSize size;
  std::vector<std::atomic<pid_t>> ids;
  std::vector<std::optional<int64_t>> before;  // how long each had waited
  std::vector<int64_t> waits;
  int64_t worked = 0, looked_at = 0, grown_at = 0;
  int64_t patience = kPatience;  // before it grows; twice as long where that was followed by a fall
  Watched watched = {};
};

int available_cpus() {
  const cpu_set_t set = process_cpus();
  return std::max(1, std::min(CPU_COUNT(&set), cgroup_quota()));
}

// A thread that spins on a core which another thread of the team needs delays what it waits for.
ThreadPool::ThreadPool(int size)
    : size_(size == 0 ? available_cpus() : size), running_(size_), spins_(size_ <= available_cpus() ? 2000 : 20) {
  check(size >= 0 && size <= 1024, "threads: {} is not in 1 to 1024 (0 uses every core)", size);
  crowd_ = std::make_unique<Crowd>(size_);
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
  bump(epoch_, kRegion);
  for (auto& t : threads_) t.join();
}

void ThreadPool::run(const std::function<void(int)>& f) {
  region(size_, [&](int thread, int) { f(thread); });
}

void ThreadPool::run_some(const std::function<void(int, int)>& f) {
  if (size_ == 1) return region(1, f);
  const int64_t begin = now_ns();
  region(crowd_->size.now(), f);
  crowd_->look(now_ns() - begin);
}

void ThreadPool::region(int threads, const std::function<void(int, int)>& f) {
  running_ = threads;
  if (threads == 1) {
    f(0, 1);
    return barrier();
  }
  // The caller keeps its own mask outside of a region. A team that leaves processors free is placed better by the
  // system.
  const cpu_set_t before = process_cpus();
  const bool pinned = CPU_COUNT(&before) == threads && crowd_->size.is_full();
  if (pinned) pin(before, 0);
  function_ = &f;
  pin_.store(pinned, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  epoch_.store((epoch & ~kThreads) + kRegion + uint32_t(threads), std::memory_order_release);
  epoch_.notify_all();
  f(0, threads);
  barrier();
  if (pinned) sched_setaffinity(0, sizeof before, &before);
}

void ThreadPool::barrier() {
  const auto others = uint32_t(running_ - 1);  // the next region may change it once all have arrived
  if (others == 0) return claimed_.store(0, std::memory_order_relaxed);
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == others) {
    arrived_.store(0, std::memory_order_relaxed);
    claimed_.store(0, std::memory_order_relaxed);
    bump(phase_);
  } else {
    wait_change(phase_, phase, spins_);
  }
}

void ThreadPool::worker(int thread) {
  crowd_->ids[size_t(thread)] = gettid();
  const cpu_set_t allowed = process_cpus();
  bool pinned = false, runs = true;
  for (uint32_t seen = 0;;) {
    wait_change(epoch_, seen, runs ? spins_ : 0);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    runs = thread < int(seen & kThreads);
    if (!runs) continue;
    if (pin_.load(std::memory_order_relaxed) != pinned) {
      pinned = !pinned;
      if (pinned)
        pin(allowed, thread);
      else
        sched_setaffinity(0, sizeof allowed, &allowed);
    }
    (*function_)(thread, int(seen & kThreads));
    barrier();
  }
}

}  // namespace toy
