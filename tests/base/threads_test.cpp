// The team of threads: everybody runs, barriers hold, more threads than cores do not stall. Also run under tsan.
#include "toy/base/threads.h"

#include <gtest/gtest.h>

#include <numeric>

#include "toy/base/error.h"

namespace toy {
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
}  // namespace toy
