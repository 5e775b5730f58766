// Prefixes that are found again later, in models of every kind: the tokens that are not computed again are counted, and
// the bits are those of a fresh prefill.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"

namespace toy {
namespace {

constexpr int32_t kVocab = 61, kEnd = 60;  // that ends a message

using Tokens = std::vector<int32_t>;

Tokens tokens(size_t n, const std::string& stream) { return testing::random_ids(n, kEnd, Philox(7, stream.c_str())); }
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Tokens message(size_t n, const std::string& stream) { return tokens(n - 1, stream) + Tokens{kEnd}; }

struct Case {
  const char* name;
  const char* json;  // nullptr: a Llama, with windows in some layers or without
  bool windows = false;
  DType kv = DType::f32;
};

struct Result {
  Generated text;
  int64_t shared = 0;  // tokens of its prompt that were not computed
};

class Prefixes : public ::testing::TestWithParam<Case> {
 protected:
  static ModelSpec spec() {
    if (GetParam().json) {
      nlohmann::json j = nlohmann::json::parse(GetParam().json);
      j["context"] = 3000;
      return spec_from_json(j, "test");
    }
    return testing::small_model("tiny", {.vocab = kVocab,
                                         .d_model = 64,
                                         .context = 3000,
                                         .layers = 4,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .d_head = 32,
                                         .d_ff = 96});
  }
  void SetUp() override {
    const int64_t windows[] = {0, 100, 70, 100};  // no file of the family has several: set in the finished model
    for (size_t i = 0; GetParam().windows && i < 4; ++i) model_.spec.layers[i].window = windows[i];
  }
  bool only_pages() const { return !GetParam().json && !GetParam().windows; }
  // A cache with room for so many snapshots and pages, or a few more of one of them.
  DecoderOptions options(int sequences, int64_t snapshots, int64_t pages, int64_t rows = 256) const {
    DecoderOptions o{.sequences = sequences, .max_rows = rows, .kv = GetParam().kv};
    DecodeShape shape = decode_shape(model_, o);
    shape.shared_pages = 1;
    const size_t snapshot = kept_state_bytes(model_.spec, shape), page = shared_page_bytes(model_.spec, shape);
    o.cache = state_bytes(model_.spec, shape) +
              (page > 0 && snapshot > 0 ? 2 : 1) * std::max(size_t(snapshots) * snapshot, size_t(pages - 1) * page);
    return o;
  }
  std::vector<GeneratedToken> fresh(const Tokens& prompt, const GenerateOptions& o) {
    Decoder d(*device_, model_, {.kv = GetParam().kv});
    return generate(d, 0, prompt, {}, o);
  }
  // Runs one text to its end.
  static Result run(Scheduler& s, const Tokens& prompt, const GenerateOptions& o) {
    Result r;
    const int64_t before = s.shared_tokens();
    s.add({.prompt = prompt, .eos = {kEnd}, .options = o, .on_token = {}, .on_done = [&](const Generated& g) {
             r.text = g;
           }});
    s.run();
    r.shared = s.shared_tokens() - before;
    return r;
  }
  static void expect_same(const std::vector<GeneratedToken>& a, const std::vector<GeneratedToken>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].chosen.id, b[i].chosen.id) << i;
      EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob) << i;  // to the bit
    }
  }
  void expect_fresh(const Result& r, const Tokens& prompt, GenerateOptions o) {
    o.ignore_eos = true;
    expect_same(r.text.tokens, fresh(prompt, o));
  }
  static Tokens ids_of(const Generated& g) {
    Tokens ids;
    for (const GeneratedToken& t : g.tokens) ids.push_back(t.chosen.id);
    return ids;
  }
  // Without its scheduler, nothing holds anything.
  static void expect_all_free(DecodeState& state) {
    for (int s = 0; s < state.sequences(); ++s) state.reset(s);
    for (size_t p = 0; p < state.pools().size(); ++p) EXPECT_EQ(state.free_pages(p), state.pools()[p].pages) << p;
    EXPECT_EQ(state.free_snapshots(), state.recurrent() ? state.shape().snapshots : 0);
  }

  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(spec(), *device_, 3, 2.0);
  const GenerateOptions options_{.max_tokens = 20, .ignore_eos = true};
};

// Although other texts have used all sequences since.
TEST_P(Prefixes, TheNextTurnComputesOnlyWhatIsNew) {
  const Tokens header{1, 2, 3}, first = message(75, "system") + message(60, "user") + header;
  for (const int sequences : {1, 2}) {
    Decoder d(*device_, model_, options(sequences, 40, 40));
    {
      Scheduler s(d);
      Tokens prompt = first, before;
      int64_t known = 0;
      for (const std::string turn : {"first", "second", "third"}) {
        const Result r = run(s, prompt, options_);
        EXPECT_EQ(r.shared, known) << turn;
        expect_fresh(r, prompt, options_);
        for (const std::string other : {"x", "y"}) run(s, tokens(90, turn + other), {.max_tokens = 3});
        known = int64_t(prompt.size()) + options_.max_tokens - 1;  // the last token was not fed
        before = prompt;
        prompt = prompt + ids_of(r.text) + Tokens{kEnd} + message(17, turn) + header;
      }
      // Another version of the latest answer. A snapshot is at the end of the last message.
      const GenerateOptions again{.max_tokens = 9, .sampler = {.temperature = 1.5, .seed = 4}, .ignore_eos = true};
      const Result r = run(s, before, again);
      EXPECT_EQ(r.shared, int64_t(before.size()) - (only_pages() ? 1 : 3));
      expect_fresh(r, before, again);
    }
    expect_all_free(d.state());
  }
}

// It is computed again from the nearest snapshot before: the end of a message, or an interval of 512 tokens.
TEST_P(Prefixes, AChangeInTheMiddleComputesTheRest) {
  const Tokens head = message(75, "system") + message(230, "user"), tail = tokens(1300, "document");
  const Tokens prompt = head + tail;
  for (const int64_t rows : {100, 256}) {
    Decoder d(*device_, model_, options(1, 40, 200, rows));
    {
      Scheduler s(d);
      run(s, prompt, {.max_tokens = 2});
      run(s, tokens(100, "other"), {.max_tokens = 2});
      const auto changed = [&](size_t at) {
        Tokens p = prompt;
        p[at] = (p[at] + 1) % kEnd;
        const Result r = run(s, p, {.max_tokens = 4});
        expect_fresh(r, p, {.max_tokens = 4});
        run(s, tokens(100, "another"), {.max_tokens = 2});
        return r.shared;
      };
      EXPECT_EQ(changed(1400), only_pages() ? 1400 : 1024);
      EXPECT_EQ(changed(1023), only_pages() ? 1023 : 512);
      EXPECT_EQ(changed(400), only_pages() ? 400 : 305);
      EXPECT_EQ(changed(250), only_pages() ? 250 : 75);
      EXPECT_EQ(changed(40), 0);
      EXPECT_EQ(run(s, prompt, {.max_tokens = 1}).shared, 1604);
    }
    expect_all_free(d.state());
  }
}

// Texts at once that begin alike, come at any time and do not fit: whatever is evicted or preempted.
TEST_P(Prefixes, SmallCaches) {
  const Philox random(12, "requests");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  int64_t shared = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<Tokens> nodes{message(70 + below(20), "root")};
    std::vector<Tokens> prompts;
    for (int i = 0; i < 14; ++i) {
      Tokens prompt = nodes[below(nodes.size())];
      if (below(3) == 0) prompt.resize(std::max<size_t>(1, prompt.size() - below(30)));
      while (below(2) && prompt.size() < 200) prompt = prompt + message(1 + below(60), std::to_string(below(3)));
      nodes.push_back(prompt);
      prompts.push_back(prompt);
    }
    const int sequences = 1 + int(below(4));
    const int64_t rows = std::vector<int64_t>{3, 40, 256}[below(3)];
    SCOPED_TRACE(::testing::Message() << "round " << round << ", " << sequences << " sequences, " << rows << " rows");
    Decoder d(*device_, model_, options(sequences, int64_t(1 + below(6)), 5, rows));
    {
      Scheduler s(d);
      std::vector<Generated> results(prompts.size());
      std::vector<GenerateOptions> how(prompts.size(), GenerateOptions{.max_tokens = 5, .ignore_eos = true});
      for (size_t i = 0; i < prompts.size(); ++i) {
        how[i].max_tokens = int64_t(1 + below(60));
        s.add({.prompt = prompts[i],
               .eos = {kEnd},
               .options = how[i],
               .on_token = {},
               .on_done = [&results, i](const Generated& g) { results[i] = g; }});
        for (uint64_t steps = below(12); steps > 0; --steps) s.step();
      }
      s.run();
      for (size_t i = 0; i < prompts.size(); ++i) expect_same(results[i].tokens, fresh(prompts[i], how[i]));
      shared += s.shared_tokens();
    }
    expect_all_free(d.state());
  }
  EXPECT_GT(shared, 64 * 12);
}

INSTANTIATE_TEST_SUITE_P(Models, Prefixes,
                         ::testing::Values(Case{"attention", nullptr}, Case{"windows", nullptr, true},
                                           Case{"qwen35", testing::kQwen35}, Case{"qwen3next", testing::kQwen3Next},
                                           Case{"hybrid_windows", testing::kHybridWithWindows, false, DType::q8_0},
                                           Case{"shared_kv", testing::kHybridWithSharedKv, false, DType::f16},
                                           Case{"recurrent", testing::kOnlyRecurrent}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy
