// The team of threads: everybody runs, barriers hold, more threads than cores do not stall. Also run under tsan.
#include "toy/base/threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/processors.h"
#include "toy/base/error.h"

namespace toy::threads_test {
namespace {

TEST(ThreadPool, EveryThreadRunsOnceInEachRegion) {
  for (const int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    std::vector<int> runs(size_t(size), 0);
    for (int i = 0; i < 200; ++i) pool.run([&](int t) { ++runs[size_t(t)]; });
    for (const int r : runs) EXPECT_EQ(r, 200);
  }
}

// Each phase reads what all threads wrote in the phase before: a barrier that let one through early would be seen.
TEST(ThreadPool, BarriersSeparatePhases) {
  for (const int size : {2, 3, 7}) {
    ThreadPool pool(size);
    std::vector<int64_t> a(size_t(size), 1), b(size_t(size), 0);
    pool.run([&](int t) {
      for (int phase = 0; phase < 50; ++phase) {
        b[size_t(t)] = std::accumulate(a.begin(), a.end(), int64_t(0)) % 1000003;
        pool.barrier();
        a[size_t(t)] = b[size_t((t + 1) % size)] + 1;
        pool.barrier();
      }
    });
    int64_t expected = 1;
    for (int phase = 0; phase < 50; ++phase) expected = expected * size % 1000003 + 1;
    for (const int64_t v : a) EXPECT_EQ(v, expected);
  }
}

// Each number goes to one thread, and they begin again behind a barrier and in the next region.
TEST(ThreadPool, ClaimsGoToOneThreadEach) {
  for (const int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    constexpr int64_t kItems = 1000;
    std::vector<int> done(kItems, 0);
    for (int region = 0; region < 20; ++region)
      pool.run([&](int) {
        for (int phase = 0; phase < 3; ++phase) {
          for (int64_t i = pool.claim(); i < kItems; i = pool.claim()) ++done[size_t(i)];
          pool.barrier();
        }
      });
    for (const int n : done) EXPECT_EQ(n, 60) << size;
  }
}

// Alone, some are all. Next to threads that take every processor, fewer run, each of them once, and barriers hold.
TEST(ThreadPool, SomeRunWhereOthersNeedTheProcessors) {
  ThreadPool pool(3);
  int fewest = 3;
  const auto region = [&] {
    std::atomic<int> members = 0, between = 0;
    int size = 0;
    pool.run_some([&](int thread, int threads) {
      if (thread == 0) size = threads;
      ++members;
      if (threads > 1) pool.barrier();
      if (members == threads) ++between;
    });
    EXPECT_EQ(members, size);
    EXPECT_EQ(between, size);
    fewest = std::min(fewest, size);
  };
  region();
  EXPECT_EQ(fewest, 3);
  if (!waited_ns(getpid())) GTEST_SKIP() << "this system does not say how long threads wait for processors";
  std::atomic<bool> done = false;
  std::vector<std::thread> busy;
  for (int i = 0; i < 2 * available_cpus(); ++i)
    busy.emplace_back([&] {
      while (!done) {
      }
    });
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       fewest > 1 && std::chrono::steady_clock::now() < end;)
    region();
  done = true;
  for (std::thread& t : busy) t.join();
  EXPECT_EQ(fewest, 1);
  // It grows again, unless other programs take the processors for as long as this waits.
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const int64_t free_before = *idle_ns(all);
  int most = 1;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
       most == 1 && std::chrono::steady_clock::now() < end && *idle_ns(all) - free_before < 4'000'000'000;)
    pool.run_some([&](int thread, int threads) {
      if (thread == 0) most = std::max(most, threads);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  if (*idle_ns(all) - free_before > 3'000'000'000) {
    EXPECT_GT(most, 1);
  }
  std::vector<int> runs(3, 0);
  pool.run([&](int t) { ++runs[size_t(t)]; });
  EXPECT_EQ(runs, std::vector<int>(3, 1));
}

TEST(TeamSize, FallsAsThreadsWaitAndGrowsAsProcessorsAreIdle) {
  TeamSize size(8);
  const std::vector<int64_t> short_waits(8, 20);
  size.waited(100, short_waits);
  EXPECT_EQ(size.now(), 8);
  size.waited(100, std::vector<int64_t>{0, 0, 0, 50, 0, 0, 0, 0});  // another program has half of one processor
  EXPECT_EQ(size.now(), 7);
  size.waited(100, std::vector<int64_t>{50, 50, 50, 50, 50, 50, 50, 0});
  EXPECT_EQ(size.now(), 3);
  size.waited(100, std::vector<int64_t>{90, 90, 90, 0, 0, 0, 0, 0});
  EXPECT_EQ(size.now(), 1);
  EXPECT_FALSE(size.is_full());
  size.idle(100, 60);
  EXPECT_EQ(size.now(), 1);
  size.idle(100, -1'000'000);  // processors were taken from the set
  EXPECT_EQ(size.now(), 1);
  size.idle(100, 190);
  EXPECT_EQ(size.now(), 3);
  size.idle(100, 1600);
  EXPECT_TRUE(size.is_full());
}

TEST(Processors, SayHowLongTheyAreIdleAndAreWaitedFor) {
  const std::optional<int64_t> waited = waited_ns(getpid());
  if (!waited) GTEST_SKIP() << "this system does not say how long threads wait for processors";
  EXPECT_GE(*waited, 0);
  EXPECT_FALSE(waited_ns(0));
  cpu_set_t all, none;
  CPU_ZERO(&none);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_FALSE(idle_ns(none));
  const std::optional<int64_t> before = idle_ns(all);
  ASSERT_TRUE(before);
  EXPECT_GE(idle_ns(all), before);  // a processor that is idle only counts on
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1025), Error);
  EXPECT_GE(ThreadPool(0).size(), 1);
}

TEST(Part, CoversEverythingOnce) {
  for (int64_t n = 0; n < 30; ++n)
    for (int parts = 1; parts < 9; ++parts) {
      int64_t at = 0;
      for (int i = 0; i < parts; ++i) {
        const Range r = part(n, i, parts);
        EXPECT_EQ(r.begin, at);
        at = r.end;
      }
      EXPECT_EQ(at, n);
    }
}

}  // namespace
}  // namespace toy::threads_test
