// Everything at once: adapters, grammars and schemas, proposed tokens, prefixes that are found again, and a cache that
// is too small for all. Each text has the bits that it has by itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "testing/adapters.h"
#include "testing/decoding.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/scheduler.h"
#include "toy/grammar/grammar.h"

namespace toy::combinations_test {
namespace {

constexpr int32_t kVocab = 256;

struct Family {
  const char* name;
  const char* json;
};
const Family kFamilies[] = {
    {"attention", R"({"architecture": "llama", "d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv": 2, "d_head": 16,
      "d_ff": 96, "tied": false})"},
    {"windows", R"({"architecture": "toy", "d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv": 2, "d_head": 16,
      "d_ff": 96, "tied": false, "layers": "attn(window=40),attn"})"},
    {"hybrid", testing::kQwen35},
};
constexpr const char* kDraft =
    R"({"architecture": "toy", "d_model": 32, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 16, "d_ff": 32,
    "tied": false})";

Model model_of(const char* json, const Device& device, uint64_t seed = 3) {
  nlohmann::json j = nlohmann::json::parse(json);
  j["vocab"] = kVocab, j["context"] = 400;
  return random_model(spec_from_json(j, "test"), device, seed, 2.0);
}

// Every pair of adapters and forms, greedy and seeded. The prompts have two pages in common, and the texts need another
// one while they are written.
std::vector<GenerateRequest> requests(const Tokenizer& tokenizer) {
  const TokenTrie trie(tokenizer);
  const auto schema = nlohmann::ordered_json::parse(R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 9}, "days": {"type": "array", "items": {"enum": ["Monday", "Tuesday"]},
      "minItems": 3}}, "required": ["name", "days"]})");
  const std::shared_ptr<const TokenConstraint> forms[] = {
      nullptr, json_schema_grammar(schema).constraint(trie),
      parse_gbnf(R"(root ::= (([a-d] [a-d] | "and") " ")+)").constraint(trie)};
  const std::vector<float> adapters[] = {{0, 0}, {1, 0}, {0, 1}, {1, 0.5f}};
  const std::vector<int32_t> prefix = testing::random_ids(160, kVocab, Philox(1, "prefix"));
  std::vector<GenerateRequest> list;
  for (const auto& form : forms)
    for (const auto& factors : adapters)
      for (const double temperature : {0.0, 0.9}) {
        GenerateRequest r{.prompt = prefix, .eos = {}, .options = {.max_tokens = 30, .top_logprobs = 2}};
        const std::vector<int32_t> own = testing::random_ids(3 + list.size(), kVocab, Philox(list.size(), "own"));
        r.prompt.insert(r.prompt.end(), own.begin(), own.end());
        r.options.sampler = {.temperature = temperature, .seed = list.size(), .constraint = form};
        r.adapters = factors;
        list.push_back(std::move(r));
      }
  return list;
}

class Combinations : public ::testing::TestWithParam<Family> {
 protected:
  Combinations() {
    for (const uint64_t seed : {0, 1}) testing::add_adapter(model_, seed);
  }
  static std::vector<Generated> run(Scheduler& scheduler, const std::vector<GenerateRequest>& list) {
    std::vector<Generated> results(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      GenerateRequest r = list[i];
      r.on_done = [&results, i](const Generated& g) { results[i] = g; };
      scheduler.add(std::move(r));
    }
    scheduler.run();
    return results;
  }
  static void expect_same(const Generated& a, const Generated& b) {
    EXPECT_EQ(a.reason, b.reason);
    ASSERT_EQ(a.tokens.size(), b.tokens.size());
    for (size_t t = 0; t < a.tokens.size(); ++t) {
      ASSERT_EQ(a.tokens[t].chosen.id, b.tokens[t].chosen.id) << t;
      ASSERT_EQ(a.tokens[t].chosen.logprob, b.tokens[t].chosen.logprob) << t;  // to the bit
      for (size_t k = 0; k < 2; ++k) EXPECT_EQ(a.tokens[t].best[k].logprob, b.tokens[t].best[k].logprob) << t;
    }
  }

  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = model_of(GetParam().json, *device_);
  const std::vector<GenerateRequest> list_ = requests(*make_byte_tokenizer());
};

TEST_P(Combinations, TheSameBitsAsAlone) {
  std::vector<Generated> alone;
  for (const GenerateRequest& r : list_) {
    Decoder d(*device_, model_, {.adapters_by_sequence = true});
    Scheduler scheduler(d);
    alone.push_back(run(scheduler, {r})[0]);
  }
  const Model other = model_of(kDraft, *device_, 8), base = model_of(GetParam().json, *device_);
  struct Way {
    const char* name;
    bool ngrams;
    const Model* draft;
    bool preempts;  // a cache for three texts that do not grow
  };
  int64_t preempted_and_shared = 0;  // tokens
  for (const Way& way : {Way{"nobody, small", false, nullptr, true}, Way{"n-grams, small", true, nullptr, true},
                         Way{"n-grams, large", true, nullptr, false}, Way{"other draft, small", false, &other, true},
                         Way{"other draft, large", false, &other, false}, Way{"base, small", false, &base, true}}) {
    SCOPED_TRACE(way.name);
    DecoderOptions o{.sequences = 5, .max_rows = 64, .adapters_by_sequence = true};
    o.cache = testing::cache_of(model_, o, way.preempts ? 9 : 200);
    Decoder d(*device_, model_, o);
    Scheduler scheduler(d);
    std::optional<Decoder> draft;
    if (way.draft) draft.emplace(*device_, *way.draft, DecoderOptions{.sequences = 5, .take_back = 16});
    const SpeculationOptions speculation{.ngrams = way.ngrams, .draft = draft ? &*draft : nullptr};
    if (speculation.active()) scheduler.speculate(speculation);
    int64_t accepted = 0;                                           // in texts with an adapter and a form
    for (int round = 0; round < (way.preempts ? 1 : 2); ++round) {  // the second finds what the first has left
      const int64_t shared = scheduler.shared_tokens();
      const std::vector<Generated> got = run(scheduler, list_);
      for (size_t i = 0; i < list_.size(); ++i) {
        SCOPED_TRACE("round " + std::to_string(round) + ", request " + std::to_string(i));
        expect_same(got[i], alone[i]);
        if (list_[i].options.sampler.constraint && list_[i].adapters != std::vector<float>{0, 0})
          accepted += got[i].speculation.accepted;
      }
      if (way.preempts) {
        preempted_and_shared += scheduler.shared_tokens();
      } else {
        EXPECT_GT(scheduler.shared_tokens(), shared);
      }
    }
    EXPECT_EQ(scheduler.preemptions() > 0, way.preempts) << scheduler.preemptions();
    EXPECT_EQ(accepted > 0, speculation.active());
  }
  EXPECT_GT(preempted_and_shared, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, Combinations, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace toy::combinations_test
