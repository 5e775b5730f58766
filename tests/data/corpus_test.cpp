#include "toy/data/corpus.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

#include "testing/errors.h"
#include "toy/base/error.h"

namespace toy::corpus_test {
namespace {

using testing::message_of;

std::vector<int32_t> counted(int64_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(WindowSampler, TargetsAreTheNextIds) {
  const std::vector<int32_t> ids = counted(1000);
  const Windows batch = WindowSampler(ids, 4, 16, 1).batch(3);
  ASSERT_EQ(batch.inputs.size(), 64u);
  ASSERT_EQ(batch.targets.size(), 64u);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(batch.inputs[i], batch.inputs[i / 16 * 16] + int32_t(i % 16));
}

// What a step's rows are does not depend on how they are dealt out: any batch of them can be had by itself.
TEST(Windows, APartIsWhatItsRowsAreByThemselves) {
  const std::vector<int32_t> ids = counted(1000);
  const WindowSampler sampler(ids, 6, 16, 1);
  const Windows step = sampler.batch(2);
  for (int64_t k = 0; k < 3; ++k) {
    const Windows part = step.part(k * 32, 32), alone = sampler.windows(2 * 6 + 2 * k, 2);
    EXPECT_EQ(part.inputs, alone.inputs);
    EXPECT_EQ(part.targets, alone.targets);
    EXPECT_TRUE(part.sequence.empty() && part.position.empty() && part.trained.empty() && part.answers.empty());
  }
  const Windows packed{{1, 2, 3, 4}, {2, 3, 4, 5}, {7, 7, 8, 8},
                       {0, 1, 0, 1}, {0, 1, 0, 1}, {{0, 2, true, 5}, {2, 2, false, 6}}};
  const Windows second = packed.part(2, 2);
  EXPECT_EQ(second.sequence, (std::vector<int32_t>{8, 8}));
  EXPECT_EQ(second.position, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(second.trained, (std::vector<uint8_t>{0, 1}));
  ASSERT_EQ(second.answers.size(), 1u);
  EXPECT_EQ(second.answers[0].first, 0);
  EXPECT_EQ(second.answers[0].places, 2);
  EXPECT_FALSE(second.answers[0].chosen);
  EXPECT_EQ(second.answers[0].id, 6);
}

// Windows of one epoch: all the places at stride T from one start, each once. Batches cross the ends of
// epochs.
TEST(WindowSampler, EpochCoversTheTextOnce) {
  for (const int64_t tokens : {1, 7, 16}) {
    for (const int64_t count : {2 * tokens, 5 * tokens + 1, 1000 * tokens + 3}) {
      const std::vector<int32_t> ids = counted(count);
      const WindowSampler sampler(ids, 3, tokens, 42);
      const int64_t per_epoch = sampler.rows();
      EXPECT_GE(per_epoch, std::max<int64_t>(1, count / tokens - 1));
      std::vector<int64_t> begins;
      for (int64_t step = 0; step < per_epoch; ++step) {  // three epochs
        const Windows batch = sampler.batch(step);
        for (size_t b = 0; b < 3; ++b) begins.push_back(batch.inputs[b * size_t(tokens)]);
      }
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const std::set<int64_t> seen(begins.begin() + epoch * per_epoch, begins.begin() + (epoch + 1) * per_epoch);
        ASSERT_EQ(int64_t(seen.size()), per_epoch);
        EXPECT_LT(*seen.begin(), tokens);
        EXPECT_EQ(*seen.rbegin() - *seen.begin(), (per_epoch - 1) * tokens);
        for (const int64_t begin : seen) EXPECT_EQ((begin - *seen.begin()) % tokens, 0);
      }
    }
  }
}

TEST(WindowSampler, EpochsDifferInStartAndOrder) {
  const std::vector<int32_t> ids = counted(64 * 100);
  const WindowSampler sampler(ids, 1, 64, 5);
  std::set<int32_t> starts;
  std::set<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    std::vector<int32_t> order;
    for (int64_t i = 0; i < sampler.rows(); ++i) {
      order.push_back(sampler.batch(epoch * sampler.rows() + i).inputs[0]);
    }
    starts.insert(order[0] % 64);
    for (int32_t& place : order) place /= 64;
    orders.insert(order);
  }
  EXPECT_GT(starts.size(), 4u);
  EXPECT_EQ(orders.size(), 8u);
}

// The order of an epoch is shuffled: neighbours in time are as far apart in the text as chance has them
// (n/3).
TEST(WindowSampler, OrderLooksRandom) {
  const std::vector<int32_t> ids = counted(30001);
  const WindowSampler sampler(ids, 1, 1, 9);
  double distance = 0;
  for (int64_t step = 0; step + 1 < 20000; ++step) {
    distance += std::abs(sampler.batch(step + 1).inputs[0] - sampler.batch(step).inputs[0]);
  }
  EXPECT_NEAR(distance / 20000, 10000, 300);  // the mean of |x - y| has deviation 0.24 n / sqrt(20000) = 50
}

TEST(WindowSampler, AnyStepAloneAndFromAnyThread) {
  const std::vector<int32_t> ids = counted(5000);
  const WindowSampler sampler(ids, 8, 32, 3);
  std::vector<Windows> expected, got(100);
  for (int64_t step = 0; step < 100; ++step) expected.push_back(WindowSampler(ids, 8, 32, 3).batch(step));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t step = 100 - 4 + t; step < 100; step -= 4) got[step] = sampler.batch(int64_t(step));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t step = 0; step < 100; ++step) EXPECT_EQ(got[step].inputs, expected[step].inputs);
  EXPECT_NE(WindowSampler(ids, 8, 32, 4).batch(0).inputs, expected[0].inputs);
}

// A cursor in windows goes on wherever a batch of another size has stopped.
TEST(WindowSampler, WindowsAreOneSequenceHoweverTheyAreTaken) {
  const std::vector<int32_t> ids = counted(100);
  const WindowSampler sampler(ids, 3, 8, 1);
  const Windows all = sampler.windows(0, 60);  // five epochs
  std::vector<int32_t> taken;
  int64_t cursor = 0;
  for (const int64_t count : {3, 1, 7, 0, 40, 9}) {
    const Windows some = sampler.windows(cursor, count);
    taken.insert(taken.end(), some.inputs.begin(), some.inputs.end());
    cursor += count;
  }
  EXPECT_EQ(taken, all.inputs);
  EXPECT_EQ(sampler.batch(4).targets, sampler.windows(12, 3).targets);
  EXPECT_THROW(sampler.windows(-1, 1), Error);
}

TEST(WindowSampler, ShortTexts) {
  const std::vector<int32_t> ids = counted(17);
  EXPECT_EQ(WindowSampler(ids, 2, 16, 0).batch(9).inputs[31], 15);  // one window only
  EXPECT_EQ(message_of([&] { WindowSampler(ids, 2, 17, 0); }),
            "the text is too short: it has 17 tokens, and a window of 17 tokens needs "
            "18; give a "
            "longer text or shorter windows (--tokens)");
  EXPECT_THROW(WindowSampler(ids, 0, 4, 0), Error);
  EXPECT_THROW(WindowSampler(ids, 1, 0, 0), Error);
  EXPECT_THROW(WindowSampler(ids, 1, 4, 0).batch(-1), Error);
}

TEST(EvalWindows, CoverEveryTargetOnce) {
  for (int64_t ids = 0; ids < 40; ++ids) {
    for (int64_t tokens = 1; tokens < 12; ++tokens) {
      int64_t next = 0;
      for (const EvalWindow& window : eval_windows(ids, tokens)) {
        EXPECT_EQ(window.begin, next);
        EXPECT_GE(window.tokens, 1);
        EXPECT_LE(window.tokens, tokens);
        next += window.tokens;
      }
      EXPECT_EQ(next, std::max<int64_t>(0, ids - 1));
    }
  }
  EXPECT_THROW(eval_windows(5, 0), Error);
}

TEST(EvalWindows, OverlappingOnesCountEveryTargetOnce) {
  for (int64_t ids = 0; ids < 40; ++ids)
    for (int64_t tokens = 1; tokens < 12; ++tokens)
      for (int64_t stride = 1; stride <= tokens; ++stride) {
        std::vector<int> counted(size_t(ids), 0);
        for (const EvalWindow& w : eval_windows(ids, tokens, stride)) {
          for (int64_t t = w.skip; t < w.tokens; ++t) ++counted[size_t(w.begin + t + 1)];
          if (w.begin > 0) {
            EXPECT_GE(w.skip, std::min(tokens - stride, w.tokens - 1));
          }
        }
        for (int64_t i = 1; i < ids; ++i) EXPECT_EQ(counted[size_t(i)], 1);
      }
  EXPECT_THROW(eval_windows(5, 4, 5), Error);
}

// Taken in batches of any size, the rows are these windows, and targets that count are each once.
TEST(TextRows, AreTheWindowsOfAnEvaluation) {
  constexpr int64_t kTokens = 8;
  for (const int64_t n : {0, 1, 2, 8, 9, 10, 11, 33}) {
    const auto ids = counted(n);
    const TextRows rows(ids, kTokens);
    for (const int64_t limit : {0, 1, 5, 8, 9, 20, 100}) {
      const int64_t read = limit > 0 ? std::min(limit + 1, n) : n;
      const std::vector<EvalWindow> windows = eval_windows(read, kTokens, kTokens / 4);
      EXPECT_EQ(rows.rows_for(limit), int64_t(windows.size()));
      std::set<int32_t> targets;
      for (int64_t first = 0; first < rows.rows_for(limit); first += 3) {
        const Windows w = rows.validation(first, 3, limit);
        EXPECT_EQ(w.inputs.size() % kTokens, 0u);
        for (size_t i = 0; i < w.inputs.size(); ++i) {
          const EvalWindow& window = windows[size_t(first) + i / kTokens];
          if (!w.counts(i)) continue;
          EXPECT_GE(int64_t(i % kTokens), window.skip);
          EXPECT_EQ(w.inputs[i], window.begin + int64_t(i % kTokens));
          EXPECT_EQ(w.targets[i], w.inputs[i] + 1);
          EXPECT_TRUE(targets.insert(w.targets[i]).second);
        }
      }
      EXPECT_EQ(int64_t(targets.size()), std::max<int64_t>(0, read - 1));
      EXPECT_TRUE(rows.validation(rows.rows_for(limit), 3, limit).inputs.empty());
    }
  }
}

}  // namespace
}  // namespace toy::corpus_test
