// Decoding: the same bits however a sequence was cut, whatever else is decoded, and for any number of threads.
#include "toy/decode/decoder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "toy/backend/devices.h"
#include "toy/base/philox.h"

namespace toy {
namespace {

ModelSpec odd_spec() {
  ModelSpec s = model_spec("tiny");
  s.vocab = 61;
  s.d_model = 40;
  s.context = 400;
  s.tied = false;
  s.layers.assign(2, {.heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52});
  return s;
}

std::vector<int32_t> some_tokens(size_t n, const char* stream) {
  const Philox random(7, stream);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(int32_t(random.below(i, 61)));
  return ids;
}

// Logits after every token of `ids`, fed `piece` tokens at a time.
std::vector<float> all_logits(Decoder& d, int sequence, const std::vector<int32_t>& ids, size_t piece) {
  std::vector<float> result;
  for (size_t at = 0; at < ids.size(); at += piece) {
    std::vector<DecodeRow> rows;
    for (size_t i = at; i < std::min(ids.size(), at + piece); ++i) rows.push_back({sequence, ids[i], true});
    d.decode(rows);
    for (size_t i = 0; i < rows.size(); ++i) result.insert(result.end(), d.logits(i).begin(), d.logits(i).end());
  }
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

class DecoderBits : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(2);
  Model model_ = random_model(odd_spec(), *device_, 3, 2.0);
  std::vector<int32_t> ids_ = some_tokens(150, "a");
};

TEST_F(DecoderBits, PrefillInAnyPieces) {
  Decoder whole(*device_, model_, {});
  const auto expected = all_logits(whole, 0, ids_, ids_.size());
  for (const size_t piece : {1, 7, 64, 100}) {
    Decoder d(*device_, model_, {});
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, piece), expected)) << piece;
  }
  Decoder small(*device_, model_, {.max_rows = 16});  // cut by the decoder itself
  EXPECT_TRUE(same_bits(all_logits(small, 0, ids_, ids_.size()), expected));
}

TEST_F(DecoderBits, OneTwoAndThreeThreads) {
  Decoder two(*device_, model_, {});
  const auto expected = all_logits(two, 0, ids_, 50);
  for (const int threads : {1, 3, 8}) {
    const auto device = make_cpu_device(threads);
    const Model model = random_model(odd_spec(), *device, 3, 2.0);
    Decoder d(*device, model, {});
    EXPECT_TRUE(same_bits(all_logits(d, 0, ids_, 50), expected)) << threads;
  }
}

TEST_F(DecoderBits, AloneAndAmongOthers) {
  Decoder alone(*device_, model_, {});
  const auto expected = all_logits(alone, 0, ids_, 1);
  Decoder many(*device_, model_, {.sequences = 4});
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

TEST_F(DecoderBits, SnapshotRestoreResetTruncate) {
  Decoder d(*device_, model_, {.sequences = 2});
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

TEST_F(DecoderBits, PagesAreHandedBack) {
  Decoder d(*device_, model_, {.sequences = 3, .context = 130});
  for (int round = 0; round < 20; ++round) {
    for (int s = 0; s < 3; ++s) all_logits(d, s, some_tokens(130, "c"), 130);
    for (int s = 0; s < 3; ++s) d.state().reset((s + round) % 3);
  }
  EXPECT_EQ(d.state().length(0), 0);
}

TEST_F(DecoderBits, ErrorsComeBeforeAnyChange) {
  Decoder d(*device_, model_, {.sequences = 2, .context = 10});
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

TEST_F(DecoderBits, CpuAgreesWithTheReference) {
  const auto reference = make_reference_device();
  const Model model = random_model(odd_spec(), *reference, 3, 2.0);
  Decoder r(*reference, model, {}), c(*device_, model_, {});
  const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + 70);
  const auto want = all_logits(r, 0, ids, 70), got = all_logits(c, 0, ids, 70);
  double top = 0, distance = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    top = std::max(top, double(std::abs(want[i])));
    distance = std::max(distance, double(std::abs(want[i] - got[i])));
  }
  EXPECT_LE(distance, 64 * 0x1p-24 * top);  // as in tests/models/golden_test.cpp
}

}  // namespace
}  // namespace toy
