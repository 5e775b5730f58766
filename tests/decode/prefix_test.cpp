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

namespace toy::prefix_test {
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
    if (!alone_) alone_ = std::make_unique<Decoder>(*device_, model_, DecoderOptions{.kv = GetParam().kv});
    alone_->state().reset(0);
    return generate(*alone_, 0, prompt, {}, o);
  }
  // Runs one text to its end.
  static Result run(Scheduler& s, const Tokens& prompt, GenerateOptions o) {
    o.ignore_eos = true;
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
  void expect_fresh(const Result& r, const Tokens& prompt, const GenerateOptions& o) {
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
  std::unique_ptr<Decoder> alone_;
  const GenerateOptions options_{.max_tokens = 20};
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
      const GenerateOptions again{.max_tokens = 9, .sampler = {.temperature = 1.5, .seed = 4}};
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

// Nothing says where the part that they share ends: the second to leave it makes a snapshot there.
TEST_P(Prefixes, WherePromptsPart) {
  const Tokens system = tokens(300, "system");
  Decoder d(*device_, model_, options(1, 20, 40));
  Scheduler s(d);
  int64_t expected[] = {0, only_pages() ? 300 : 0, 300, 300};
  for (int i = 0; i < 4; ++i) {
    const Tokens prompt = system + Tokens{i} + tokens(90, std::to_string(i));
    const Result r = run(s, prompt, options_);
    EXPECT_EQ(r.shared, expected[i]) << i;
    expect_fresh(r, prompt, options_);
  }
}

// What is allocated is what was allowed, however little or much.
TEST_P(Prefixes, TheCacheCountsEverything) {
  DecodeShape shape = decode_shape(model_, options(2, 0, 1));
  const size_t least = state_bytes(model_.spec, shape), page = shared_page_bytes(model_.spec, shape),
               snapshot = kept_state_bytes(model_.spec, shape);
  EXPECT_EQ(snapshot == 0, only_pages());
  DecoderOptions o{.sequences = 2, .kv = GetParam().kv, .cache = least - 1};
  EXPECT_EQ(testing::error_of([&] { decode_shape(model_, o); }).find("cache: "), 0u);
  const Tokens prompt = message(80, "a") + tokens(30, "b");
  for (const size_t more : {size_t(0), page, 2 * snapshot, 3 * page, 3 * (page + snapshot), 20 * (page + snapshot)}) {
    o.cache = least + more;
    Decoder d(*device_, model_, o);
    EXPECT_EQ(d.state().bytes(), state_bytes(model_.spec, d.state().shape(), device_.get()));
    const size_t bytes = state_bytes(model_.spec, d.state().shape());
    EXPECT_LE(bytes, o.cache);
    EXPECT_GT(bytes + (page > 0 ? page : snapshot), o.cache);
    if (const int64_t pages = d.state().shape().shared_pages; pages == 1) continue;  // too short
    {
      Scheduler s(d);
      for (const std::string other : {"x", "y", "z"}) {
        expect_fresh(run(s, prompt, {.max_tokens = 5}), prompt, {.max_tokens = 5});
        run(s, message(90, other), {.max_tokens = 5});
      }
    }
    expect_all_free(d.state());
  }
}

TEST_P(Prefixes, StatesThatAreNotThere) {
  Decoder d(*device_, model_, options(2, 3, 12));
  DecodeState& state = d.state();
  std::vector<DecodeRow> rows;
  for (const int32_t id : tokens(150, "a")) rows.push_back({0, id});
  d.decode(rows);
  EXPECT_THROW(state.keep(0, 0), Error);
  EXPECT_THROW(state.keep(0, 151), Error);
  EXPECT_THROW(state.keep(1, 1), Error);
  if (state.recurrent()) {
    EXPECT_THROW(state.keep(0, 149), Error);
  }
  const std::optional<KeptState> kept = state.keep(0, 150);
  ASSERT_TRUE(kept);
  Tokens pages;
  for (int64_t p = 0; state.shared_pool() && p < 3; ++p) pages.push_back(state.page_of(0, p));
  EXPECT_THROW(state.adopt(0, 150, pages, &*kept), Error);  // it is not empty
  EXPECT_THROW(state.adopt(1, 149, pages, &*kept), Error);
  EXPECT_THROW(state.adopt(1, 3001, pages, &*kept), Error);
  if (!only_pages()) {
    EXPECT_THROW(state.adopt(1, 150, pages), Error);
  }
  EXPECT_THROW(state.adopt(1, 150, tokens(7, "pages"), &*kept), Error);
  EXPECT_EQ(state.length(1), 0);
  state.adopt(1, 150, pages, &*kept);
  for (int i = 0; i < 20; ++i) {  // each goes on in pages of its own
    d.decode(std::vector<DecodeRow>{{0, i, true}, {1, i, true}});
    EXPECT_TRUE(std::ranges::equal(d.logits(0), d.logits(1))) << i;
  }
  state.reset(1);
  state.adopt(1, 150, pages, &*kept);
  d.decode(std::vector<DecodeRow>{{1, 5, true}});
  const std::vector<float> logits(d.logits(0).begin(), d.logits(0).end());
  rows.push_back({0, 5, true});
  state.reset(0);
  d.decode(rows);
  EXPECT_TRUE(std::ranges::equal(d.logits(0), logits));
  state.drop(*kept);
  expect_all_free(state);
}

// Texts at once that begin alike, come at any time and do not fit: whatever is evicted or preempted.
TEST_P(Prefixes, SmallCaches) {
  const Philox random(12, "requests");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  int64_t shared = 0, preempted = 0;
  bool paged = false;
  for (int round = 0; round < 6; ++round) {
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
      shared += s.shared_tokens(), preempted += s.preemptions();
      paged = d.state().shared_pool().has_value();
    }
    expect_all_free(d.state());
  }
  EXPECT_GT(shared, 64 * 6);
  if (!GetParam().windows) {  // else room for a snapshot means more pages than the texts fill
    EXPECT_EQ(preempted > 0, paged);
  }
}

// Too short a prompt to be looked for, so the same pages are computed once more; then the text is longer than before,
// and fills the cache.
TEST_P(Prefixes, TheSameTextAgainFillsTheCache) {
  Decoder d(*device_, model_, options(1, 1, 8));
  {
    Scheduler s(d);
    const Tokens prompt = tokens(10, "prompt");
    for (const int64_t n : {300, 480, 480}) {
      const GenerateOptions o{.max_tokens = n, .ignore_eos = true};
      Generated result;
      s.add({.prompt = prompt, .options = o, .on_token = {}, .on_done = [&](const Generated& g) { result = g; }});
      int steps = 0;
      while (s.step() && steps < 2000) ++steps;
      expect_same(result.tokens, fresh(prompt, o));
    }
  }
  expect_all_free(d.state());
}

// A state of any prefix of what a sequence held: it is whole, and what is asked later is not disturbed.
TEST_P(Prefixes, StatesAfterLongerTexts) {
  Decoder d(*device_, model_, options(1, 3, 40));
  {
    Scheduler s(d);
    const Tokens prompt = tokens(250, "prompt"), other = tokens(90, "other");
    const GenerateOptions none{.max_tokens = 0};
    for (const size_t n : {249, 245, 228, 200, 171}) {
      SCOPED_TRACE(n);
      run(s, prompt, options_);
      const Tokens part(prompt.begin(), prompt.begin() + int64_t(n));
      auto state = std::make_shared<StateSnapshot>();
      s.add(
          {.prompt = part, .options = none, .on_token = {}, .on_state = [&](const StateSnapshot& of) { *state = of; }});
      s.run();
      ASSERT_EQ(state->length, int64_t(n));
      expect_fresh(run(s, other, options_), other, options_);
      Decoder fresh_decoder(*device_, model_, options(1, 3, 40));
      Scheduler t(fresh_decoder);
      t.add({.prompt = part, .options = none, .on_token = {}, .state = state});
      t.run();
      const Result r = run(t, prompt, options_);
      EXPECT_EQ(r.shared, int64_t(n));
      expect_fresh(r, prompt, options_);
    }
  }
  expect_all_free(d.state());
}

INSTANTIATE_TEST_SUITE_P(Models, Prefixes,
                         ::testing::Values(Case{"attention", nullptr}, Case{"windows", nullptr, true},
                                           Case{"qwen35", testing::kQwen35}, Case{"qwen3next", testing::kQwen3Next},
                                           Case{"hybrid_windows", testing::kHybridWithWindows, false, DType::q8_0},
                                           Case{"shared_kv", testing::kHybridWithSharedKv, false, DType::f16},
                                           Case{"recurrent", testing::kOnlyRecurrent}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::prefix_test
