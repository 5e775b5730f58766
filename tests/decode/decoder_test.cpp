// Decoding: the same bits however a sequence was cut, whatever else is decoded, and for any number of threads.
#include "toy/decode/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "testing/decoding.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"

namespace toy::decoder_test {
namespace {

using testing::all_logits;
using testing::same_bits;

// Heads as odd as keys and values of the type allow.
ModelSpec odd_spec(DType kv) {
  return testing::small_model("tiny", {.vocab = 61,
                                       .d_model = 40,
                                       .context = 400,
                                       .tied = false,
                                       .heads = 6,
                                       .kv_heads = 2,
                                       .d_head = kv == DType::q8_0 ? 32 : 10,
                                       .d_ff = 52});
}

ModelSpec gpt2_spec(DType kv) {
  const int64_t heads = kv == DType::q8_0 ? 2 : 6, width = kv == DType::q8_0 ? 32 : 7;
  return testing::small_model("gpt2-tiny", {.vocab = 61,
                                            .d_model = heads * width,
                                            .context = 200,
                                            .heads = heads,
                                            .kv_heads = heads,
                                            .d_head = width,
                                            .d_ff = 53});
}

std::vector<int32_t> some_tokens(size_t n, const char* stream) { return testing::random_ids(n, 61, Philox(7, stream)); }

// With keys and values of each type.
class DecoderBits : public ::testing::TestWithParam<DType> {
 protected:
  static DecoderOptions kept(DecoderOptions o) {
    o.kv = GetParam();
    return o;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(odd_spec(GetParam()), *device_, 3, 2.0);
  std::vector<int32_t> ids_ = some_tokens(150, "a");
};

// A fork goes on as a sequence of its own that was fed the same tokens, wherever in a page it was made.
TEST_P(DecoderBits, ForksGoTheirOwnWays) {
  const std::vector<int32_t> more = some_tokens(70, "b"), other = some_tokens(70, "c");
  for (const size_t length : {0, 1, 63, 64, 65, 128, 150}) {
    const std::vector<int32_t> prefix(ids_.begin(), ids_.begin() + int64_t(length));
    Decoder apart(*device_, model_, kept({.sequences = 2}));
    all_logits(apart, 0, prefix, 64), all_logits(apart, 1, prefix, 64);
    const auto first = all_logits(apart, 0, more, 9), second = all_logits(apart, 1, other, 9);
    Decoder d(*device_, model_, kept({.sequences = 3}));
    const int64_t pages = d.state().free_pages();
    all_logits(d, 0, prefix, 64);
    const int64_t left = d.state().free_pages();
    all_logits(d, 2, other, 64);  // forgotten by the fork
    d.state().fork(0, 2);
    EXPECT_EQ(d.state().length(2), int64_t(length));
    EXPECT_EQ(d.state().free_pages(), left);  // nothing is copied
    EXPECT_TRUE(same_bits(all_logits(d, 2, other, 9), second)) << length;
    EXPECT_TRUE(same_bits(all_logits(d, 0, more, 9), first)) << length;
    d.state().truncate(2, int64_t(length / 2));  // back into shared pages, and on from there
    d.state().fork(2, 1);
    all_logits(d, 1, more, 9);
    d.state().reset(1);
    d.state().truncate(0, int64_t(length));
    EXPECT_TRUE(same_bits(all_logits(d, 0, more, 9), first)) << length;
    for (const int s : {0, 2}) d.state().reset(s);
    EXPECT_EQ(d.state().free_pages(), pages);
  }
}

// A power of two that moves from the gains of queries to those of keys changes no product, and no rounding of keys:
// also of a layer that takes the keys of another one, and where only the first elements of a head turn.
TEST_P(DecoderBits, GainsMayMoveBetweenQueriesAndKeys) {
  for (const RopePairing pairing : {RopePairing::neighbour, RopePairing::half}) {
    ModelSpec spec = odd_spec(GetParam());
    spec.architecture = "toy";
    for (LayerSpec& l : spec.layers) l.qk_norm = LayerSpec::head_norm, l.rope_dims = 8;
    ASSERT_GE(spec.layers.size(), 2u);
    spec.layers.back().shared_kv = true;
    spec.rope.pairing = pairing;
    const auto logits = [&](bool moved, DType kv) {
      const Model m = random_model(spec, *device_, 3, 2.0);
      for (const TensorSpec& t : tensors_of(spec)) {
        const bool of_q = t.name.ends_with("attn_q_norm.weight");
        if (!of_q && !t.name.ends_with("attn_k_norm.weight")) continue;
        std::vector<float> gains(size_t(spec.layers[0].d_head));
        for (int i = 0; i < int(gains.size()); ++i) {
          const int pair = i >= 8 ? i : pairing == RopePairing::half ? i % 4 : i / 2;
          const float large = std::ldexp(1.0f, pair % 5 - 2);
          gains[size_t(i)] = (1 + 0.01f * float(i)) * (!moved ? 1 : of_q ? large : 1 / large);
        }
        m.params->write(t.name, gains);
      }
      DecoderOptions options;
      options.kv = kv;
      Decoder d(*device_, m, options);
      return all_logits(d, 0, ids_, 70);
    };
    const std::vector<float> plain = logits(false, GetParam());
    EXPECT_TRUE(same_bits(logits(true, GetParam()), plain));
    if (GetParam() == DType::q8_0) EXPECT_FALSE(same_bits(plain, logits(false, DType::f32)));
  }
}

TEST_P(DecoderBits, ForksNeverRunOutOfPages) {
  Decoder d(*device_, model_, kept({.sequences = 4, .context = 130}));
  all_logits(d, 0, some_tokens(70, "a"), 64);
  for (const int s : {1, 2, 3}) d.state().fork(s - 1, s);
  EXPECT_EQ(d.state().free_pages(), 4 * 3 - 2);
  for (const int s : {2, 0, 3, 1}) all_logits(d, s, some_tokens(60, "b"), 7);  // every context is full
  EXPECT_EQ(d.state().free_pages(), 12 - 1 - 4 * 2);                           // the first page is still shared
  EXPECT_THROW(d.state().extend(2, 1), Error);
  for (const int s : {0, 1, 2}) d.state().reset(s);
  EXPECT_EQ(d.state().free_pages(), 12 - 3);
  EXPECT_THROW(d.state().fork(0, 0), Error);
  EXPECT_THROW(d.state().fork(0, 4), Error);
  EXPECT_THROW(d.state().fork(-1, 0), Error);
}

TEST_P(DecoderBits, PrefillInAnyPieces) {
  Decoder whole(*device_, model_, kept({}));
  const auto expected = all_logits(whole, 0, ids_, ids_.size());
  for (const size_t piece : {1, 7, 64, 100}) {
    Decoder d(*device_, model_, kept({}));
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, piece), expected)) << piece;
  }
  Decoder small(*device_, model_, kept({.max_rows = 16}));  // cut by the decoder itself
  EXPECT_TRUE(same_bits(all_logits(small, 0, ids_, ids_.size()), expected));
}

TEST_P(DecoderBits, OneTwoThreeAndEightThreads) {
  Decoder two(*device_, model_, kept({}));
  const auto expected = all_logits(two, 0, ids_, 50);
  for (const int threads : {1, 3, 8}) {
    const auto device = make_test_device(threads);
    const Model model = random_model(odd_spec(GetParam()), *device, 3, 2.0);
    Decoder d(*device, model, kept({}));
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, 50), expected)) << threads;
  }
}

TEST_P(DecoderBits, AloneAndAmongOthers) {
  Decoder alone(*device_, model_, kept({}));
  const auto expected = all_logits(alone, 0, ids_, 1);
  Decoder many(*device_, model_, kept({.sequences = 4}));
  const auto other = some_tokens(150, "b");
  std::vector<float> mine;
  for (size_t i = 0; i < ids_.size(); ++i) {  // sequence 2, while the others grow at their own pace
    std::vector<DecodeRow> rows;
    if (i % 2 == 0) rows.push_back({0, other[i], true});
    if (i % 3 == 0) rows.push_back({3, other[(i * 7) % 150], false}), rows.push_back({3, other[i], false});
    const size_t wanted = rows.empty() || i % 2 ? 0 : 1;
    rows.push_back({2, ids_[i], true});
    many.decode(rows);
    const auto l = many.logits(wanted);
    mine.insert(mine.end(), l.begin(), l.end());
  }
  EXPECT_TRUE(same_bits(mine, expected));
}

// Sequence 0 with 1 to 16 others of other lengths, in prefill and in decoding.
TEST_P(DecoderBits, AmongOneToSixteenOthers) {
  const std::vector<int32_t> head(ids_.begin(), ids_.begin() + 67), tail(ids_.begin() + 67, ids_.begin() + 80);
  Decoder alone(*device_, model_, kept({.context = 128}));
  all_logits(alone, 0, head, head.size());
  const auto expected = all_logits(alone, 0, tail, 1);
  const size_t vocab = size_t(alone.vocab());
  for (int others = 1; others <= 16; ++others) {
    Decoder d(*device_, model_, kept({.sequences = others + 1, .context = 128, .max_rows = 100}));
    std::vector<std::vector<int32_t>> texts;
    std::vector<DecodeRow> rows;  // all prompts in one call, ours in the middle, cut by max_rows
    for (int s = 0; s <= others; ++s) {
      const int sequence = (s + others / 2) % (others + 1);
      texts.push_back(some_tokens(size_t(3 + 5 * s + 13), "other"));
      const auto& text = sequence == 0 ? head : texts.back();
      for (size_t i = 0; i < (sequence == 0 ? text.size() : text.size() - 13); ++i)
        rows.push_back({sequence, text[i], false});
    }
    d.decode(rows);
    std::vector<float> mine;
    for (size_t i = 0; i < tail.size(); ++i) {
      rows.clear();
      for (int s = 0; s <= others; ++s) {
        const int sequence = (s + others / 2) % (others + 1);
        rows.push_back({sequence, sequence == 0 ? tail[i] : texts[size_t(s)][i], true});
      }
      d.decode(rows);
      const auto at = std::find_if(rows.begin(), rows.end(), [](const DecodeRow& r) { return r.sequence == 0; });
      const auto l = d.logits(size_t(at - rows.begin()));
      mine.insert(mine.end(), l.begin(), l.end());
    }
    ASSERT_EQ(mine.size(), tail.size() * vocab);
    EXPECT_TRUE(same_bits(mine, expected)) << others;
  }
}

// Many sequences with one text: every row of a call has the bits of the row alone.
TEST_P(DecoderBits, IdenticalRows) {
  const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + 70);
  Decoder alone(*device_, model_, kept({.context = 70}));
  const auto expected = all_logits(alone, 0, ids, 1);
  const size_t vocab = size_t(alone.vocab());
  for (const int copies : {2, 5, 16, 49}) {
    Decoder d(*device_, model_, kept({.sequences = copies, .context = 70}));
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<DecodeRow> rows;
      for (int s = 0; s < copies; ++s) rows.push_back({s, ids[i], true});
      d.decode(rows);
      for (size_t s = 0; s < size_t(copies); ++s)
        ASSERT_EQ(std::memcmp(d.logits(s).data(), expected.data() + i * vocab, vocab * 4), 0)
            << "copy " << s << " of " << copies << ", token " << i;
    }
  }
}

TEST_P(DecoderBits, RunToRun) {
  Decoder d(*device_, model_, kept({}));
  const auto first = all_logits(d, 0, ids_, 40);
  for (int run = 0; run < 3; ++run) {
    d.state().reset(0);
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, 40), first)) << "the same decoder again, run " << run;
    const auto device = make_test_device(2);
    const Model model = random_model(odd_spec(GetParam()), *device, 3, 2.0);
    Decoder other(*device, model, kept({}));
    EXPECT_TRUE(same_bits(all_logits(other, 0, ids_, 40), first)) << "another device and model, run " << run;
  }
}

TEST_P(DecoderBits, SnapshotRestoreResetTruncate) {
  Decoder d(*device_, model_, kept({.sequences = 2}));
  const std::vector<int32_t> head(ids_.begin(), ids_.begin() + 70), tail(ids_.begin() + 70, ids_.begin() + 90);
  all_logits(d, 0, head, 70);
  const StateSnapshot snapshot = d.state().snapshot(0);
  EXPECT_EQ(snapshot.length, 70);
  const auto expected = all_logits(d, 0, tail, 1);
  d.state().restore(1, snapshot);  // a fork
  EXPECT_TRUE(same_bits(all_logits(d, 1, tail, 5), expected));
  d.state().truncate(0, 70);
  EXPECT_TRUE(same_bits(all_logits(d, 0, tail, 20), expected));
  d.state().reset(0);
  EXPECT_EQ(d.state().length(0), 0);
  all_logits(d, 0, head, 7);
  EXPECT_TRUE(same_bits(all_logits(d, 0, tail, 3), expected));
}

// The same bytes in other numbers: f16 has twice the heads.
TEST_P(DecoderBits, SnapshotsOfOtherTypesAreRefused) {
  ModelSpec spec = odd_spec(GetParam());
  for (LayerSpec& l : spec.layers) l.kv_heads *= 2, l.heads *= 2;
  const Model wide = random_model(spec, *device_, 3);
  Decoder d(*device_, model_, kept({})), halves(*device_, wide, {.kv = DType::f16});
  all_logits(d, 0, some_tokens(70, "a"), 70);
  const StateSnapshot snapshot = d.state().snapshot(0);
  EXPECT_THROW(halves.state().restore(0, snapshot), Error);
  for (const DType other : {DType::f32, DType::f16}) {
    Decoder same(*device_, model_, {.kv = other});
    if (other == GetParam())
      same.state().restore(0, snapshot);
    else
      EXPECT_THROW(same.state().restore(0, snapshot), Error);
  }
}

TEST_P(DecoderBits, SnapshotsOfOtherDimensionsAreRefusedBeforeAnyChange) {
  Decoder d(*device_, model_, kept({.sequences = 2}));
  const auto head = some_tokens(70, "a"), tail = some_tokens(9, "b");
  all_logits(d, 0, head, 70);
  const StateSnapshot good = d.state().snapshot(0);
  const auto expected = all_logits(d, 0, tail, 9);
  for (const int change : {-1, 1}) {
    d.state().restore(0, good);
    for (size_t slot = 0; slot < good.slots.size(); ++slot) {
      StateSnapshot bad = good;
      bad.slots[slot].resize(size_t(int64_t(bad.slots[slot].size()) + change));
      EXPECT_THROW(d.state().restore(0, bad), Error);
    }
    StateSnapshot negative = good;
    negative.length = -1;
    EXPECT_THROW(d.state().restore(0, negative), Error);
    EXPECT_EQ(d.state().length(0), 70);
    EXPECT_TRUE(same_bits(all_logits(d, 0, tail, 9), expected));
  }
}

TEST_P(DecoderBits, PagesAreHandedBack) {
  Decoder d(*device_, model_, kept({.sequences = 3, .context = 130}));
  for (int round = 0; round < 20; ++round) {
    for (int s = 0; s < 3; ++s) all_logits(d, s, some_tokens(130, "c"), 130);
    EXPECT_EQ(d.state().free_pages(), 0);
    for (int s = 0; s < 3; ++s) d.state().reset((s + round) % 3);
    EXPECT_EQ(d.state().free_pages(), 9);  // 3 sequences of 3 pages
  }
}

// A call that fails in the middle leaves the sequences as they were, and what it wrote does not trouble later calls.
TEST_P(DecoderBits, AFailedCallLeavesNoPositions) {
  Model broken = random_model(model_.spec, *device_, 3);
  auto table = broken.params->read("token_embd.weight");
  const int64_t width = broken.spec.d_model;
  table[size_t(5 * width)] = NAN;  // of token 5
  broken.params->write("token_embd.weight", table);
  Decoder d(*device_, broken, kept({.sequences = 2, .max_rows = 4, .check_finite = true}));
  const auto rows = [](int sequence, std::vector<int32_t> tokens) {
    std::vector<DecodeRow> list;
    for (const int32_t t : tokens) list.push_back({sequence, t, true});
    return list;
  };
  d.decode(rows(0, {1, 2, 3}));
  EXPECT_THROW(d.decode(rows(0, {1, 2, 3, 4, 6, 5, 1})), Error);  // in its second piece
  EXPECT_EQ(d.state().length(0), 3);
  EXPECT_EQ(d.logits_count(), 0u);
  d.decode(rows(0, {4, 6}));
  d.decode(rows(1, {1, 2, 3, 4, 6}));
  EXPECT_EQ(d.state().length(0), 5);
}

TEST_P(DecoderBits, ErrorsComeBeforeAnyChange) {
  Decoder d(*device_, model_, kept({.sequences = 2, .context = 10}));
  const auto text_of = [&](const std::vector<DecodeRow>& rows) -> std::string {
    try {
      d.decode(rows);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(text_of({{0, 1, false}, {0, 61, false}}), "token 61 at index 1 is outside the vocabulary (0 to 60)");
  EXPECT_EQ(text_of({{0, -1, false}}), "token -1 at index 0 is outside the vocabulary (0 to 60)");
  EXPECT_EQ(text_of({{2, 1, false}}), "decoder: row 0: sequence 2 of 2");
  EXPECT_EQ(text_of({{0, 1, false}, {1, 1, false}, {0, 1, false}}),
            "decoder: rows of sequence 0 do not stand together");
  EXPECT_EQ(text_of(std::vector<DecodeRow>(11, {0, 1, false})),
            "context: 0 positions in use and 11 more do not fit into 10; use a larger --ctx, or less text");
  EXPECT_EQ(d.state().length(0), 0);
}

// Learned positions: the same bits in pieces, by one, among others and for any number of threads; nothing beyond the
// table.
TEST_P(DecoderBits, LearnedPositions) {
  const Model model = random_model(gpt2_spec(GetParam()), *device_, 3, 2.0);
  Decoder whole(*device_, model, kept({}));
  EXPECT_EQ(whole.context(), 200);
  const auto expected = all_logits(whole, 0, ids_, ids_.size());
  for (const size_t piece : {1, 7, 64}) {
    Decoder d(*device_, model, kept({.sequences = 3, .context = 160}));
    all_logits(d, 1, some_tokens(33, "b"), 11);
    EXPECT_TRUE(same_bits(all_logits(d, 2, ids_, piece), expected)) << piece;
  }
  for (const int threads : {1, 3}) {
    const auto device = make_test_device(threads);
    const Model again = random_model(gpt2_spec(GetParam()), *device, 3, 2.0);
    Decoder d(*device, again, kept({}));
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, 50), expected)) << threads;
  }
  // One token again and again: only positions tell its rows apart, by much more than rounding.
  Decoder same(*device_, model, kept({}));
  const auto rows = all_logits(same, 0, {5, 5}, 2);
  float distance = 0;
  for (size_t i = 0; i < 61; ++i) distance = std::max(distance, std::abs(rows[i] - rows[61 + i]));
  EXPECT_GT(distance, 1e-3f);
}

TEST_P(DecoderBits, NoPositionsBeyondTheLearned) {
  const Model model = random_model(gpt2_spec(GetParam()), *device_, 3);
  try {
    Decoder d(*device_, model, kept({.context = 201}));
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_EQ(std::string(e.what()),
              "context is 201: the model 'gpt2-tiny' has learned 200 positions and knows none beyond; use a smaller "
              "context");
  }
  Decoder d(*device_, model, kept({}));
  all_logits(d, 0, some_tokens(200, "a"), 64);
  EXPECT_THROW(d.decode(std::vector<DecodeRow>{{0, 1, false}}), Error);
}

TEST_P(DecoderBits, AgreesWithTheReference) {
  const auto reference = make_reference_device();
  const auto most = [](const std::vector<float>& a, const std::vector<float>& b) {
    double d = 0;
    for (size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(double(a[i]) - double(b[i])));
    return d;
  };
  const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + 70);
  const auto of_reference = [&](DType kv) {
    const Model model = random_model(odd_spec(kv), *reference, 3, 2.0);
    DecoderOptions options = kept({});
    options.kv = kv;
    Decoder d(*reference, model, options);
    return all_logits(d, 0, ids, 70);
  };
  Decoder d(*device_, model_, kept({}));
  const std::vector<float> want = of_reference(GetParam()), got = all_logits(d, 0, ids, 70);
  const double top = most(want, std::vector<float>(want.size()));
  // As in tests/models/golden_test.cpp; and keys and values that lie next to a tie are rounded by a step to the other
  // side, twice what rounding can move them. They are few of hundreds that a logit depends on, so together they move
  // less than rounding all does; with the cpu's kernels, which are closest to the reference, a sixteenth of a step.
  const double step = GetParam() == DType::f32 ? 0 : GetParam() == DType::f16 ? 0x1p-10 : 1.0 / 127;
  const double ties = device_->host_visible() ? step / 16 * top : most(want, of_reference(DType::f32));
  EXPECT_LE(most(want, got), 64 * 0x1p-24 * top + ties);
}

INSTANTIATE_TEST_SUITE_P(Kv, DecoderBits, ::testing::Values(DType::f32, DType::f16, DType::q8_0),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace toy::decoder_test
