#include "toy/look/look.h"

#include <algorithm>
#include <cmath>

#include "look/parts.h"
#include "models/mixers/mixer.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/decode/text_classifier.h"

namespace toy {

using namespace looking;

namespace {

// ---- rows

std::vector<double> norms(std::span<const float> x, int64_t tokens) {
  std::vector<double> list;
  const size_t width = x.size() / size_t(tokens);
  for (size_t at = 0; at < x.size(); at += width) {
    double sum = 0;
    for (const float v : x.subspan(at, width)) sum += double(v) * v;
    list.push_back(std::sqrt(sum));
  }
  return list;
}

// What a block adds to `x`, part by part.
std::vector<Addition> additions_of(const std::vector<AddedTap>& parts, std::vector<float> x, int64_t tokens) {
  std::vector<Addition> list;
  const size_t width = x.size() / size_t(tokens);
  for (const AddedTap& a : parts) {
    Addition& to = list.emplace_back(Addition{a.part, norms(a.values, tokens), {}});
    const std::vector<double> of_x = norms(x, tokens);
    for (size_t t = 0; t < size_t(tokens); ++t) {
      double dot = 0;
      for (size_t i = t * width; i < (t + 1) * width; ++i) dot += double(x[i]) * double(a.values[i]);
      const double lengths = of_x[t] * to.norm[t];
      to.cosine.push_back(lengths > 0 ? dot / lengths : 0);
    }
    for (size_t i = 0; i < x.size(); ++i) x[i] += a.values[i];
  }
  return list;
}

// ---- heads

// Tokens of a text, uniform over those that have letters; of a model without a tokenizer over all.
std::vector<int32_t> random_tokens(const Model& model, int64_t n, uint64_t seed) {
  const Philox random(seed, "look");
  std::vector<int32_t> ids;
  for (uint64_t i = 0; int64_t(ids.size()) < n; ++i) {
    const auto id = int32_t(random.below(i, uint64_t(model.spec.vocab)));
    const bool is_text =
        !model.tokenizer || (id < model.tokenizer->vocab_size() && !model.tokenizer->token_bytes(id).empty());
    if (is_text || i > 100 * uint64_t(n)) ids.push_back(id);
  }
  return ids;
}

// Induction and duplicate scores: random tokens, after the beginning-of-sequence token where there is one, repeated.
void measure_repetition(Device& device, const Model& model, const LookOptions& o, ThreadPool& team, Look& result) {
  constexpr int64_t kTokens = 24, kLeast = 4;
  std::vector<int32_t> ids;
  if (model.tokenizer && model.tokenizer->adds_bos() && model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
  const int64_t begin = int64_t(ids.size());
  const int64_t n = std::min(kTokens, (model.spec.context - begin) / 2);
  if (n < kLeast) return;
  const std::vector<int32_t> text = random_tokens(model, n, o.seed);
  for (int copy = 0; copy < 2; ++copy) ids.insert(ids.end(), text.begin(), text.end());
  const Taps taps = run_blocks(device, model, ids, o.exact, true);
  std::vector<size_t> seen(result.layers.size(), 0);  // heads of a layer
  for (const AttentionTap& tap : taps.attention) {
    const HeadWeights heads(model, tap, taps.tokens);
    size_t& first = seen[size_t(tap.layer)];
    each_head(heads, team, [&](int64_t h, std::span<const float> w) {
      score_repetition(w, taps.tokens, begin, n, result.layers[size_t(tap.layer)].heads[first + size_t(h)].scores);
    });
    first += size_t(heads.count());
  }
  result.random_tokens = n;
}

void add_heads(const Model& model, const Taps& taps, const AttentionTap& tap, int64_t rows, ThreadPool& team,
               Look& result) {
  LayerLook& layer = result.layers[size_t(tap.layer)];
  layer.window = tap.attrs.window;
  const HeadWeights heads(model, tap, taps.tokens);
  const size_t first = layer.heads.size();
  layer.heads.resize(first + size_t(heads.count()));
  each_head(heads, team, [&](int64_t h, std::span<const float> w) {
    HeadLook& head = layer.heads[first + size_t(h)];
    head.scores = scores_of_text(w, taps.tokens);
    const auto last = w.last(size_t(rows * taps.tokens));
    head.weights.assign(last.begin(), last.end());
  });
}

void add_rule(const RuleTap& tap, int64_t tokens, ThreadPool& team, Look& result) {
  for (StateHead& head : run_rule(tap, tokens, team))
    result.layers[size_t(tap.layer)].states.push_back(std::move(head));
}

// `lens`: of each point, or none.
void add_rows(const Model& model, const Taps& taps, std::vector<std::vector<LensPoint>> lens, Look& result) {
  const size_t tokens = result.ids.size();
  for (const auto& [layer, chosen] : taps.experts) {
    const size_t used = chosen.size() / tokens;
    for (size_t t = 0; t < tokens; ++t)
      result.layers[size_t(layer)].experts.emplace_back(chosen.begin() + int64_t(t * used),
                                                        chosen.begin() + int64_t((t + 1) * used));
  }
  lens.resize(taps.x.size());
  result.norm = norms(taps.x[0], taps.tokens), result.lens = std::move(lens[0]);
  for (size_t l = 0; l < result.layers.size(); ++l) {
    LayerLook& layer = result.layers[l];
    layer.mixer = mixer_of(model.spec.layers[l].mixer).word;
    layer.added = additions_of(taps.added[l], taps.x[l], taps.tokens);
    layer.norm = norms(taps.x[l + 1], taps.tokens), layer.lens = std::move(lens[l + 1]);
  }
}

void add_classes(Device& device, const Model& model, bool exact, Look& result) {
  const std::vector<float> scores =
      Scorer(device, model, {.exact = exact}).scores(std::vector<std::vector<int32_t>>{result.ids});
  for (const TextClass& c : classes_of_scores(model.spec, scores)) result.classes.push_back({c.name, c.probability});
}

}  // namespace

void looking::check_text(const ModelSpec& spec, std::span<const int32_t> ids) {
  check(!ids.empty(), "look: the text has no tokens; give at least one");
  for (const int32_t id : ids)
    check(id >= 0 && id < spec.vocab, "look: token id {} is outside the vocabulary; use 0 to {}", id, spec.vocab - 1);
  check(int64_t(ids.size()) <= spec.context, "look: the text has {} tokens, and the model {} positions; use less text",
        ids.size(), spec.context);
}

// Parts in their order: the blocks, heads and recurrences, the lens, the rest of the rows, repeated tokens.
struct LookJob::State {
  State(Device& d, const Model& m, std::vector<int32_t> text, const LookOptions& options)
      : device(d), model(m), o(options), team(d.host_threads()) {
    check_limits(o);
    check_text(model.spec, text);
    const auto tokens = int64_t(text.size());
    require_look_memory(device, tokens, o, [&](int64_t fewer, const LookOptions& with) {
      return memory_of_look(device, model, fewer, with);
    });
    rows = o.rows > 0 ? std::min(o.rows, tokens) : tokens;
    result.ids = std::move(text), result.first_row = tokens - rows, result.causal = model.spec.causal;
  }
  bool step() {
    if (!taps) {
      taps = run_blocks(device, model, result.ids, o.exact, false);
      result.layers.resize(model.spec.layers.size());
    } else if (head < taps->attention.size()) {
      add_heads(model, *taps, taps->attention[head++], rows, team, result);
    } else if (rule < taps->rules.size()) {
      add_rule(taps->rules[rule++], taps->tokens, team, result);
    } else if (!lens && predicts_tokens(model.spec)) {
      lens = std::make_unique<LensOfAll>(device, model, *taps, result.ids, o);
    } else if (!complete && !(lens && lens->step())) {
      add_rows(model, *taps, lens ? std::move(lens->points) : std::vector<std::vector<LensPoint>>(), result);
      complete = true;
    } else if (complete && !measured) {
      // A repetition says nothing of who sees what follows.
      if (!taps->attention.empty() && model.spec.causal) measure_repetition(device, model, o, team, result);
      if (model.spec.score.classifies()) add_classes(device, model, o.exact, result);
      measured = true;
    } else {
      return !complete;
    }
    return true;
  }
  Device& device;
  const Model& model;
  const LookOptions o;
  ThreadPool team;
  Look result;
  int64_t rows = 0;
  std::optional<Taps> taps;
  size_t head = 0, rule = 0;
  std::unique_ptr<LensOfAll> lens;
  bool complete = false, measured = false;
};

LookJob::LookJob(Device& device, const Model& model, std::vector<int32_t> ids, const LookOptions& options)
    : state_(std::make_unique<State>(device, model, std::move(ids), options)) {}
LookJob::~LookJob() = default;
bool LookJob::step() { return state_->step(); }
Look& LookJob::result() { return state_->result; }

Look look(Device& device, const Model& model, std::span<const int32_t> ids, const LookOptions& o) {
  LookJob job(device, model, {ids.begin(), ids.end()}, o);
  while (job.step()) {
  }
  return std::move(job.result());
}

}  // namespace toy
