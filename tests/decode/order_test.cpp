// Who is computed first, and how much of a call a prompt gets: pauses of streams, shares, priorities, deadlines. None
// of it changes a bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "decode/piece_size.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"
#include "toy/decode/scheduler.h"

namespace toy::order_test {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<int32_t>;

constexpr int32_t kVocab = 61;

Tokens tokens(size_t n, uint64_t which) { return testing::random_ids(n, kVocab, Philox(which, "order")); }

// Calls take `fixed` seconds and `row` for each row of a prompt.
double call_seconds(const PieceSize& size, double fixed, double row) { return fixed + row * double(size.rows()); }

TEST(PieceSize, ComesCloseToTheTime) {
  for (const double fixed : {0.0, 0.01, 0.1})
    for (const double row : {0.0001, 0.001, 0.003}) {
      PieceSize size(0.15, 256);
      for (int call = 0; call < 40; ++call) {
        EXPECT_LE(call_seconds(size, fixed, row), call == 0  ? 1
                                                  : call < 8 ? 0.2
                                                             : 0.16)
            << fixed << " " << row << " " << call;
        size.learn(size.rows(), call_seconds(size, fixed, row));
      }
      if (size.rows() < 256) {
        EXPECT_GT(call_seconds(size, fixed, row), 0.13) << fixed << " " << row;
      }
    }
}

TEST(PieceSize, HasALeastAndAMost) {
  PieceSize size(0.15, 256);
  size.learn(size.rows(), 100);
  EXPECT_EQ(size.rows(), PieceSize::kLeast);
  for (int i = 0; i < 20; ++i) size.learn(size.rows(), 0.15 * 1.5);
  EXPECT_EQ(size.rows(), PieceSize::kLeast);
  for (int i = 0; i < 20; ++i) {
    const size_t before = size.rows();
    size.learn(before, 1e-6);
    EXPECT_LE(size.rows(), 2 * before);
  }
  EXPECT_EQ(size.rows(), 256u);
}

// The end of a prompt is a small piece and takes little: that says nothing of larger ones.
TEST(PieceSize, AShortPromptChangesNothing) {
  PieceSize size(0.15, 256);
  size.learn(32, 0.08);
  const size_t before = size.rows();
  size.learn(3, 0.03);
  size.learn(0, 5);
  EXPECT_EQ(size.rows(), before);
}

class OrderTest : public ::testing::Test {
 protected:
  static ModelSpec small_spec() {
    return testing::small_model("tiny", {.vocab = kVocab,
                                         .d_model = 40,
                                         .context = 400,
                                         .tied = false,
                                         .heads = 6,
                                         .kv_heads = 2,
                                         .d_head = 10,
                                         .d_ff = 52});
  }
  // A request that keeps its result, and its place among the others that end.
  GenerateRequest request(const std::string& name, Tokens prompt, int64_t n) {
    GenerateRequest r{.prompt = std::move(prompt), .eos = {}, .options = {.max_tokens = n}};
    r.on_token = [this, name](const GeneratedToken&) { return ++written_[name] > 0; };
    r.on_done = [this, name](const Generated& g) {
      ended_.push_back(name);
      results_[name] = g;
    };
    return r;
  }
  std::vector<GeneratedToken> alone(const Tokens& prompt, int64_t n) {
    Decoder d(*device_, model_, {});
    return generate(d, 0, prompt, {}, {.max_tokens = n});
  }
  static void expect_same(const std::vector<GeneratedToken>& a, const std::vector<GeneratedToken>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].chosen.id, b[i].chosen.id) << i;
      EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob) << i;  // to the bit
    }
  }
  // A cache of so many pages.
  DecoderOptions paged(int sequences, int64_t pages) const {
    return {.sequences = sequences, .cache = size_t(pages) * shared_page_bytes(model_.spec, decode_shape(model_, {}))};
  }
  static int64_t positions(Decoder& d) {
    int64_t n = 0;
    for (int s = 0; s < d.state().sequences(); ++s) n += d.state().length(s);
    return n;
  }

  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(small_spec(), *device_, 3, 2.0);
  std::map<std::string, int> written_;
  std::vector<std::string> ended_;
  std::map<std::string, Generated> results_;
};

// With a pause that no call can keep, prompts are read in the least pieces while a text is written, and only then.
TEST_F(OrderTest, StreamsBoundThePiecesOfPrompts) {
  Decoder d(*device_, model_, {.sequences = 3, .max_rows = 64});
  Scheduler s(d);
  s.limit_pause(1e-12);
  s.add(request("alone", tokens(200, 1), 12));
  for (const int64_t read : {64, 64, 64, 8}) {  // nobody waits for tokens
    const int64_t before = positions(d);
    ASSERT_TRUE(s.step());
    EXPECT_EQ(positions(d) - before, read);
  }
  s.add(request("long", tokens(300, 2), 2));
  for (int call = 1; call <= 11; ++call) {
    const int64_t before = positions(d);
    ASSERT_TRUE(s.step());
    EXPECT_EQ(written_["alone"], call + 1);  // one token in each call
    EXPECT_EQ(positions(d) - before, 1 + int64_t(PieceSize::kLeast)) << call;
  }
  const int64_t before = positions(d);
  ASSERT_TRUE(s.step());  // the stream has ended
  EXPECT_EQ(positions(d) - before, 64);
  s.run();
  expect_same(results_["alone"].tokens, alone(tokens(200, 1), 12));
  expect_same(results_["long"].tokens, alone(tokens(300, 2), 2));
}

// Where calls are faster than the pause, pieces grow to all the room.
TEST_F(OrderTest, FastCallsHaveLargePieces) {
  Decoder d(*device_, model_, {.sequences = 2, .max_rows = 256});
  Scheduler s(d);
  s.limit_pause(1e6);
  s.add(request("stream", tokens(2, 1), 30));
  ASSERT_TRUE(s.step());
  s.add(request("long", tokens(380, 2), 1));
  std::vector<int64_t> rows;
  for (int call = 0; call < 3; ++call) {
    const int64_t before = positions(d);
    ASSERT_TRUE(s.step());
    rows.push_back(positions(d) - before - 1);
  }
  EXPECT_GE(rows[0], 32);
  EXPECT_EQ(rows[1], std::min<int64_t>(2 * rows[0], 255));
}

// With many streams a prompt has as many rows as they have: it advances however slow they are.
TEST_F(OrderTest, PromptsHaveAsManyRowsAsTexts) {
  Decoder d(*device_, model_, {.sequences = 21, .max_rows = 256});
  Scheduler s(d);
  s.limit_pause(1e-12);
  for (uint64_t i = 0; i < 20; ++i) s.add(request("stream", tokens(2, i), 30));
  ASSERT_TRUE(s.step());
  s.add(request("long", tokens(200, 50), 1));
  const int64_t before = positions(d);
  ASSERT_TRUE(s.step());
  EXPECT_EQ(positions(d) - before, 20 + 20);
}

TEST_F(OrderTest, APauseIsMoreThanNothing) {
  Decoder d(*device_, model_, {});
  Scheduler s(d);
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(s.limit_pause(seconds), Error) << seconds;
}

// Sizes of pieces follow the clock, and differ from run to run. Bits do not.
TEST_F(OrderTest, TheSameBitsWithAnyPause) {
  for (const char* json :
       {static_cast<const char*>(nullptr), testing::kQwen35, testing::kHybridWithWindows, testing::kOnlyRecurrent}) {
    if (json) model_ = random_model(spec_from_json(nlohmann::json::parse(json), "test"), *device_, 3, 2.0);
    const auto prompt = [](size_t i) { return tokens(i % 3 == 0 ? 130 : 3 + 7 * i, i % 4 == 3 ? 3 : i); };
    std::vector<std::vector<GeneratedToken>> expected;
    for (size_t i = 0; i < 9; ++i) expected.push_back(alone(prompt(i), int64_t(4 + 5 * i)));
    for (const double pause : {1e-12, 1e-4, 3e-4, 1e-3, 1e6}) {
      Decoder d(*device_, model_, {.sequences = 4, .max_rows = 64});
      Scheduler s(d);
      s.limit_pause(pause);
      for (size_t i = 0; i < 9; ++i) s.add(request(std::to_string(i), prompt(i), int64_t(4 + 5 * i)));
      s.run();
      for (size_t i = 0; i < 9; ++i) expect_same(results_.at(std::to_string(i)).tokens, expected[i]);
    }
  }
}

// Priorities, a full cache, proposed tokens and small pieces at once: whoever is preempted or passed, the bits stay.
TEST_F(OrderTest, TheSameBitsInAnyOrder) {
  const auto prompt = [](size_t i) { return tokens(i % 3 == 0 ? 150 : 5 + 9 * i, i % 4 == 3 ? 3 : i); };
  std::vector<std::vector<GeneratedToken>> expected;
  for (size_t i = 0; i < 12; ++i) expected.push_back(alone(prompt(i), int64_t(10 + 3 * i)));
  int64_t preemptions = 0;
  for (const double pause : {1e-12, 3e-4})
    for (const uint64_t seed : {1, 2, 3}) {
      Decoder d(*device_, model_, paged(4, 5));
      Scheduler s(d);
      s.limit_pause(pause);
      s.speculate({.ngrams = true});
      const Philox random(seed, "priorities");
      const auto add = [&](size_t i) {
        GenerateRequest r = request(std::to_string(i), prompt(i), int64_t(10 + 3 * i));
        r.priority = int(random.below(i, 5)) - 2;
        s.add(std::move(r));
      };
      for (size_t i = 0; i < 12; ++i) {  // they come while others run
        add(i);
        for (int call = 0; call < 4; ++call) s.step();
      }
      s.run();
      for (size_t i = 0; i < 12; ++i) expect_same(results_.at(std::to_string(i)).tokens, expected[i]);
      results_.clear();
      preemptions += s.preemptions();
    }
  EXPECT_GT(preemptions, 0);
}

// Half of a call is for the first prompt, the other half for the shortest ones: a short prompt does not wait for a long
// one, and the long one is not slower than half, however many short ones come.
TEST_F(OrderTest, ShortPromptsPassLongOnes) {
  Decoder d(*device_, model_, {.sequences = 3, .max_rows = 16});
  Scheduler s(d);
  s.add(request("long", tokens(320, 1), 1));
  s.add(request("longer", tokens(390, 2), 1));
  int calls = 0, shorts = 0;
  const auto add_short = [&] {
    ++shorts;
    s.add(request("short " + std::to_string(shorts), tokens(8, 100 + uint64_t(shorts)), 1));
  };
  add_short();
  while (!results_.contains("long")) {
    ASSERT_TRUE(s.step());
    ++calls;
    EXPECT_TRUE(results_.contains("short " + std::to_string(shorts))) << "it waits for a long one";
    add_short();
  }
  EXPECT_EQ(calls, 320 / 8);
  while (!results_.contains("longer")) {  // which is the first now, and has advanced by nothing before
    ASSERT_TRUE(s.step());
    ++calls;
    if (calls < 1000) add_short();
  }
  EXPECT_LE(calls, 320 / 8 + 390 / 8 + 2);
}

// What the first prompts leave of a call is for later ones: no row is lost.
TEST_F(OrderTest, CallsAreFull) {
  Decoder d(*device_, model_, {.sequences = 4, .max_rows = 32});
  Scheduler s(d);
  for (const size_t n : {3, 100, 7, 150}) s.add(request(std::to_string(n), tokens(n, n), 1));
  for (int64_t left = 260; left > 0;) {
    const int64_t before = positions(d);
    ASSERT_TRUE(s.step());
    EXPECT_EQ(positions(d) - before, std::min<int64_t>(32, left));
    left -= 32;
  }
  EXPECT_EQ(results_.size(), 4u);
}

TEST_F(OrderTest, PriorityThenArrival) {
  Decoder d(*device_, model_, {.sequences = 1});
  Scheduler s(d);
  const auto add = [&](const std::string& name, int priority) {
    GenerateRequest r = request(name, tokens(3, 1), 2);
    r.priority = priority;
    s.add(std::move(r));
  };
  add("a 0", 0), add("b 5", 5), add("c -1", -1), add("d 0", 0), add("e -1", -1), add("f min", INT32_MIN);
  s.run();
  EXPECT_EQ(ended_, (std::vector<std::string>{"f min", "c -1", "e -1", "a 0", "d 0", "b 5"}));
}

// Calls are for the prompts of a lower value as long as these can use them.
TEST_F(OrderTest, PriorityHasTheRoomOfCalls) {
  Decoder d(*device_, model_, {.sequences = 3, .max_rows = 16});
  Scheduler s(d);
  s.add(request("early", tokens(60, 1), 1));
  for (const char* name : {"urgent 1", "urgent 2"}) {
    GenerateRequest r = request(name, tokens(40, name[7]), 1);
    r.priority = -3;
    s.add(std::move(r));
  }
  for (int call = 0; call < 5; ++call) ASSERT_TRUE(s.step());
  EXPECT_EQ(ended_, (std::vector<std::string>{"urgent 1", "urgent 2"}));
  EXPECT_EQ(positions(d), 80);  // all rows were theirs
  s.run();
  EXPECT_EQ(ended_.back(), "early");
}

// A text of a later priority makes room in the cache, although it came first, and has its bits afterwards.
TEST_F(OrderTest, PriorityDecidesWhoIsPreempted) {
  for (const int priority : {0, 7}) {
    Decoder d(*device_, model_, paged(2, 4));
    Scheduler s(d);
    written_.clear(), ended_.clear(), results_.clear();
    GenerateRequest first = request("first", tokens(150, 1), 30);
    first.priority = priority;
    s.add(std::move(first));
    for (int call = 0; call < 5; ++call) ASSERT_TRUE(s.step());
    ASSERT_EQ(written_["first"], 5);
    s.add(request("second", tokens(140, 2), 20));
    s.run();
    expect_same(results_["first"].tokens, alone(tokens(150, 1), 30));
    expect_same(results_["second"].tokens, alone(tokens(140, 2), 20));
    EXPECT_EQ(s.preemptions(), priority > 0);
    EXPECT_EQ(ended_.front(), priority > 0 ? "second" : "first");
  }
}

// A prompt that shares its beginning with one of a later priority does not wait for that one.
TEST_F(OrderTest, PriorityDoesNotWaitForASharedPrefix) {
  Decoder d(*device_, model_, {.sequences = 2, .max_rows = 16});
  Scheduler s(d);
  GenerateRequest later = request("later", tokens(200, 1), 1);
  later.priority = 1;
  s.add(std::move(later));
  ASSERT_TRUE(s.step());
  s.add(request("sooner", tokens(150, 1), 1));
  int calls = 0;
  for (; !results_.contains("sooner"); ++calls) ASSERT_TRUE(s.step());
  EXPECT_EQ(calls, (150 + 15) / 16);
  expect_same(results_["sooner"].tokens, alone(tokens(150, 1), 1));
}

// Waiting for a sequence, reading its prompt, and writing: a text ends with what it has once its time is over.
TEST_F(OrderTest, ADeadlineEndsAText) {
  Decoder d(*device_, model_, {.sequences = 2, .max_rows = 16});
  Scheduler s(d);
  GenerateRequest writing = request("writing", tokens(3, 1), 100), reading = request("reading", tokens(300, 2), 5),
                  waiting = request("waiting", tokens(4, 3), 5), patient = request("patient", tokens(5, 4), 5);
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(800);
  writing.deadline = reading.deadline = waiting.deadline = deadline;
  patient.deadline = Clock::now() + std::chrono::hours(10);
  writing.on_token = [&](const GeneratedToken&) {
    if (++written_["writing"] == 3) std::this_thread::sleep_until(deadline);
    return true;
  };
  s.add(std::move(writing)), s.add(std::move(reading)), s.add(std::move(waiting)), s.add(std::move(patient));
  for (int call = 0; call < 4; ++call) ASSERT_TRUE(s.step());
  EXPECT_EQ(ended_, (std::vector<std::string>{"writing", "reading", "waiting"}));
  s.run();
  std::vector<GeneratedToken> expected = alone(tokens(3, 1), 100);
  expected.resize(3);
  expect_same(results_["writing"].tokens, expected);
  for (const char* name : {"writing", "reading", "waiting"})
    EXPECT_EQ(results_[name].reason, FinishReason::deadline) << name;
  EXPECT_TRUE(results_["reading"].tokens.empty() && results_["waiting"].tokens.empty());
  EXPECT_EQ(results_["patient"].reason, FinishReason::length);
  expect_same(results_["patient"].tokens, alone(tokens(5, 4), 5));
}

// What is told of the end may add a request, and may throw: then the others have their tokens.
TEST_F(OrderTest, CallbacksOfTheEndAreFree) {
  Decoder d(*device_, model_, {.sequences = 2});
  Scheduler s(d);
  GenerateRequest late = request("late", tokens(3, 1), 5);
  late.deadline = Clock::now();
  late.on_done = [&](const Generated&) {
    s.add(request("next", tokens(3, 2), 2));
    throw std::runtime_error("no");
  };
  s.add(std::move(late));
  s.add(request("other", tokens(3, 3), 2));
  EXPECT_THROW(s.step(), std::runtime_error);
  EXPECT_EQ(written_["other"], 1);
  EXPECT_EQ(written_["next"], 1);
  s.run();
  expect_same(results_["next"].tokens, alone(tokens(3, 2), 2));
  // Where nothing is left to compute, the error is thrown as well.
  GenerateRequest last = request("last", tokens(3, 1), 5);
  last.deadline = Clock::now();
  last.on_done = [](const Generated&) { throw std::runtime_error("no"); };
  s.add(std::move(last));
  EXPECT_THROW(s.step(), std::runtime_error);
  EXPECT_FALSE(s.step());
}

// Pages of a text that is cancelled or late are there for the next one in the very next call.
TEST_F(OrderTest, PagesAreFreeAtOnce) {
  for (const bool late : {false, true}) {
    Decoder d(*device_, model_, paged(2, 4));
    Scheduler s(d);
    written_.clear();
    const Clock::time_point deadline = late ? Clock::now() + std::chrono::milliseconds(800) : Clock::time_point::max();
    GenerateRequest first = request("first", tokens(150, 1), 100);
    first.deadline = deadline;
    const int64_t number = s.add(std::move(first));
    ASSERT_TRUE(s.step());
    s.add(request("second", tokens(190, 2), 5));  // three pages, of which one is free
    for (int call = 0; call < 5; ++call) ASSERT_TRUE(s.step());
    ASSERT_EQ(written_["second"], 0);
    if (late)
      std::this_thread::sleep_until(deadline);
    else
      EXPECT_TRUE(s.cancel(number));
    ASSERT_TRUE(s.step());
    EXPECT_EQ(written_["first"], 6);
    EXPECT_EQ(written_["second"], 1);  // its prompt is read
    EXPECT_EQ(s.preemptions(), 0);
  }
}

}  // namespace
}  // namespace toy::order_test
