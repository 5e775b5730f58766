// A team of threads that run one function together (SPMD). One region covers a complete step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace toy {

/// CPUs this process may use: the affinity mask, limited by the cgroup's CPU quota. At least 1.
int available_cpus();

/// Half-open range of work items.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Part `i` of `parts` nearly equal consecutive parts of [0, n).
inline Range part(int64_t n, int i, int parts) { return {n * i / parts, n * (i + 1) / parts}; }

/// Team of `size` threads, the caller being thread 0. Waits spin for microseconds, then sleep, so more threads
/// than cores do not stall. A team for all processors is pinned, the caller only while run() works.
class ThreadPool {
 public:
  /// size 0: available_cpus(). Throws Error{bad_input} for a negative size or above 1024.
  explicit ThreadPool(int size = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  /// Calls f(thread) on every thread of the team and returns when all are done. f must not throw.
  void run(const std::function<void(int)>& f);
  /// Calls f(thread, threads) on `threads` threads: all of them, or fewer while other programs need the processors, as
  /// waiting for members that wait for one costs more than doing their work. For results that no number changes.
  void run_some(const std::function<void(int, int)>& f);
  /// Waits for all threads that run; every one calls it, only inside run() and run_some().
  void barrier();
  /// 0, 1, 2, ... since the last barrier, each to one thread: dynamic scheduling, for cores
  /// that are not equally fast. Only inside run(), and for one piece of work between two barriers.
  int64_t claim() { return claimed_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Crowd;
  void region(int threads, const std::function<void(int, int)>& f);
  void worker(int thread);
  void stop();
  int size_, running_;  // threads in all; in this region
  int spins_;           // looks at a flag before a thread sleeps
  std::vector<std::thread> threads_;
  const std::function<void(int, int)>* function_ = nullptr;
  std::unique_ptr<Crowd> crowd_;
  std::atomic<bool> stop_{false}, pin_{false};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // regions begun, and in the low 11 bits how many threads this one has
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<int64_t> claimed_{0};
};

/// One thread of a team, for functions that all of its threads call with the same arguments (SPMD).
struct TeamMember {
  int thread = 0;
  int threads = 1;
  ThreadPool* pool = nullptr;  ///< the team; nullptr for a single thread

  void barrier() const {
    if (threads > 1) pool->barrier();
  }
  /// This thread's share of `items` equal work items, as one consecutive range.
  Range share(int64_t items) const { return part(items, thread, threads); }
};

}  // namespace toy
