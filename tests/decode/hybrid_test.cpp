// Recurrent states: taken along by forks, snapshots and failed calls; never cut; zeros at the beginning, whatever a
// slot held. Bits of hybrids in pieces, among others and by threads are in family_bits_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"

namespace toy::hybrid_test {
namespace {

using testing::all_logits;
using testing::error_of;
using testing::same_bits;

constexpr int32_t kVocab = 61, kBroken = 60;  // no text has the last token but those that must fail

std::vector<int32_t> tokens(size_t n, const char* stream) { return testing::random_ids(n, kBroken, Philox(7, stream)); }

std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ModelSpec spec_of(const char* json) { return spec_from_json(nlohmann::json::parse(json), "test"); }

std::vector<DecodeRow> rows_of(int sequence, const std::vector<int32_t>& ids) {
  std::vector<DecodeRow> rows;
  for (const int32_t id : ids) rows.push_back({sequence, id, true});
  return rows;
}

struct Case {
  const char* name;
  const char* json;
  DType kv = DType::f32;
};

class Hybrid : public ::testing::TestWithParam<Case> {
 protected:
  DecoderOptions kept(DecoderOptions o) const {
    o.kv = GetParam().kv;
    return o;
  }
  // Logits after tokens of a sequence that nothing else was done with.
  std::vector<float> fresh(const std::vector<int32_t>& before, const std::vector<int32_t>& ids) {
    Decoder d(*device_, model_, kept({}));
    all_logits(d, 0, before, 64);
    return all_logits(d, 0, ids, ids.size());
  }
  // The embedding of the last token is NaN.
  Model broken() const {
    Model m = random_model(model_.spec, *device_, 3, 2.0);
    std::vector<float> table = m.params->read("token_embd.weight");
    std::fill_n(table.begin() + kBroken * m.spec.d_model, m.spec.d_model, NAN);
    m.params->write("token_embd.weight", table);
    return m;
  }
  static void expect_pages_back(DecodeState& state) {
    for (int s = 0; s < state.sequences(); ++s) state.reset(s);
    for (size_t p = 0; p < state.pools().size(); ++p) EXPECT_EQ(state.free_pages(p), state.pools()[p].pages) << p;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(spec_of(GetParam().json), *device_, 3, 2.0);
  const std::vector<int32_t> ids_ = tokens(150, "a"), more_ = tokens(40, "b"), other_ = tokens(40, "c");
};

TEST_P(Hybrid, ForkSnapshotRestoreResetAndReuse) {
  Decoder elsewhere(*device_, model_, kept({.sequences = 4, .context = 190, .max_rows = 50}));
  for (const size_t length : {0, 1, 2, 63, 64, 65, 150}) {
    SCOPED_TRACE(length);
    const std::vector<int32_t> prefix(ids_.begin(), ids_.begin() + int64_t(length));
    const std::vector<float> first = fresh(prefix, more_), second = fresh(prefix, other_);
    Decoder d(*device_, model_, kept({.sequences = 3, .max_rows = 32}));
    for (const int s : {0, 1, 2}) all_logits(d, s, other_, 7);  // forgotten by what follows
    d.state().reset(0);
    all_logits(d, 0, prefix, 9);
    const StateSnapshot snapshot = d.state().snapshot(0);
    EXPECT_EQ(snapshot.length, int64_t(length));
    d.state().fork(0, 1);
    EXPECT_TRUE(same_bits(all_logits(d, 1, other_, 7), second));
    EXPECT_TRUE(same_bits(all_logits(d, 0, more_, 30), first));
    d.state().restore(2, snapshot);
    EXPECT_TRUE(same_bits(all_logits(d, 2, more_, 1), first));
    d.state().restore(0, snapshot);  // over what it holds
    EXPECT_TRUE(same_bits(all_logits(d, 0, other_, 40), second));
    elsewhere.state().restore(3, snapshot);
    EXPECT_TRUE(same_bits(all_logits(elsewhere, 3, more_, 3), first));
    d.state().reset(1);
    all_logits(d, 1, prefix, 64);
    EXPECT_TRUE(same_bits(all_logits(d, 1, more_, 9), first));
    expect_pages_back(d.state());
  }
}

TEST_P(Hybrid, AStateIsNotCut) {
  Decoder d(*device_, model_, kept({}));
  DecodeState& state = d.state();
  EXPECT_TRUE(state.recurrent());
  EXPECT_EQ(state.shortest(0), 0);
  state.truncate(0, 0);
  const std::vector<float> all = all_logits(d, 0, ids_ + more_, 64);
  state.reset(0);
  all_logits(d, 0, ids_, 64);
  EXPECT_EQ(state.shortest(0), 150);
  for (const int64_t length : {1, 64, 149})
    EXPECT_EQ(error_of([&] { state.truncate(0, length); }),
              "decoder: sequence 0 cannot be cut to " + std::to_string(length) +
                  " positions: a recurrent state does not go back (restore a snapshot); it needs 150 or more, or 0");
  EXPECT_EQ(error_of([&] { state.truncate(0, 151); }), "decoder: sequence 0 has 150 positions, cannot be cut to 151");
  EXPECT_EQ(error_of([&] { state.truncate(0, -1); }), "decoder: sequence 0 has 150 positions, cannot be cut to -1");
  EXPECT_EQ(state.length(0), 150);
  state.truncate(0, 150);
  const std::vector<float> tail = all_logits(d, 0, more_, 9);
  EXPECT_TRUE(same_bits(tail, {all.end() - int64_t(tail.size()), all.end()}));
  state.truncate(0, 0);
  EXPECT_TRUE(same_bits(all_logits(d, 0, ids_ + more_, 11), all));
}

// As a chat does: the state after the system's message is restored for each user.
TEST_P(Hybrid, TextsAfterAMessageBoundary) {
  Decoder d(*device_, model_, kept({}));
  all_logits(d, 0, ids_, 64);
  const StateSnapshot boundary = d.state().snapshot(0);
  for (const auto& message : {tokens(9, "first"), tokens(17, "second"), tokens(1, "third")}) {
    const auto got = generate(d, 0, message, {}, {.max_tokens = 12});
    Decoder alone(*device_, model_, kept({}));
    const auto want = generate(alone, 0, ids_ + message, {}, {.max_tokens = 12});
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].chosen.id, want[i].chosen.id) << i;
      EXPECT_EQ(got[i].chosen.logprob, want[i].chosen.logprob) << i;
    }
    d.state().restore(0, boundary);
  }
}

TEST_P(Hybrid, SnapshotsOfOthersAreRefusedBeforeAnyChange) {
  Decoder d(*device_, model_, kept({.sequences = 2}));
  all_logits(d, 0, ids_, 64);
  const StateSnapshot good = d.state().snapshot(0), empty = d.state().snapshot(1);
  EXPECT_EQ(empty.length, 0);
  std::vector<StateSnapshot> bad;
  ModelSpec wide = model_.spec, plain = wide;
  for (LayerSpec& l : wide.layers)
    if (auto* delta = std::get_if<DeltaNet>(&l.mixer)) delta->key_heads *= 2, delta->value_heads *= 2;
  plain.architecture = "toy", plain.ffn_norm_is_post_attention = false;
  for (LayerSpec& l : plain.layers) l.mixer = MixerKind::attention;
  for (const ModelSpec& spec : {wide, plain}) {
    const Model another = random_model(spec, *device_, 3);
    Decoder of(*device_, another, kept({}));
    all_logits(of, 0, ids_, 64);
    bad.push_back(of.state().snapshot(0));
    of.state().reset(0);
    bad.push_back(of.state().snapshot(0));
  }
  for (size_t i = 0; i < good.slots.size(); ++i) {  // a byte less, a byte more, a slot less
    bad.push_back(good), bad.back().slots[i].push_back(std::byte{0});
    if (!good.slots[i].empty()) bad.push_back(good), bad.back().slots[i].pop_back();
  }
  bad.push_back(good), bad.back().slots.pop_back(), bad.back().types.pop_back();
  bad.push_back(good), bad.back().length = 0;
  bad.push_back(empty), bad.back().length = 1;
  bad.push_back(good), bad.back().length = 201;
  for (size_t i = 0; i < bad.size(); ++i)
    EXPECT_EQ(error_of([&] { d.state().restore(0, bad[i]); }),
              "decoder: the snapshot was taken from a state of other dimensions or types")
        << i;
  EXPECT_EQ(d.state().length(0), 150);
  EXPECT_TRUE(same_bits(all_logits(d, 0, more_, 9), fresh(ids_, more_)));
  d.state().restore(0, empty);
  EXPECT_EQ(d.state().length(0), 0);
  EXPECT_TRUE(same_bits(all_logits(d, 0, more_, 9), fresh({}, more_)));
}

// What a slot held does not matter, not even where it was NaN.
TEST_P(Hybrid, NaNOfAnEarlierTextIsForgotten) {
  const Model model = broken();
  for (const bool check_finite : {false, true}) {
    Decoder d(*device_, model, kept({.sequences = 3, .check_finite = check_finite}));
    for (int s = 0; s < 3; ++s) {
      const auto spoil = [&] { d.decode(rows_of(s, tokens(70, "x") + std::vector<int32_t>{kBroken, 1, 2, 3, 4, 5})); };
      if (check_finite)
        EXPECT_THROW(spoil(), Error);
      else
        spoil();
      d.state().reset(s);
    }
    all_logits(d, 0, ids_, 64);
    d.state().fork(0, 1);
    d.state().restore(2, d.state().snapshot(0));
    const std::vector<float> want = fresh(ids_, more_);
    for (int s = 0; s < 3; ++s) EXPECT_TRUE(same_bits(all_logits(d, s, more_, 9), want)) << s << " " << check_finite;
    d.state().reset(0);
    EXPECT_TRUE(same_bits(all_logits(d, 0, other_, 1), fresh({}, other_)));
  }
}

bool same(const StateSnapshot& a, const StateSnapshot& b) {
  return a.length == b.length && a.types == b.types && a.slots == b.slots;
}

// Sequences of the call, those before and after the one that fails, and one that is not in it: byte for byte.
TEST_P(Hybrid, AFailedCallChangesNothing) {
  const Model model = broken();
  for (const auto& [max_rows, bad] : {std::pair<int64_t, size_t>(16, 3), {32, 20}, {400, 0}}) {
    SCOPED_TRACE(::testing::Message() << max_rows << " rows, bad token " << bad);
    Decoder d(*device_, model, kept({.sequences = 5, .max_rows = max_rows, .check_finite = true}));
    const size_t lengths[] = {70, 64, 0, 31, 1};
    std::vector<StateSnapshot> before;
    for (int s = 0; s < 5; ++s) all_logits(d, s, {ids_.begin(), ids_.begin() + int64_t(lengths[s])}, 64);
    for (int s = 0; s < 5; ++s) before.push_back(d.state().snapshot(s));
    std::vector<int32_t> spoiled = more_;
    spoiled[bad] = kBroken;
    std::vector<DecodeRow> rows;
    for (const int s : {3, 1, 2, 0})  // not 4
      for (const int32_t id : s == 1 || s == 2 ? spoiled : more_) rows.push_back({s, id, true});
    for (int again = 0; again < 2; ++again) {
      EXPECT_NE(error_of([&] { d.decode(rows); }).find("decoding: call"), std::string::npos);
      EXPECT_EQ(d.logits_count(), 0u);
      for (int s = 0; s < 5; ++s) {
        EXPECT_TRUE(same(d.state().snapshot(s), before[size_t(s)])) << s;
        EXPECT_EQ(d.state().shortest(s), before[size_t(s)].length) << s;
      }
    }
    for (int s = 4; s >= 0; --s)
      EXPECT_TRUE(
          same_bits(all_logits(d, s, other_, 13), fresh({ids_.begin(), ids_.begin() + int64_t(lengths[s])}, other_)))
          << s;
    expect_pages_back(d.state());
  }
}

TEST_P(Hybrid, BytesAreThoseOfTheState) {
  for (const int sequences : {1, 3}) {
    Decoder d(*device_, model_, kept({.sequences = sequences}));
    EXPECT_EQ(d.state().bytes(), state_bytes(model_.spec, d.state().shape(), device_.get()));
    EXPECT_GE(decoder_bytes(*device_, model_, kept({.sequences = sequences})), d.state().bytes());
  }
  const auto reference = make_reference_device();
  const Model exact = random_model(model_.spec, *reference, 3, 2.0);
  Decoder d(*reference, exact, kept({.sequences = 2}));
  EXPECT_EQ(d.state().bytes(), state_bytes(model_.spec, d.state().shape(), reference.get()));
  // In f64 too, a state is taken along.
  all_logits(d, 0, more_, 40);
  const StateSnapshot snapshot = d.state().snapshot(0);
  const auto want = all_logits(d, 0, other_, 5);
  d.state().restore(1, snapshot);
  EXPECT_TRUE(same_bits(all_logits(d, 1, other_, 40), want));
}

INSTANTIATE_TEST_SUITE_P(Models, Hybrid,
                         ::testing::Values(Case{"qwen35", testing::kQwen35}, Case{"qwen3next", testing::kQwen3Next},
                                           Case{"windows", testing::kHybridWithWindows},
                                           Case{"shared_kv", testing::kHybridWithSharedKv, DType::f16},
                                           Case{"windows_q8_0", testing::kHybridWithWindows, DType::q8_0},
                                           Case{"recurrent", testing::kOnlyRecurrent}),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- Scheduler

struct Text {
  std::vector<int32_t> prompt;
  GenerateOptions options;
};

// Any model: recurrent or not, what is shared changes no bit, and every text ends.
class SharedPrefixes : public ::testing::TestWithParam<Case> {
 protected:
  ModelSpec spec() const {
    if (GetParam().json) return spec_of(GetParam().json);
    return testing::small_model(
        "tiny", {.vocab = kVocab, .d_model = 64, .context = 200, .heads = 4, .kv_heads = 2, .d_head = 32, .d_ff = 96});
  }
  void SetUp() override { recurrent_ = GetParam().json != nullptr; }
  std::vector<GeneratedToken> alone(const Text& t) {
    Decoder d(*device_, model_, {});
    return generate(d, 0, t.prompt, {}, t.options);
  }
  static void expect_same(const std::vector<GeneratedToken>& a, const std::vector<GeneratedToken>& b, size_t which) {
    ASSERT_EQ(a.size(), b.size()) << which;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].chosen.id, b[i].chosen.id) << which << " at " << i;
      EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob) << which << " at " << i;
    }
  }
  // Runs them and compares each with itself alone. Texts [0, first) are there at the beginning, the others come one
  // after every `pace` steps. A failed step is tried again. Every call computes a row: so many tokens bound the steps.
  int64_t run(Decoder& d, const std::vector<Text>& texts, size_t first, int pace, std::vector<size_t>* order = nullptr,
              const std::function<void(int64_t)>& before_step = {}) {
    Scheduler s(d);
    std::vector<Generated> results(texts.size());
    std::vector<int> done(texts.size());
    std::vector<std::vector<GeneratedToken>> expected;
    for (const Text& t : texts) expected.push_back(alone(t));
    int64_t bound = 1;
    const auto add = [&](size_t i) {
      bound += int64_t(texts[i].prompt.size()) + texts[i].options.max_tokens;
      s.add({.prompt = texts[i].prompt,
             .eos = {},
             .options = texts[i].options,
             .on_token = {},
             .on_done = [&, i](const Generated& g) {
               results[i] = g, ++done[i];
               if (order) order->push_back(i);
             }});
    };
    size_t added = 0;
    for (; added < first; ++added) add(added);
    int64_t steps = 0;
    for (bool more = true; more || added < texts.size(); ++steps) {
      if (steps > 2 * bound + int64_t(texts.size()) * pace) {
        ADD_FAILURE() << "no end after " << steps << " steps";
        break;
      }
      if (added < texts.size() && steps % pace == 0) add(added++);
      if (before_step) before_step(steps);
      try {
        more = s.step();
      } catch (const Error&) {
        EXPECT_TRUE(before_step);
        more = true;
      }
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(done[i], 1) << i;
      expect_same(results[i].tokens, expected[i], i);
    }
    return s.shared_tokens();
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(spec(), *device_, 3, 2.0);
  bool recurrent_ = false;
};

TEST_P(SharedPrefixes, AreComputedOnceWhereTheStateIsThere) {
  const std::vector<int32_t> system = tokens(100, "system");
  std::vector<Text> texts;
  for (int i = 0; i < 3; ++i) texts.push_back({system + std::vector<int32_t>{i, 7, 7, i}, {.max_tokens = 5}});
  for (const int64_t rows : {7, 64, 256}) {
    for (const int sequences : {1, 2, 3}) {
      Decoder d(*device_, model_, {.sequences = sequences, .max_rows = rows});
      // One that begins when others have gone on finds no state that is this prefix.
      EXPECT_EQ(run(d, texts, 3, 1), recurrent_ ? 100 * (sequences - 1) : 200) << sequences << " " << rows;
    }
  }
}

// Of prompts that begin each other, the last token is computed always; in any order of arrival.
TEST_P(SharedPrefixes, OfPromptsThatBeginEachOther) {
  const std::vector<int32_t> all = tokens(140, "all");
  std::vector<size_t> lengths{100, 120, 140};
  do {
    std::vector<Text> texts;
    for (const size_t n : lengths) texts.push_back({{all.begin(), all.begin() + int64_t(n)}, {.max_tokens = 4}});
    int64_t expected = 0;  // of each, what the longest before it has
    for (size_t i = 1; i < 3; ++i)
      expected += int64_t(std::min(*std::max_element(lengths.begin(), lengths.begin() + int64_t(i)), lengths[i] - 1));
    for (const int64_t rows : {9, 256}) {
      Decoder d(*device_, model_, {.sequences = 3, .max_rows = rows});
      EXPECT_EQ(run(d, texts, 3, 1), expected) << lengths[0] << " " << lengths[1] << " " << rows;
    }
  } while (std::next_permutation(lengths.begin(), lengths.end()));
}

// The same prompt again and again, each over at once, must not keep one that waits for it waiting.
TEST_P(SharedPrefixes, NobodyWaitsForThoseThatCameLater) {
  const std::vector<int32_t> prompt = tokens(70, "again");
  std::vector<Text> texts(12, Text{prompt, {.max_tokens = 1}});
  texts[1] = {prompt + std::vector<int32_t>{5, 6}, {.max_tokens = 1}};
  for (const int64_t rows : {16, 256}) {
    std::vector<size_t> order;
    Decoder d(*device_, model_, {.sequences = 2, .max_rows = rows});
    EXPECT_GE(run(d, texts, texts.size(), 1, &order), 70) << rows;
    EXPECT_LE(std::find(order.begin(), order.end(), 1u) - order.begin(), 2) << rows;
  }
}

// Prompts from a tree of prefixes, that come at any time.
TEST_P(SharedPrefixes, RandomRequests) {
  const Philox random(11, "requests");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  int64_t shared = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::vector<int32_t>> nodes{tokens(64 + below(20), "root")};
    std::vector<Text> texts;
    for (int i = 0; i < 9; ++i) {
      std::vector<int32_t> prompt = nodes[below(nodes.size())];
      if (below(3) == 0) prompt.resize(std::max<size_t>(1, prompt.size() - below(8)));
      for (uint64_t k = below(3) * below(20); k > 0 && prompt.size() < 170; --k) prompt.push_back(int32_t(below(3)));
      if (below(8) == 0) prompt = tokens(1 + below(80), "own");
      nodes.push_back(prompt);
      texts.push_back({prompt, {.max_tokens = int64_t(below(7))}});
      if (below(2)) texts.back().options.sampler = {.temperature = 1.5, .seed = below(100)};
    }
    const int sequences = 1 + int(below(5)), pace = 1 + int(below(6));
    const int64_t rows = std::vector<int64_t>{1, 5, 40, 256}[below(4)];
    SCOPED_TRACE(::testing::Message() << "round " << round << ", " << sequences << " sequences, " << rows << " rows");
    Decoder d(*device_, model_, {.sequences = sequences, .max_rows = rows});
    shared += run(d, texts, below(10), pace);
    for (int s = 0; s < sequences; ++s) d.state().reset(s);
    for (size_t p = 0; p < d.state().pools().size(); ++p)
      EXPECT_EQ(d.state().free_pages(p), d.state().pools()[p].pages);
  }
  EXPECT_GT(shared, 64 * 10);
}

// A weight that is broken for some steps: they fail in the last layer, when others have their new states already.
TEST_P(SharedPrefixes, TextsAfterFailedCalls) {
  const std::string name = "blk." + std::to_string(model_.spec.layers.size() - 1) + ".ffn_norm.weight";
  const std::vector<float> sound = model_.params->read(name), bad(sound.size(), NAN);
  const std::vector<int32_t> system = tokens(80, "system");
  std::vector<Text> texts;
  for (int i = 0; i < 5; ++i)
    texts.push_back({system + tokens(size_t(3 + 9 * i), "own"), {.max_tokens = 6}}), texts.back().prompt[75] += i % 2;
  for (const int64_t rows : {11, 64}) {
    Decoder d(*device_, model_, {.sequences = 3, .max_rows = rows, .check_finite = true});
    int failing = 0;
    run(d, texts, 3, 4, nullptr, [&](int64_t step) {
      const bool breaks = step % 3 == 1 && failing < 20;
      failing += breaks;
      model_.params->write(name, breaks ? bad : sound);
    });
    model_.params->write(name, sound);
    EXPECT_GT(failing, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SharedPrefixes,
                         ::testing::Values(Case{"llama", nullptr}, Case{"qwen35", testing::kQwen35},
                                           Case{"windows", testing::kHybridWithWindows},
                                           Case{"recurrent", testing::kOnlyRecurrent}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::hybrid_test
