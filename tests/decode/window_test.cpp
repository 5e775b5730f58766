// Layers with a window keep only their window: the same bits, in fewer pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "toy/decode/generate.h"
#include "toy/models/transformer.h"

namespace toy::window_test {
namespace {

using testing::all_logits;
using testing::same_bits;

constexpr int64_t kContext = 400, kVocab = 61;

// No file of the family of "tiny" has several windows, so that they are set in the finished model.
Model windowed(const Device& device) {
  Model model = random_model(testing::small_model("tiny", {.vocab = kVocab,
                                                           .d_model = 40,
                                                           .context = kContext,
                                                           .tied = false,
                                                           .layers = 4,
                                                           .heads = 6,
                                                           .kv_heads = 2,
                                                           .d_head = 32,
                                                           .d_ff = 52}),
                             device, 3, 2.0);
  const int64_t windows[] = {0, 100, 70, 100};
  for (size_t i = 0; i < model.spec.layers.size(); ++i) model.spec.layers[i].window = windows[i];
  return model;
}

std::vector<int32_t> tokens(size_t n, const char* stream) { return testing::random_ids(n, kVocab, Philox(7, stream)); }

class WindowedModel : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = windowed(*device_);
  std::vector<int32_t> ids_ = tokens(350, "a");
};

// With keys and values of each type.
class Windows : public WindowedModel, public ::testing::WithParamInterface<DType> {
 protected:
  static DecoderOptions kept(DecoderOptions o) {
    o.kv = GetParam();
    return o;
  }
};

// Without a state, as in training, a row sees the keys of its batch.
TEST_F(WindowedModel, TheBitsOfTrainingsForward) {
  Graph g;
  const TensorType rows{DType::i32, {int64_t(ids_.size())}, 0};
  const Value in = g.input("tokens", rows, kVocab);
  const nn::Context ctx{
      .batch = {.sequence = g.input("sequence", rows), .position = g.input("position", rows, kContext)}};
  const Transformer model(model_.spec, Weights(g, [](const std::string&) { return DType::f32; }), kContext);
  const std::vector<Value> logits{model.head.logits(model(in, ctx))};
  Session session(*device_, std::make_shared<const Plan>(compile(g, logits, {}, *device_)), {model_.params.get()});
  std::vector<int32_t> position(ids_.size());
  for (size_t i = 0; i < position.size(); ++i) position[i] = int32_t(i);
  session.set("tokens", ids_);
  session.set("sequence", std::vector<int32_t>(ids_.size()));
  session.set("position", position);
  session.run();
  Decoder d(*device_, model_, {.max_rows = 48});
  EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, ids_.size()), session.values(0)));
}

TEST_P(Windows, PagesBeforeAreReturned) {
  Decoder d(*device_, model_, kept({.max_rows = 1}));
  all_logits(d, 0, ids_, 1);
  const DecodeState& state = d.state();
  ASSERT_EQ(state.pools().size(), 3u);
  const int64_t held[] = {6, 3, 2};  // up to page 5; before the last call the first were 0, (349 - 100) / 64, ...
  for (size_t pool = 0; pool < 3; ++pool)
    EXPECT_EQ(state.pools()[pool].pages - state.free_pages(pool), held[pool]) << pool;
  EXPECT_EQ(state.pools()[0].pages, 7);
  EXPECT_EQ(state.pools()[1].pages, 4);  // 100 positions and one more
  EXPECT_EQ(state.bytes(), state_bytes(model_.spec, state.shape(), device_.get()));
  EXPECT_LT(state.bytes(), state_bytes(model_.spec, {1, kContext, GetParam(), kContext}, device_.get()));
}

TEST_P(Windows, AnyPiecesAndAmongOthers) {
  Decoder whole(*device_, model_, kept({.max_rows = 400}));
  const auto expected = all_logits(whole, 0, ids_, ids_.size());
  for (const size_t piece : {1, 7, 64, 350}) {
    Decoder d(*device_, model_, kept({.max_rows = 64}));
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, piece), expected)) << piece;
  }
  Decoder many(*device_, model_, kept({.sequences = 8, .max_rows = 100}));
  std::vector<float> mine;
  const auto other = tokens(350, "b");
  for (size_t i = 0; i < ids_.size(); i += 10) {  // the others at their own pace, some from the beginning again
    std::vector<DecodeRow> rows;
    for (int s = 0; s < 8; ++s) {
      if (s != 3 && many.state().length(s) > 300) many.state().reset(s);
      for (size_t k = 0; k < (s == 3 ? 10 : size_t(s) * 3); ++k)
        rows.push_back({s, s == 3 ? ids_[i + k] : other[(i + k) % 350], s == 3});
    }
    many.decode(rows);
    for (size_t k = 0; k < 10; ++k) mine.insert(mine.end(), many.logits(k).begin(), many.logits(k).end());
  }
  EXPECT_TRUE(same_bits(mine, expected));
}

TEST_P(Windows, ForkTruncateSnapshotRestore) {
  const std::vector<int32_t> more = tokens(90, "b"), other = tokens(90, "c");
  for (const size_t length : {64, 165, 200, 256}) {
    const std::vector<int32_t> prefix(ids_.begin(), ids_.begin() + int64_t(length));
    Decoder apart(*device_, model_, kept({.sequences = 2}));
    all_logits(apart, 0, prefix, 64), all_logits(apart, 1, prefix, 64);
    const auto first = all_logits(apart, 0, more, 90), second = all_logits(apart, 1, other, 90);
    Decoder d(*device_, model_, kept({.sequences = 3, .max_rows = 32}));
    all_logits(d, 0, prefix, 9);
    const StateSnapshot snapshot = d.state().snapshot(0);
    d.state().fork(0, 1);
    EXPECT_TRUE(same_bits(all_logits(d, 1, other, 7), second)) << length;
    EXPECT_TRUE(same_bits(all_logits(d, 0, more, 30), first)) << length;
    d.state().restore(2, snapshot);
    EXPECT_TRUE(same_bits(all_logits(d, 2, more, 1), first)) << length;
    d.state().truncate(2, int64_t(length + 89));  // the last position can always be taken back
    const auto again = all_logits(d, 2, {more.back()}, 1);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), first.end() - kVocab)) << length;
    for (const int s : {0, 1, 2}) d.state().reset(s);
    for (size_t pool = 0; pool < 3; ++pool) EXPECT_EQ(d.state().free_pages(pool), d.state().pools()[pool].pages);
  }
}

TEST_P(Windows, WhatIsForgottenCannotComeBack) {
  Decoder d(*device_, model_, kept({.max_rows = 40}));
  const auto expected = all_logits(d, 0, ids_, 40);
  DecodeState& state = d.state();
  EXPECT_EQ(state.length(0), 350);
  const int64_t least = state.shortest(0);  // pages from (319 - 100 + 1) / 64 on: those since 192, and 99 more
  EXPECT_EQ(least, 192 + 100 - 1);
  EXPECT_EQ(testing::error_of([&] { state.truncate(0, least - 1); }),
            "decoder: sequence 0 cannot be cut to 290 positions: layers with a window need 291 or more, or 0");
  EXPECT_EQ(state.length(0), 350);
  state.truncate(0, least);
  const std::vector<int32_t> rest(ids_.begin() + least, ids_.end());
  const auto again = all_logits(d, 0, rest, 11);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), expected.begin() + least * kVocab));
  state.reset(0);
  EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, 40), expected));
}

// What a snapshot brings back can be cut as before, at any place of a page.
TEST_P(Windows, TheLastPositionCanBeTakenBackAfterARestore) {
  Decoder d(*device_, model_, kept({.sequences = 2, .max_rows = 64}));
  for (size_t at = 0; at < 300; ++at) {
    d.decode(std::vector<DecodeRow>{{0, ids_[at], true}});
    const std::vector<float> want(d.logits(0).begin(), d.logits(0).end());
    const int64_t length = d.state().length(0);
    d.state().restore(1, d.state().snapshot(0));
    d.state().truncate(1, length - 1);
    if (at % 8 != 3 && at < 100) continue;
    EXPECT_TRUE(same_bits(all_logits(d, 1, {ids_[at]}, 1), want)) << at;
  }
}

// In one piece and in several, of which the first have moved the windows on.
TEST_P(Windows, AFailedCallChangesNothing) {
  Model broken = windowed(*device_);
  std::vector<float> table = broken.params->read("token_embd.weight");
  std::fill_n(table.begin() + (kVocab - 1) * 40, 40, NAN);
  broken.params->write("token_embd.weight", table);
  std::vector<int32_t> ids = ids_, spoiled = tokens(150, "b");
  for (std::vector<int32_t>* list : {&ids, &spoiled})
    for (int32_t& id : *list) id %= kVocab - 1;
  spoiled[120] = kVocab - 1;
  const std::vector<int32_t> head(ids.begin(), ids.begin() + 220), tail(ids.begin() + 220, ids.begin() + 290);
  Decoder sound(*device_, model_, kept({}));
  all_logits(sound, 0, head, 64);
  const std::vector<float> want = all_logits(sound, 0, tail, 64);
  for (const int64_t rows : {16, 100, 400}) {
    Decoder d(*device_, broken, kept({.sequences = 2, .max_rows = rows, .check_finite = true}));
    all_logits(d, 0, head, 50);
    std::vector<DecodeRow> call;
    for (const int32_t id : tail) call.push_back({1, id, false});
    for (const int32_t id : spoiled) call.push_back({0, id, true});
    EXPECT_NE(testing::error_of([&] { d.decode(call); }).find("decoding: call"), std::string::npos);
    EXPECT_EQ(d.state().length(0), 220);
    EXPECT_EQ(d.state().length(1), 0);
    d.state().truncate(0, 219);
    all_logits(d, 0, {head.back()}, 1);
    EXPECT_TRUE(same_bits(all_logits(d, 0, tail, 9), want)) << rows;
    all_logits(d, 1, head, 64);
    EXPECT_TRUE(same_bits(all_logits(d, 1, tail, 64), want)) << rows;
  }
}

// A prompt that begins like another is told so in time, or computes it again: the same texts.
TEST_P(Windows, SharedPrefixes) {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 6; ++i) {
    prompts.emplace_back(ids_.begin(), ids_.begin() + 180);
    const auto own = tokens(size_t(20 + 25 * i), ("own" + std::to_string(i)).c_str());
    prompts.back().insert(prompts.back().end(), own.begin(), own.end());
  }
  std::vector<std::vector<GeneratedToken>> alone;
  for (const auto& p : prompts) {
    Decoder d(*device_, model_, kept({}));
    alone.push_back(generate(d, 0, p, {}, {.max_tokens = 30}));
  }
  for (const int sequences : {1, 2, 6})
    for (const int64_t rows : {24, 400}) {
      Decoder d(*device_, model_, kept({.sequences = sequences, .max_rows = rows}));
      Scheduler s(d);
      std::vector<Generated> results(prompts.size());
      for (size_t i = 0; i < prompts.size(); ++i)
        s.add({.prompt = prompts[i],
               .eos = {},
               .options = {.max_tokens = 30},
               .on_token = {},
               .on_done = [&results, i](const Generated& g) { results[i] = g; }});
      s.run();
      if (sequences == 6) {
        EXPECT_EQ(s.shared_tokens(), 5 * 180) << rows;
      }
      for (size_t i = 0; i < prompts.size(); ++i) {
        ASSERT_EQ(results[i].tokens.size(), alone[i].size());
        for (size_t k = 0; k < alone[i].size(); ++k)
          EXPECT_EQ(results[i].tokens[k].chosen.logprob, alone[i][k].chosen.logprob) << i << " at " << k;
      }
    }
}

// There is always a page, whatever sequences do, with calls as large as they may be.
TEST_F(WindowedModel, PagesNeverRunOut) {
  for (const int64_t rows : {1, 5, 64, 200, 1000}) {
    DecodeState state(model_.spec, *device_, {5, kContext, DType::f32, rows});
    const Philox random(9, "pages");
    uint64_t at = 0;
    const auto below = [&](int64_t n) { return int64_t(random.below(at++, uint64_t(n))); };
    for (int call = 0; call < 4000; ++call) {
      const int s = int(below(5)), to = int(below(5));
      switch (below(8)) {
        case 0:
          if (s != to) state.fork(s, to);
          break;
        case 1:
          state.truncate(s, std::max(state.shortest(s), state.length(s) - below(9)));
          break;
        case 2:
          if (below(4) == 0) state.reset(s);
          break;
        case 3:
          if (below(20) == 0) state.restore(to, state.snapshot(s));
          break;
        default:
          break;
      }
      state.slide();
      for (int64_t i = 0, left = rows; i < 5; ++i) {
        const int which = int((s + i) % 5);
        const int64_t n = std::min(below(2) ? left : below(left + 1), kContext - state.length(which));
        left -= n;
        state.extend(which, n);
        if (state.length(which) == kContext) state.reset(which);
      }
    }
    for (int sequence = 0; sequence < 5; ++sequence) state.reset(sequence);
    for (size_t pool = 0; pool < state.pools().size(); ++pool)
      EXPECT_EQ(state.free_pages(pool), state.pools()[pool].pages) << rows;
    state.slide();
    if (rows < kContext) {
      EXPECT_EQ(testing::error_of([&] { state.extend(0, rows + 1); }),
                "decoder: " + std::to_string(rows + 1) +
                    " positions after 0 in one call, but layers with a window were planned for " +
                    std::to_string(rows));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, Windows, ::testing::Values(DType::f32, DType::f16, DType::q8_0),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace toy::window_test
