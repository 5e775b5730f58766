// Two readings of one text, point by point.
#include "toy/look/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "look/parts.h"
#include "models/mixers/mixer.h"
#include "toy/base/error.h"

namespace toy {

using namespace looking;

namespace {

double norm(std::span<const float> row) {
  double sum = 0;
  for (const float v : row) sum += double(v) * v;
  return std::sqrt(sum);
}

// |b - a| / |a| of each row; 1 where a is 0 and b is not, as where all of b is new.
std::vector<double> relative(std::span<const float> a, std::span<const float> b, int64_t tokens) {
  const size_t width = a.size() / size_t(tokens);
  std::vector<double> list;
  for (size_t at = 0; at < a.size(); at += width) {
    double sum = 0;
    for (size_t i = at; i < at + width; ++i) sum += (double(b[i]) - double(a[i])) * (double(b[i]) - double(a[i]));
    const double length = norm(a.subspan(at, width));
    list.push_back(sum == 0 ? 0 : length == 0 ? 1 : std::sqrt(sum) / length);
  }
  return list;
}

// Half the sum of the differences of the weights; what a learned sink takes counts as one more weight.
std::vector<double> moved(std::span<const float> a, std::span<const float> b, size_t tokens) {
  std::vector<double> list;
  for (size_t at = 0; at < a.size(); at += tokens) {
    double sum = 0, rest = 0;
    for (size_t j = at; j < at + tokens; ++j)
      sum += std::abs(double(a[j]) - double(b[j])), rest += double(a[j]) - double(b[j]);
    list.push_back((sum + std::abs(rest)) / 2);
  }
  return list;
}

void compare_attention(const Reading& before, const Reading& after, const Taps& a, const Taps& b, ThreadPool& team,
                       LookDifference& result) {
  for (size_t i = 0; i < a.attention.size(); ++i) {
    const HeadWeights of_a(before.model, a.attention[i], a.tokens), of_b(after.model, b.attention[i], b.tokens);
    auto& heads = result.layers[size_t(a.attention[i].layer)].attention;
    const size_t first = heads.size();
    heads.resize(first + size_t(of_a.count()));
    each_head(of_a, team, [&](int64_t h, std::span<const float> its) {
      std::vector<float> other;
      of_b.of(h, other);
      heads[first + size_t(h)] = moved(its, other, size_t(a.tokens));
    });
  }
}

void compare_lens(Device& device, const Reading& before, const Reading& after, const Taps& a, const Taps& b,
                  const LookOptions& o, ThreadPool& team, LookDifference& result) {
  const int64_t vocab = before.model.spec.vocab;
  Lens of_a(device, before.model, o.exact, a.tokens), of_b(device, after.model, o.exact, a.tokens);
  const auto& ids = result.ids;
  for (int64_t begin = 0; begin < a.tokens; begin += of_a.together()) {
    const int64_t n = std::min(of_a.together(), a.tokens - begin);
    for (size_t point = 0; point < a.x.size(); ++point) {
      const std::vector<float> za = of_a.logits(a.x[point], begin, n), zb = of_b.logits(b.x[point], begin, n);
      const bool is_output = point + 1 == a.x.size();
      check(!is_output || (std::all_of(za.begin(), za.end(), [](float v) { return std::isfinite(v); }) &&
                           std::all_of(zb.begin(), zb.end(), [](float v) { return std::isfinite(v); })),
            "look: a model's logits are not finite: its weights are broken");
      auto& kl = point == 0 ? result.embedding.kl : result.layers[point - 1].kl;
      team.run([&](int thread) {
        const Range mine = part(n, thread, team.size());
        for (int64_t i = mine.begin; i < mine.end; ++i) {
          const size_t t = size_t(begin + i), at = size_t(i * vocab);
          const auto next = t + 1 < ids.size() ? std::optional(ids[t + 1]) : std::nullopt;
          const auto row_a = std::span(za).subspan(at, size_t(vocab)), row_b = std::span(zb).subspan(at, size_t(vocab));
          LensPoint there = lens_point(row_b, row_a, next, o.top);
          kl[t] = there.kl;
          if (!is_output) continue;
          result.before[t] = lens_point(row_a, row_a, next, o.top);
          result.after[t] = std::move(there);
        }
      });
    }
  }
}

LookMemory memory_of_comparison(Device& device, const Reading& before, const Reading& after, int64_t tokens,
                                const LookOptions& o) {
  const Blocks a(device, before.model, tokens, o.exact, false, before.without),
      b(device, after.model, tokens, o.exact, false, after.without);
  const LookMemory of_a = Lens::memory(device, before.model, o.exact, tokens),
                   of_b = Lens::memory(device, after.model, o.exact, tokens);
  const size_t heads = 2 * size_t(device.host_threads()) * size_t(tokens * tokens) * sizeof(float);
  const size_t result =
      size_t(a.heads() * tokens) * (sizeof(double) + (o.output == LookOptions::numbers ? 0 : kBytesOfJsonNumber));
  return {std::max({a.device_bytes(), b.device_bytes(), of_a.device + of_b.device}),
          a.host_bytes() + b.host_bytes() + result + std::max(heads, of_a.host + of_b.host)};
}

// Layers that differ in what the numbers are of.
std::string other_layer(const ModelSpec& a, const ModelSpec& b, size_t l) {
  const LayerSpec &x = a.layers[l], &y = b.layers[l];
  const auto word = [](const LayerSpec& s) { return mixer_of(s.mixer).word; };
  if (x.mixer != y.mixer) return fmt::format("layer {} is {} in one and {} in the other", l, word(x), word(y));
  if (x.heads != y.heads) return fmt::format("layer {} has {} heads in one and {} in the other", l, x.heads, y.heads);
  if (x.differential != y.differential)
    return fmt::format("layer {} has differential attention in one of them only", l);
  return {};
}

}  // namespace

double LookDifference::loss(const std::vector<LensPoint>& output) {
  double sum = 0;
  for (size_t t = 0; t + 1 < output.size(); ++t) sum -= std::log(output[t].next);
  return output.size() > 1 ? sum / double(output.size() - 1) : std::numeric_limits<double>::quiet_NaN();
}

std::string incomparable(const Model& a, const Model& b) {
  const auto numbers = [](const char* what, int64_t x, int64_t y) {
    return fmt::format("one has {} {} and the other {}", x, what, y);
  };
  if (!a.spec.causal || !b.spec.causal) return "readings of encoders are not compared";
  if (a.spec.vocab != b.spec.vocab) return numbers("tokens", a.spec.vocab, b.spec.vocab);
  if (bool(a.tokenizer) != bool(b.tokenizer)) return "one has a tokenizer and the other has none";
  if (a.tokenizer) {
    if (a.tokenizer->vocab_size() != b.tokenizer->vocab_size())
      return numbers("tokens in its tokenizer", a.tokenizer->vocab_size(), b.tokenizer->vocab_size());
    for (int32_t id = 0; id < a.tokenizer->vocab_size(); ++id)
      if (a.tokenizer->token_bytes(id) != b.tokenizer->token_bytes(id))
        return fmt::format("token {} is '{}' in one and '{}' in the other", id, text_of(a.tokenizer.get(), id),
                           text_of(b.tokenizer.get(), id));
  }
  if (a.spec.d_model != b.spec.d_model) return numbers("numbers in a row", a.spec.d_model, b.spec.d_model);
  if (a.spec.layers.size() != b.spec.layers.size())
    return numbers("layers", int64_t(a.spec.layers.size()), int64_t(b.spec.layers.size()));
  for (size_t l = 0; l < a.spec.layers.size(); ++l)
    if (std::string other = other_layer(a.spec, b.spec, l); !other.empty()) return other;
  return {};
}

LookDifference compare_looks(Device& device, const Reading& before, const Reading& after, std::span<const int32_t> ids,
                             const LookOptions& o) {
  check_limits(o);
  const std::string why = incomparable(before.model, after.model);
  check(why.empty(), "look: these models cannot be compared: {}; use a model and what was made of it", why);
  check_text(before.model.spec, ids), check_text(after.model.spec, ids);
  require_look_memory(device, int64_t(ids.size()), o, [&](int64_t fewer, const LookOptions&) {
    return memory_of_comparison(device, before, after, fewer, o);
  });
  const Taps a = run_blocks(device, before.model, ids, o.exact, false, before.without),
             b = run_blocks(device, after.model, ids, o.exact, false, after.without);
  check(a.attention.size() == b.attention.size(), "look: these models cannot be compared: their attention differs");
  LookDifference result{.ids = {ids.begin(), ids.end()},
                        .before = std::vector<LensPoint>(ids.size()),
                        .after = std::vector<LensPoint>(ids.size()),
                        .embedding = {},
                        .layers = std::vector<LayerDifference>(before.model.spec.layers.size())};
  for (size_t point = 0; point < a.x.size(); ++point) {
    PointDifference& to = point == 0 ? result.embedding : result.layers[point - 1];
    to.rows = relative(a.x[point], b.x[point], a.tokens), to.kl.resize(ids.size());
  }
  ThreadPool team(device.host_threads());
  compare_attention(before, after, a, b, team, result);
  compare_lens(device, before, after, a, b, o, team, result);
  return result;
}

}  // namespace toy
