// Speculative decoding: whatever is proposed, by whom, among whom, a text has the bits that it has without.
#include "toy/decode/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "decode/speculation.h"
#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"

namespace toy::speculation_test {
namespace {

constexpr int32_t kVocab = 61;

// Allows every third token, another third after each; complete after 40.
class Thirds final : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Thirds>(*this); }
  void mask(std::span<uint64_t> allowed) override {
    std::ranges::fill(allowed, 0);
    for (int32_t id = 0; id < kVocab; ++id)
      if ((id + last_) % 3 == 0) allowed[size_t(id) / 64] |= uint64_t(1) << (id % 64);
  }
  void accept(int32_t token) override {
    check((token + last_) % 3 == 0, "token {} is not allowed", token);
    last_ = token, ++seen_;
  }
  bool finished() const override { return seen_ >= 40; }

 private:
  int32_t last_ = 0;
  int seen_ = 0;
};

struct Case {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  std::vector<int32_t> eos;
  size_t stop_after = 0;
  bool score_prompt = false;
};

// All kinds of sampling and of ends, with prompts that repeat themselves and texts that do at low temperature.
std::vector<Case> cases() {
  const Philox random(5, "speculation");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  std::vector<Case> list;
  for (int i = 0; i < 14; ++i) {
    Case c;
    const uint64_t length = i == 3 ? 100 : 1 + below(40), period = 3 + below(9);
    for (uint64_t k = 0; k < length; ++k)
      c.prompt.push_back(k >= period ? c.prompt[k - period] : int32_t(below(uint64_t(kVocab))));
    c.options.max_tokens = i == 7 ? 1 : int64_t(20 + below(70));
    c.options.top_logprobs = 2;
    if (i % 3 == 1) c.options.sampler = {.temperature = 0.3, .top_k = 40, .top_p = 0.95, .min_p = 0.01, .seed = 9};
    if (i % 3 == 2) c.options.sampler = {.temperature = 1.2, .seed = uint64_t(i)};
    if (i == 4 || i == 9) c.options.sampler.constraint = std::make_shared<Thirds>();
    if (i == 6) c.options.sampler.repeat_penalty = 1.3, c.options.sampler.frequency_penalty = 0.2;
    if (i == 8) c.options.sampler.mirostat = true, c.options.sampler.mirostat_tau = 2;
    if (i == 12) c.options.sampler.logit_bias = {{5, 0.5}, {7, -INFINITY}};
    if (i % 5 == 2) c.eos = {int32_t(below(kVocab)), int32_t(below(kVocab)), int32_t(below(kVocab))};
    if (i % 6 == 4) c.stop_after = 13;
    c.score_prompt = i == 10;
    list.push_back(c);
  }
  return list;
}

void expect_same(const std::vector<GeneratedToken>& a, const std::vector<GeneratedToken>& b, size_t which) {
  ASSERT_EQ(a.size(), b.size()) << which;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].chosen.id, b[i].chosen.id) << which << " at " << i;
    ASSERT_EQ(a[i].chosen.logprob, b[i].chosen.logprob) << which << " at " << i;  // to the bit
    for (size_t k = 0; k < a[i].best.size(); ++k) {
      EXPECT_EQ(a[i].best[k].id, b[i].best[k].id);
      EXPECT_EQ(a[i].best[k].logprob, b[i].best[k].logprob);
    }
  }
}

struct Family {
  const char* name;
  const char* json;
};
const Family kFamilies[] = {
    {"llama", R"({"architecture": "llama", "d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv": 2, "d_head": 16,
      "d_ff": 96, "vocab": 61, "context": 200, "tied": false})"},
    {"windows", R"({"architecture": "toy", "d_model": 64, "n_layers": 4, "n_heads": 4, "n_kv": 2, "d_head": 32,
      "d_ff": 96, "vocab": 61, "context": 200, "tied": false, "layers": "attn(window=24)*3,attn"})"},
    {"qwen35", testing::kQwen35},
    {"hybrid_windows", testing::kHybridWithWindows},
    {"recurrent", testing::kOnlyRecurrent},
    {"mamba2", R"({"architecture": "mamba2", "d_model": 64, "n_layers": 3, "vocab": 61, "context": 200, "tied": false,
      "mamba2_heads": 8, "mamba2_width": 16, "mamba2_state": 20, "mamba2_groups": 2})"},
};

// A very small model of other weights.
constexpr const char* kDraft =
    R"({"architecture": "toy", "d_model": 32, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 16,
    "d_ff": 32, "vocab": 61, "context": 200, "tied": false})";

Model model_of(const char* json, const Device& device, uint64_t seed = 3) {
  return random_model(spec_from_json(nlohmann::json::parse(json), "test"), device, seed, 2.0);
}

std::vector<Generated> texts(Decoder& d, const std::vector<Case>& list, const SpeculationOptions& o,
                             SpeculationCounts* counts = nullptr, int64_t* preemptions = nullptr) {
  std::vector<Generated> results(list.size());
  std::vector<size_t> seen(list.size()), done(list.size());
  Scheduler s(d);
  s.speculate(o);
  for (size_t i = 0; i < list.size(); ++i)
    s.add({.prompt = list[i].prompt,
           .eos = list[i].eos,
           .options = list[i].options,
           .on_token = [&, i](const GeneratedToken&) { return ++seen[i] != list[i].stop_after; },
           .on_done =
               [&, i](const Generated& g) {
                 results[i] = g;
                 ++done[i];
               },
           .score_prompt = list[i].score_prompt});
  s.run();
  EXPECT_EQ(done, std::vector<size_t>(list.size(), 1));
  if (counts) *counts = s.speculation();
  if (preemptions) *preemptions = s.preemptions();
  return results;
}

void expect_same(const std::vector<Generated>& a, const std::vector<Generated>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    expect_same(a[i].tokens, b[i].tokens, i);
    expect_same(a[i].prompt, b[i].prompt, i);
    EXPECT_EQ(a[i].reason, b[i].reason) << i;
  }
}

class Speculation : public ::testing::TestWithParam<Family> {
 protected:
  // Each by itself, without proposals.
  std::vector<Generated> alone(const std::vector<Case>& list) {
    std::vector<Generated> results;
    for (const Case& c : list) {
      Decoder d(*device_, model_, {});
      results.push_back(texts(d, {c}, {}).front());
    }
    return results;
  }
  static void expect_pages_back(DecodeState& state) {
    for (int s = 0; s < state.sequences(); ++s) state.reset(s);
    for (size_t p = 0; p < state.pools().size(); ++p) EXPECT_EQ(state.free_pages(p), state.pools()[p].pages) << p;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = model_of(GetParam().json, *device_);
};

TEST_P(Speculation, NgramsChangeNoBit) {
  const std::vector<Case> list = cases();
  const std::vector<Generated> expected = alone(list);
  for (const int sequences : {1, 3, 16})
    for (const int64_t rows : {5, 256}) {
      SCOPED_TRACE(std::to_string(sequences) + " sequences, " + std::to_string(rows) + " rows");
      Decoder d(*device_, model_, {.sequences = sequences, .max_rows = rows});
      SpeculationCounts counts;
      expect_same(texts(d, list, {.ngrams = true}, &counts), expected);
      if (sequences == 1) {
        EXPECT_GT(counts.accepted, 0);
      }
      EXPECT_GE(counts.proposed, counts.accepted);
      expect_pages_back(d.state());
    }
}

TEST_P(Speculation, AnotherModelChangesNoBit) {
  const std::vector<Case> list = cases();
  const std::vector<Generated> expected = alone(list);
  const Model draft = model_of(kDraft, *device_, 8);
  for (const int sequences : {1, 3}) {
    Decoder d(*device_, model_, {.sequences = sequences});
    Decoder small(*device_, draft, {.sequences = sequences, .max_rows = 32});
    SpeculationCounts counts;
    expect_same(texts(d, list, {.draft = &small}, &counts), expected);
    EXPECT_GT(counts.proposed, counts.accepted);
  }
}

// Each token that it proposes is the text's, greedy or drawn: the random numbers are the same.
TEST_P(Speculation, TheSameModelIsAlwaysRight) {
  std::vector<Case> list = cases();
  for (Case& c : list) c.eos.clear(), c.stop_after = 0;  // what is proposed beyond an end is not accepted
  for (const size_t i : {4, 9}) list[i].options.sampler.constraint = nullptr;
  const std::vector<Generated> expected = alone(list);
  for (const int threads : {1, 2})
    for (const int sequences : {1, 3}) {
      const auto device = make_test_device(threads);
      const Model model = model_of(GetParam().json, *device);
      Decoder d(*device, model, {.sequences = sequences});
      Decoder same(*device, model, {.sequences = sequences, .take_back = 9});
      SpeculationCounts counts;
      expect_same(texts(d, list, {.draft = &same, .most = 8}, &counts), expected);
      EXPECT_GT(counts.proposed, 300);
      EXPECT_EQ(counts.proposed, counts.accepted);
    }
}

// Each token that it proposes is wrong.
TEST_P(Speculation, ADraftThatIsAlwaysWrong) {
  std::vector<Case> list = cases();
  std::erase_if(list, [](const Case& c) {
    const SamplerOptions& s = c.options.sampler;
    return s.temperature > 0 || s.constraint || s.repeat_penalty != 1 || !s.logit_bias.empty();
  });
  // The model's weights with the output of each token at the next one.
  Model wrong = model_of(GetParam().json, *device_);
  std::vector<float> output = wrong.params->read("output.weight");
  std::rotate(output.begin(), output.begin() + wrong.spec.d_model, output.end());
  wrong.params->write("output.weight", output);
  Decoder d(*device_, model_, {.sequences = 2}), small(*device_, wrong, {.sequences = 2, .take_back = 17});
  SpeculationCounts counts;
  expect_same(texts(d, list, {.draft = &small}, &counts), alone(list));
  EXPECT_GT(counts.proposed, 10);
  EXPECT_EQ(counts.accepted, 0);
}

// A cache that is too small for all: texts wait, and are preempted and read again.
TEST_P(Speculation, PreemptionChangesNoBit) {
  std::vector<Case> list = cases();
  const std::vector<Generated> expected = alone(list);
  for (const bool ngrams : {true, false}) {
    DecoderOptions o{.sequences = 6, .max_rows = 64};
    o.cache = testing::cache_of(model_, o, 5);
    Decoder d(*device_, model_, o), same(*device_, model_, {.sequences = 6});
    SpeculationCounts counts;
    int64_t preemptions = 0;
    SpeculationOptions s{.ngrams = ngrams};
    if (!ngrams) s.draft = &same;
    expect_same(texts(d, list, s, &counts, &preemptions), expected);
    EXPECT_GT(counts.accepted, 0);
    if (o.cache > 0) {
      EXPECT_GT(preemptions, 0);
    }
    expect_pages_back(d.state());
  }
}

// Drafts with layers of each kind, which read prompts in pieces and do not have room for everything.
TEST_P(Speculation, DraftsOfEachKindAndTooSmallOnes) {
  const auto device = make_test_device(2);
  const Model target = model_of(kFamilies[0].json, *device), draft = model_of(GetParam().json, *device, 8);
  const std::vector<Case> list = cases();
  std::vector<Generated> expected;
  for (const Case& c : list) {
    Decoder d(*device, target, {});
    expected.push_back(texts(d, {c}, {}).front());
  }
  for (const DecoderOptions& o :
       {DecoderOptions{.sequences = 3, .take_back = 17}, DecoderOptions{.sequences = 4, .max_rows = 5},
        DecoderOptions{.sequences = 3, .context = 50},
        DecoderOptions{.sequences = 3, .cache = testing::cache_of(draft, {.sequences = 3}, 2)}}) {
    Decoder d(*device, target, {.sequences = 3}), small(*device, draft, o);
    SpeculationCounts counts;
    expect_same(texts(d, list, {.draft = &small}, &counts), expected);
    EXPECT_GT(counts.proposed, 0);
  }
  Decoder d(*device, target, {.sequences = 3}), few(*device, draft, {.sequences = 2});
  Scheduler s(d);
  EXPECT_EQ(testing::error_of([&] { s.speculate({.draft = &few}); }),
            "draft: a decoder of 2 sequences is too small for 3 texts");
}

// A call that fails changes nothing, with proposals in it as well; the next one continues.
TEST_P(Speculation, AFailedCallChangesNothing) {
  Model broken = model_of(GetParam().json, *device_);
  std::vector<float> table = broken.params->read("token_embd.weight");
  std::fill_n(table.begin() + 60 * broken.spec.d_model, broken.spec.d_model, NAN);
  broken.params->write("token_embd.weight", table);
  Decoder d(*device_, broken, {.sequences = 2, .check_finite = true}), same(*device_, model_, {.sequences = 2});
  Scheduler s(d);
  s.speculate({.draft = &same});
  std::vector<Generated> results(2);
  // The bias makes a text of 59s, the other ends in what the model cannot compute.
  for (const int32_t id : {59, 60}) {
    GenerateOptions o{.max_tokens = 20};
    o.sampler.logit_bias = {{id, 1000.0}};
    s.add({.prompt = {1, 2, 3}, .eos = {}, .options = o, .on_token = {}, .on_done = [&results, id](const Generated& g) {
             results[size_t(id - 59)] = g;
           }});
  }
  int errors = 0;
  for (int i = 0; i < 8; ++i) {
    try {
      s.step();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("NaN"), std::string::npos) << e.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 5);
  EXPECT_TRUE(s.cancel(1));
  s.run();
  ASSERT_EQ(results[0].tokens.size(), 20u);
  GenerateOptions o{.max_tokens = 20};
  o.sampler.logit_bias = {{59, 1000.0}};
  expect_same(results[0].tokens, alone({{.prompt = {1, 2, 3}, .options = o, .eos = {}}}).front().tokens, 0);
}

// A sequence that a text has ended in the middle of proposals holds the text: another scheduler continues it.
TEST_P(Speculation, EndedSequencesAreContinued) {
  const std::vector<int32_t> prompt = testing::random_ids(20, kVocab, Philox(3, "prompt")), next{7, 8, 9};
  for (const size_t stop_after : {3, 5, 8, 12}) {
    std::vector<std::vector<GeneratedToken>> second;
    for (const bool speculates : {false, true}) {
      Decoder d(*device_, model_, {}), same(*device_, model_, {});
      Case c{.prompt = prompt, .options = {.max_tokens = 40}, .eos = {}, .stop_after = stop_after};
      SpeculationOptions o;
      if (speculates) o.draft = &same;
      texts(d, {c}, o);
      EXPECT_EQ(d.state().length(0), int64_t(20 + stop_after - 1));
      second.push_back(generate(d, 0, next, {}, {.max_tokens = 10}));
    }
    expect_same(second[1], second[0], stop_after);
  }
}

// A sequence goes back where layers are recurrent, and after several calls where they have windows.
TEST_P(Speculation, StatesGoBack) {
  const std::vector<int32_t> prefix = testing::random_ids(130, kVocab, Philox(1, "prefix")),
                             more = testing::random_ids(12, kVocab, Philox(1, "more"));
  const auto feed = [](Decoder& d, const std::vector<int32_t>& text, size_t piece) {
    std::vector<float> last;
    for (size_t at = 0; at < text.size(); at += piece) {
      std::vector<DecodeRow> rows;
      for (size_t i = at; i < std::min(text.size(), at + piece); ++i) rows.push_back({0, text[i], true});
      d.decode(rows);
      const auto logits = d.logits(rows.size() - 1);
      last.insert(last.end(), logits.begin(), logits.end());
    }
    return last;
  };
  Decoder fresh(*device_, model_, {}), d(*device_, model_, {.take_back = 12});
  feed(fresh, prefix, 50);
  const std::vector<float> want = feed(fresh, more, 3);
  feed(d, prefix, 50);
  RecurrentStates before;
  d.state().save(0, before);
  for (int i = 0; i < 3; ++i) {
    feed(d, testing::random_ids(12, kVocab, Philox(uint64_t(i), "wrong")), 1);
    d.state().rewind(0, before);
    EXPECT_EQ(d.state().length(0), 130);
  }
  EXPECT_EQ(feed(d, more, 3), want);
  d.state().reset(0);
  EXPECT_THROW(d.state().rewind(0, before), Error);  // the sequence does not have it
}

INSTANTIATE_TEST_SUITE_P(Families, Speculation, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

// Vocabularies that are padded to different sizes: ids that one of both lacks are neither proposed nor read.
TEST(SpeculationOfServices, PaddedVocabularies) {
  const auto device = make_test_device(2);
  const auto model_with = [&](int64_t vocab) {
    const testing::Dimensions d{.vocab = vocab,
                                .d_model = 40,
                                .context = 200,
                                .tied = false,
                                .heads = 4,
                                .kv_heads = 2,
                                .d_head = 10,
                                .d_ff = 52};
    return random_model(testing::small_model("tiny", d), *device, 3, 2.0);
  };
  const Model model = model_with(80);
  std::vector<Case> list(3);
  for (size_t i = 0; i < 3; ++i) {
    list[i].prompt = {int32_t(i), 5, i == 1 ? 75 : 6};
    list[i].options = {.max_tokens = 60, .sampler = {.temperature = 1, .seed = i}};
  }
  Decoder alone(*device, model, {.sequences = 1});
  const std::vector<Generated> expected = texts(alone, list, {});
  for (const int64_t vocab : {70, 80, 130}) {
    const Model draft = model_with(vocab);
    require_same_tokens(model, draft);
    Decoder d(*device, model, {.sequences = 3}), small(*device, draft, {.sequences = 3});
    SpeculationCounts counts;
    expect_same(texts(d, list, {.draft = &small}, &counts), expected);
    EXPECT_GT(counts.proposed, 0);
  }
}

TEST(SpeculationOfServices, OtherTokensAreRefused) {
  const auto device = make_test_device(1);
  const auto model_with = [&](int64_t vocab, std::shared_ptr<const Tokenizer> tokenizer) {
    Model m = random_model(
        testing::small_model(
            "tiny",
            {.vocab = vocab, .d_model = 40, .context = 20, .heads = 4, .kv_heads = 2, .d_head = 10, .d_ff = 52}),
        *device, 3, 2.0);
    m.tokenizer = std::move(tokenizer);
    return m;
  };
  const auto bytes = make_byte_tokenizer();
  const Model model = model_with(256, bytes);
  EXPECT_EQ(testing::error_of([&] { require_same_tokens(model, model_with(400, nullptr)); }),
            "draft: it has 400 tokens and the model has 256; use a draft with the vocabulary of the model");
  EXPECT_EQ(testing::error_of([&] { require_same_tokens(model, model_with(256, nullptr)); }),
            "draft: only one of both models has a tokenizer, so their tokens cannot be compared; use a draft with the "
            "vocabulary of the model");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "the cat " + std::to_string(i);
  const auto spm = train_spm(text, {.vocab_size = 300});
  const std::string error = testing::error_of([&] { require_same_tokens(model, model_with(300, spm)); });
  EXPECT_EQ(error, "draft: token 0 is '" + spm->written(0) + "', but '?' in the model; use a draft with the " +
                       "vocabulary of the model");
  require_same_tokens(model, model_with(256, bytes));
}

}  // namespace
}  // namespace toy::speculation_test
