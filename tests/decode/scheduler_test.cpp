// Many prompts at once: each result has the bits that it has alone.
#include "toy/decode/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/checksum.h"
#include "toy/base/philox.h"
#include "toy/base/threads.h"
#include "toy/decode/generate.h"

namespace toy::scheduler_test {
namespace {

ModelSpec small_spec() {
  return testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 40, .context = 200, .tied = false, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52});
}

struct Case {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  std::vector<int32_t> eos;
  size_t stop_after = 0;  // on_token says stop after so many; 0: never
};

// Prompts of 1 to 120 tokens (more than a page), texts of 0 to 60, all kinds of sampling and of ends.
std::vector<Case> cases() {
  const Philox random(5, "cases");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  std::vector<Case> list;
  for (int i = 0; i < 14; ++i) {
    Case c;
    const uint64_t length = i == 3 ? 120 : 1 + below(70);
    for (uint64_t k = 0; k < length; ++k) c.prompt.push_back(int32_t(below(61)));
    c.options.max_tokens = i == 7 ? 0 : int64_t(1 + below(60));
    c.options.top_logprobs = 2;
    if (i % 3) c.options.sampler = {.temperature = 1.2, .top_k = 40, .top_p = 0.95, .min_p = 0.01, .seed = 9};
    if (i % 4 == 1) c.options.sampler.repeat_penalty = 1.3, c.options.sampler.frequency_penalty = 0.2;
    if (i % 5 == 2) c.eos = {int32_t(below(61)), int32_t(below(61))};
    if (i % 6 == 4) c.stop_after = 3;
    list.push_back(c);
  }
  return list;
}

void expect_same(const std::vector<GeneratedToken>& a, const std::vector<GeneratedToken>& b, size_t which) {
  ASSERT_EQ(a.size(), b.size()) << which;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].chosen.id, b[i].chosen.id) << which << " at " << i;
    EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob) << which << " at " << i;  // to the bit
    for (size_t k = 0; k < a[i].best.size(); ++k) {
      EXPECT_EQ(a[i].best[k].id, b[i].best[k].id);
      EXPECT_EQ(a[i].best[k].logprob, b[i].best[k].logprob);
    }
  }
}

class SchedulerTest : public ::testing::Test {
 protected:
  std::vector<GeneratedToken> alone(const Case& c) {
    Decoder d(*device_, model_, {});
    size_t seen = 0;
    return generate(d, 0, c.prompt, c.eos, c.options, [&](const GeneratedToken&) { return ++seen != c.stop_after; });
  }
  static std::vector<Generated> together(Decoder& d, const std::vector<Case>& list, std::vector<size_t>* order,
                                         int64_t* shared = nullptr, size_t share_from = 64,
                                         ThreadPool* team = nullptr) {
    std::vector<Generated> results(list.size());
    std::vector<size_t> seen(list.size());
    Scheduler s(d);
    s.share_from(share_from);
    if (team) s.draw_with(*team);
    for (size_t i = 0; i < list.size(); ++i)
      s.add({.prompt = list[i].prompt,
             .eos = list[i].eos,
             .options = list[i].options,
             .on_token = [&, i](const GeneratedToken&) { return ++seen[i] != list[i].stop_after; },
             .on_done =
                 [&, i, order](const Generated& g) {
                   results[i] = g;
                   if (order) order->push_back(i);
                 }});
    s.run();
    if (shared) *shared = s.shared_tokens();
    return results;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(small_spec(), *device_, 3, 2.0);
};

TEST_F(SchedulerTest, AloneAndTogetherAreTheSameBits) {
  const std::vector<Case> list = cases();
  std::vector<std::vector<GeneratedToken>> expected;
  for (const Case& c : list) expected.push_back(alone(c));
  for (const int sequences : {1, 3, 16})
    for (const int64_t rows : {4, 256}) {
      Decoder d(*device_, model_, {.sequences = sequences, .max_rows = rows});
      const auto results = together(d, list, nullptr);
      for (size_t i = 0; i < list.size(); ++i) expect_same(results[i].tokens, expected[i], i);
    }
}

// Drawn by a team: the same bits, and the checksums of the rows that the logits come from.
TEST_F(SchedulerTest, ATeamDrawsTheSameBits) {
  std::vector<Case> list = cases();
  list.resize(10);
  std::vector<std::vector<GeneratedToken>> expected;
  for (Case& c : list) {
    c.options.entropy = c.options.row_checksum = true;
    Decoder d(*device_, model_, {.hidden = true});
    size_t seen = 0;
    expected.push_back(
        generate(d, 0, c.prompt, c.eos, c.options, [&](const GeneratedToken&) { return ++seen != c.stop_after; }));
  }
  ThreadPool team(3);
  Decoder d(*device_, model_, {.sequences = 5, .max_rows = 16, .hidden = true});
  const auto results = together(d, list, nullptr, nullptr, 64, &team);
  for (size_t i = 0; i < list.size(); ++i) {
    expect_same(results[i].tokens, expected[i], i);
    std::vector<int32_t> text = list[i].prompt;
    for (size_t t = 0; t < results[i].tokens.size(); ++t) {
      EXPECT_EQ(results[i].tokens[t].entropy, expected[i][t].entropy);
      d.state().reset(0);
      std::vector<DecodeRow> rows;
      for (const int32_t id : text) rows.push_back({0, id, false, id == text.back() && rows.size() + 1 == text.size()});
      d.decode(rows);
      const auto bytes = std::as_bytes(d.hidden(0));
      EXPECT_EQ(results[i].tokens[t].row_checksum, xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
      text.push_back(results[i].tokens[t].chosen.id);
    }
  }
  Decoder without(*device_, model_, {});
  Scheduler s(without);
  EXPECT_EQ(testing::error_of([&] { s.add({.prompt = {1}, .eos = {}, .options = {.row_checksum = true}}); }),
            "scheduler: checksums of hidden states are wanted; make the decoder with `hidden`");
}

// Each of several tokens ends a text, where it is chosen first; ignore_eos continues.
TEST_F(SchedulerTest, SeveralTokensEndAText) {
  const std::vector<int32_t> prompt{1, 2, 3};
  Decoder d(*device_, model_, {});
  const auto texts = [&](std::vector<int32_t> eos, bool ignore) {
    d.state().reset(0);
    std::vector<int32_t> ids;
    for (const auto& t : generate(d, 0, prompt, eos,
                                  {.max_tokens = 12, .sampler = {.temperature = 2, .seed = 4}, .ignore_eos = ignore}))
      ids.push_back(t.chosen.id);
    return ids;
  };
  const std::vector<int32_t> whole = texts({}, false);
  ASSERT_EQ(whole.size(), 12u);
  for (const size_t last : {size_t(3), size_t(7)}) {
    const std::vector<int32_t> eos{whole[last], whole[9]};
    const auto first = std::find_first_of(whole.begin(), whole.end(), eos.begin(), eos.end());
    EXPECT_EQ(texts(eos, false), std::vector<int32_t>(whole.begin(), first + 1));
    EXPECT_EQ(texts(eos, true), whole);
  }
}

// A callback that throws ends its own step with its error, and costs no text a token.
TEST_F(SchedulerTest, AThrowingCallbackLeavesTheOthersAlone) {
  const std::vector<Case> list = cases();
  const std::vector<size_t> used{0, 1, 2};
  for (const size_t thrower : used) {
    Decoder d(*device_, model_, {.sequences = 3});
    Scheduler s(d);
    std::vector<Generated> results(list.size());
    int thrown = 0;
    for (const size_t i : used) {
      Case c = list[i];
      c.options.max_tokens = 9, c.stop_after = 0, c.eos.clear();
      s.add({.prompt = c.prompt,
             .eos = c.eos,
             .options = c.options,
             .on_token = [&, i](const GeneratedToken&) -> bool {
               if (i == thrower && thrown++ == 0) throw std::runtime_error("no");
               return true;
             },
             .on_done = [&, i](const Generated& g) { results[i] = g; }});
    }
    int errors = 0;
    for (bool more = true; more;) {
      try {
        more = s.step();
      } catch (const std::runtime_error&) {
        ++errors;
      }
    }
    EXPECT_EQ(errors, 1);
    for (const size_t i : used) {
      Case c = list[i];
      c.options.max_tokens = 9, c.stop_after = 0, c.eos.clear();
      expect_same(results[i].tokens, alone(c), i);
    }
  }
}

// The text has all its tokens, and nobody will come for another.
TEST_F(SchedulerTest, ACallbackThatThrowsAtTheLastTokenEndsTheText) {
  Decoder d(*device_, model_, {.sequences = 1});
  Scheduler s(d);
  int seen = 0;
  std::vector<Generated> done;
  s.add({.prompt = {1, 2, 3},
         .eos = {},
         .options = {.max_tokens = 3},
         .on_token = [&](const GeneratedToken&) -> bool {
           if (++seen == 3) throw std::runtime_error("first");
           return true;
         },
         .on_done =
             [&](const Generated& g) {
               done.push_back(g);
               throw std::logic_error("second");
             }});
  EXPECT_THROW(s.run(), std::runtime_error);
  EXPECT_FALSE(s.step());
  EXPECT_EQ(seen, 3);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tokens.size(), 3u);
  EXPECT_EQ(done[0].reason, FinishReason::length);
}

// Logits that are NaN cost their text alone: its sequence is free for the prompt that waits.
TEST_F(SchedulerTest, ATextWithoutLogitsMakesRoom) {
  std::vector<float> table = model_.params->read("token_embd.weight");
  std::fill_n(table.begin() + 60 * 40, 40, NAN);
  model_.params->write("token_embd.weight", table);
  Decoder d(*device_, model_, {.sequences = 1});
  Scheduler s(d);
  std::vector<size_t> done;
  for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{60}, std::vector<int32_t>{1, 2, 3}})
    s.add({.prompt = prompt,
           .eos = {},
           .options = {.max_tokens = 1},
           .on_token = {},
           .on_done = [&, n = prompt.size()](const Generated&) { done.push_back(n); }});
  EXPECT_EQ(testing::error_of([&] { s.step(); }), "the model gives NaN for token 0: its weights are broken");
  EXPECT_TRUE(s.step());
  EXPECT_FALSE(s.step());
  EXPECT_EQ(done, std::vector<size_t>{3});
  // Also where a team draws both at the same time.
  ThreadPool team(2);
  Decoder two(*device_, model_, {.sequences = 2});
  Scheduler both(two);
  both.draw_with(team);
  for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{60}, std::vector<int32_t>{1}})
    both.add({.prompt = prompt,
              .eos = {},
              .options = {.max_tokens = 1},
              .on_token = {},
              .on_done = [&, n = prompt.size()](const Generated&) { done.push_back(n); }});
  EXPECT_EQ(testing::error_of([&] { both.step(); }), "the model gives NaN for token 0: its weights are broken");
  EXPECT_FALSE(both.step());
  EXPECT_EQ(done, (std::vector<size_t>{3, 1}));
}

// Prompts that begin alike: computed once, with the bits that each has alone.
TEST_F(SchedulerTest, CommonPrefixesAreComputedOnce) {
  std::vector<Case> list = cases();
  const std::vector<int32_t> system = list[3].prompt;  // 120 tokens
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t common = i % 4 == 0 ? 63 : i % 4 == 1 ? 64 : i % 4 == 2 ? 100 : 120;
    std::vector<int32_t>& p = list[i].prompt;
    p.resize(std::min<size_t>(p.size(), 20));
    p.front() = (system[std::min<size_t>(common, 119)] + 1) % 61;  // where they part
    p.insert(p.begin(), system.begin(), system.begin() + int64_t(common));
    if (i == 9) p = list[8].prompt;  // the same again: all but the last token
    list[i].options.max_tokens = std::min<int64_t>(list[i].options.max_tokens, 40);
  }
  std::vector<std::vector<GeneratedToken>> expected;
  for (const Case& c : list) expected.push_back(alone(c));
  for (const int sequences : {1, 3, 16})
    for (const int64_t rows : {4, 256}) {
      Decoder d(*device_, model_, {.sequences = sequences, .max_rows = rows});
      int64_t shared = 0;
      const auto results = together(d, list, nullptr, &shared);
      for (size_t i = 0; i < list.size(); ++i) expect_same(results[i].tokens, expected[i], i);
      EXPECT_GT(shared, 5 * 64) << sequences;
      for (int s = 0; s < sequences; ++s) d.state().reset(s);
      EXPECT_EQ(d.state().free_pages(), d.state().shape().pages());
    }
  // Exactly: three prompts of the same 100 tokens and one of their own.
  std::vector<Case> same(3);
  for (size_t i = 0; i < 3; ++i) {
    same[i].prompt.assign(system.begin(), system.begin() + 100);
    same[i].prompt.push_back(int32_t(i));
    same[i].options.max_tokens = 2;
  }
  for (const int sequences : {1, 2, 3}) {
    Decoder d(*device_, model_, {.sequences = sequences, .max_rows = 16});
    int64_t shared = 0;
    together(d, same, nullptr, &shared);
    EXPECT_EQ(shared, 200) << sequences;
  }
}

// Eight answers to a prompt of 20 tokens: it is computed once, and the answers have the bits that they have alone.
TEST_F(SchedulerTest, SharesShortPromptsWhereAsked) {
  std::vector<Case> group(8);
  std::vector<std::vector<GeneratedToken>> expected;
  for (size_t i = 0; i < group.size(); ++i) {
    group[i].prompt = testing::random_ids(20, 61, Philox(7));
    group[i].options.max_tokens = 12;
    group[i].options.sampler = {.temperature = 1, .seed = i};
    expected.push_back(alone(group[i]));
  }
  for (const size_t from : {1, 64}) {
    Decoder d(*device_, model_, {.sequences = 8, .max_rows = 64});
    int64_t shared = 0;
    const auto results = together(d, group, nullptr, &shared, from);
    EXPECT_EQ(shared, from == 1 ? 7 * 19 : 0);
    for (size_t i = 0; i < group.size(); ++i) expect_same(results[i].tokens, expected[i], i);
  }
}

TEST_F(SchedulerTest, EveryEndHasItsReason) {
  std::vector<Case> list = cases();
  Decoder d(*device_, model_, {.sequences = 3});
  const auto results = together(d, list, nullptr);
  std::vector<int> count(3);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& tokens = results[i].tokens;
    ++count[size_t(results[i].reason)];
    switch (results[i].reason) {
      case FinishReason::length:
        EXPECT_EQ(int64_t(tokens.size()), list[i].options.max_tokens) << i;
        break;
      case FinishReason::eos:
        EXPECT_NE(std::ranges::find(list[i].eos, tokens.back().chosen.id), list[i].eos.end()) << i;
        break;
      case FinishReason::stopped:
        EXPECT_EQ(tokens.size(), list[i].stop_after) << i;
        break;
      case FinishReason::complete:
      case FinishReason::deadline:
        ADD_FAILURE() << "there is neither a constraint nor a deadline";
    }
  }
  EXPECT_GT(count[0], 0);
  EXPECT_GT(count[2], 0);
}

TEST_F(SchedulerTest, AFinishedOneMakesRoomForTheNext) {
  std::vector<Case> list(3);
  for (Case& c : list) c.prompt = {1, 2, 3};
  list[0].options.max_tokens = 20;
  list[1].options.max_tokens = 3;
  list[2].options.max_tokens = 4;
  Decoder d(*device_, model_, {.sequences = 2});
  std::vector<size_t> order;
  together(d, list, &order);
  EXPECT_EQ(order, (std::vector<size_t>{1, 2, 0}));
}

TEST_F(SchedulerTest, AFullContextEndsTheText) {
  Decoder d(*device_, model_, {.sequences = 1, .context = 10});
  std::vector<Case> list(2);
  list[0].prompt = std::vector<int32_t>(10, 1);
  list[1].prompt = {4, 5};
  const auto results = together(d, list, nullptr);
  EXPECT_EQ(results[0].tokens.size(), 1u);  // chosen, and no room to go on from it
  EXPECT_EQ(results[1].tokens.size(), 9u);
  EXPECT_EQ(results[1].reason, FinishReason::length);
}

TEST_F(SchedulerTest, RequestsMayBeAddedWhileOthersRun) {
  Decoder d(*device_, model_, {.sequences = 2});
  const std::vector<Case> list = cases();
  Scheduler s(d);
  Generated second;
  s.add({.prompt = list[0].prompt,
         .eos = {},
         .options = {.max_tokens = 5},
         .on_token = {},
         .on_done = [&](const Generated&) {
           s.add({.prompt = list[1].prompt,
                  .eos = list[1].eos,
                  .options = list[1].options,
                  .on_token = {},
                  .on_done = [&](const Generated& g) { second = g; }});
         }});
  s.run();
  EXPECT_FALSE(s.step());
  expect_same(second.tokens, alone(list[1]), 1);
}

// However long the prompts are that others bring: each call has a token of a text that is being written, and at most
// max_rows rows, so its pause is bounded.
TEST_F(SchedulerTest, LongPromptsDoNotPauseTheOthers) {
  Decoder d(*device_, model_, {.sequences = 3, .max_rows = 8});
  Scheduler s(d);
  size_t written = 0;
  const auto on_token = [&](const GeneratedToken&) { return ++written > 0; };
  s.add({.prompt = {1, 2}, .eos = {}, .options = {.max_tokens = 30}, .on_token = on_token, .on_done = {}});
  ASSERT_TRUE(s.step());
  for (const int32_t id : {3, 4})
    s.add({.prompt = std::vector<int32_t>(120, id), .eos = {}, .options = {}, .on_token = {}, .on_done = {}});
  const auto positions = [&] { return d.state().length(0) + d.state().length(1) + d.state().length(2); };
  for (size_t token = 2; token < 30; ++token) {
    const int64_t before = positions();
    ASSERT_TRUE(s.step());
    EXPECT_EQ(written, token);
    EXPECT_EQ(positions() - before, 8);  // the prompts take all room that is left
  }
}

TEST_F(SchedulerTest, RefusesWhatCannotBeDone) {
  Decoder d(*device_, model_, {.sequences = 2, .context = 10});
  Scheduler s(d);
  const auto add = [&](std::vector<int32_t> prompt, SamplerOptions sampler = {}) {
    s.add({.prompt = std::move(prompt), .eos = {}, .options = {.sampler = sampler}, .on_token = {}, .on_done = {}});
  };
  EXPECT_THROW(add({}), Error);
  EXPECT_THROW(add({61}), Error);
  EXPECT_THROW(add({-1}), Error);
  EXPECT_THROW(add(std::vector<int32_t>(11, 1)), Error);
  EXPECT_THROW(add({1}, {.min_p = 2}), Error);
  EXPECT_THROW(Scheduler(d, {2}), Error);
  EXPECT_THROW(Scheduler(d, std::vector<int>{}), Error);
  EXPECT_FALSE(s.step());  // nothing was added
}

}  // namespace
}  // namespace toy::scheduler_test
