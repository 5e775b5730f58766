// Attention weights from the queries and keys that the op was given, and what they say of a head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "look/parts.h"

namespace toy::looking {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// One head's scores, made weights. `sink`: a score without a key, or -inf.
void weigh(const AttentionTap& tap, int64_t head, int64_t tokens, double sink, float* to) {
  const int64_t width = tap.width, kv = head / (tap.heads / tap.kv_heads);
  const double cap = tap.attrs.softcap, slope = tap.attrs.alibi ? alibi_slope(head, tap.heads) : 0;
  std::vector<double> s(static_cast<size_t>(tokens));
  for (int64_t i = 0; i < tokens; ++i, to += tokens) {
    const float* q = tap.q.data() + (i * tap.heads + head) * width;
    const int64_t window = tap.attrs.window, first = window > 0 ? std::max<int64_t>(0, i - window + 1) : 0;
    const int64_t end = !tap.both ? i + 1 : window > 0 ? std::min(tokens, i + window) : tokens;
    double top = sink;
    for (int64_t j = first; j < end; ++j) {
      const float* k = tap.k.data() + (j * tap.kv_heads + kv) * width;
      double dot = 0;
      for (int64_t p = 0; p < width; ++p) dot += double(q[p]) * double(k[p]);
      double& score = s[size_t(j)] = dot * tap.attrs.scale;
      if (cap > 0) score = cap * std::tanh(score / cap);
      score -= slope * double(std::abs(i - j));
      top = std::max(top, score);
    }
    double sum = std::exp(sink - top);
    for (int64_t j = first; j < end; ++j) sum += s[size_t(j)] = std::exp(s[size_t(j)] - top);
    for (int64_t j = first; j < end; ++j) to[j] = float(s[size_t(j)] / sum);
  }
}

}  // namespace

// Differential attention gives the op each map twice, since a pair's values are twice as wide: of each pair of G heads
// A1 A1 A2 A2, where the query heads are A1 A2 taking turns.
std::vector<int64_t> query_heads(const LayerSpec& l, int64_t heads) {
  std::vector<int64_t> list;
  if (!l.differential || heads != 2 * l.heads) {
    for (int64_t h = 0; h < heads; ++h) list.push_back(h);
    return list;
  }
  const int64_t group = l.heads / l.kv_heads;
  for (int64_t h = 0; h < l.heads; ++h) {
    const int64_t map = h % 2, in_group = h / 2 % group, pair = h / 2 / group;
    list.push_back((pair * 4 + 2 * map) * group + in_group);
  }
  return list;
}

HeadWeights::HeadWeights(const Model& model, const AttentionTap& tap, int64_t tokens)
    : tap_(tap),
      tokens_(tokens),
      heads_(query_heads(model.spec.layers[size_t(tap.layer)], tap.heads)),
      sinks_(size_t(tap.heads), -std::numeric_limits<double>::infinity()) {
  if (!model.spec.layers[size_t(tap.layer)].sinks) return;
  const std::vector<float> stored = model.params->read(fmt::format("blk.{}.attn_sinks.weight", tap.layer));
  std::copy(stored.begin(), stored.end(), sinks_.begin());
}

void HeadWeights::of(int64_t head, std::vector<float>& weights) const {
  weights.assign(size_t(tokens_ * tokens_), 0);
  const int64_t of_op = heads_[size_t(head)];
  weigh(tap_, of_op, tokens_, sinks_[size_t(of_op)], weights.data());
}

void each_head(const HeadWeights& heads, ThreadPool& team,
               const std::function<void(int64_t head, std::span<const float> weights)>& use) {
  team.run([&](int thread) {
    const Range mine = part(heads.count(), thread, team.size());
    std::vector<float> weights;
    for (int64_t h = mine.begin; h < mine.end; ++h) heads.of(h, weights), use(h, weights);
  });
}

HeadScores scores_of_text(std::span<const float> weights, int64_t tokens) {
  HeadScores s{kNone, kNone, kNone, kNone, kNone, kNone};
  if (tokens < 2) return s;
  double previous = 0, first = 0, entropy = 0, distance = 0;
  for (int64_t i = 1; i < tokens; ++i) {
    const float* row = weights.data() + i * tokens;
    double sum = 0;
    for (int64_t j = 0; j < tokens; ++j) {
      const double p = row[j];
      sum += p, distance += p * double(std::abs(i - j));
      if (p > 0) entropy -= p * std::log(p);
    }
    previous += row[i - 1];
    first += row[0] + std::max(0.0, 1 - sum);  // the rest is a learned sink's
  }
  const double n = double(tokens - 1);
  s.previous = previous / n, s.first = first / n, s.entropy = entropy / n, s.distance = distance / n;
  return s;
}

void score_repetition(std::span<const float> weights, int64_t tokens, int64_t begin, int64_t n, HeadScores& scores) {
  double induction = 0, duplicate = 0;
  for (int64_t i = begin + n; i < begin + 2 * n; ++i) {
    const float* row = weights.data() + i * tokens;
    induction += row[i - n + 1], duplicate += row[i - n];
  }
  scores.induction = induction / double(n), scores.duplicate = duplicate / double(n);
}

}  // namespace toy::looking

namespace toy {

std::vector<std::string> HeadScores::roles() const {
  std::vector<std::string> list;
  for (const auto& [score, name] : {std::pair(previous, "previous token"), std::pair(first, "first token"),
                                    std::pair(induction, "induction"), std::pair(duplicate, "duplicate token")})
    if (score >= kHeadRole) list.emplace_back(name);
  return list;
}

}  // namespace toy
