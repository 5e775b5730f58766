// The logit lens: the model's own final norm and output projection on the rows between its blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "look/parts.h"
#include "toy/base/error.h"

namespace toy::looking {

double log_sum(std::span<const float> z) {
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const float v : z) sum += std::exp(double(v) - top);
  return top + std::log(sum);
}

LensPoint lens_point(std::span<const float> z, std::span<const float> output, std::optional<int32_t> next,
                     int64_t top) {
  const double norm = log_sum(z), output_norm = log_sum(output);
  LensPoint p;
  std::vector<int32_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t k = std::min(z.size(), size_t(top));
  std::partial_sort(order.begin(), order.begin() + int64_t(k), order.end(), [&](int32_t a, int32_t b) {
    return z[size_t(a)] != z[size_t(b)] ? z[size_t(a)] > z[size_t(b)] : a < b;
  });
  for (size_t i = 0; i < k; ++i) p.top.push_back({order[i], std::exp(double(z[size_t(order[i])]) - norm)});
  for (size_t i = 0; i < z.size(); ++i) {
    const double log_p = double(z[i]) - norm, log_output = double(output[i]) - output_norm;
    p.entropy -= std::exp(log_p) * log_p;
    if (const double q = std::exp(log_output); q > 0) p.kl += q * (log_output - log_p);
  }
  p.kl = std::max(0.0, p.kl);  // it is 0 but for rounding at the last layer
  p.next = std::numeric_limits<double>::quiet_NaN();
  if (!next) return p;
  const float its = z[size_t(*next)];
  p.next = std::exp(double(its) - norm);
  p.rank = std::count_if(z.begin(), z.end(), [&](float v) { return v > its; });
  return p;
}

namespace {

int64_t rows_together(int64_t tokens) { return std::min<int64_t>(32, tokens); }

}  // namespace

std::shared_ptr<const Plan> Lens::plan(Device& device, const Model& model, bool exact, int64_t tokens) {
  Graph g;
  const int rows = g.declare_rows("rows", rows_together(tokens));
  const Value x = g.input("x", g.rows_type(rows, DType::f32, {model.spec.d_model}));
  const Transformer transformer(model.spec, Weights(g, dtypes_of(model)), 0);
  const Value logits = transformer.head.logits(model.spec.final_norm ? transformer.head.norm(x) : x);
  return std::make_shared<const Plan>(compile(g, std::vector{logits}, {}, device, plan_options(exact)));
}

LookMemory Lens::memory(Device& device, const Model& model, bool exact, int64_t tokens) {
  const auto made = plan(device, model, exact, tokens);
  // The logits of two points, and an order of them for each thread.
  const int64_t rows = 2 * rows_together(tokens) + device.host_threads();
  return {made->arena_bytes + made->input_bytes(device), size_t(rows * model.spec.vocab) * sizeof(float)};
}

Lens::Lens(Device& device, const Model& model, bool exact, int64_t tokens)
    : width_(model.spec.d_model), together_(rows_together(tokens)) {
  const auto made = plan(device, model, exact, tokens);
  require_memory(device, made->arena_bytes + made->input_bytes(device), "a look at this text");
  session_ = std::make_unique<Session>(device, made, std::initializer_list<const ParamStore*>{model.params.get()});
}

std::vector<float> Lens::logits(std::span<const float> x, int64_t begin, int64_t n) {
  session_->set_rows("rows", n);
  session_->set("x", x.subspan(size_t(begin * width_), size_t(n * width_)));
  session_->run();
  return session_->values(0);
}

LensOfAll::LensOfAll(Device& device, const Model& model, const Taps& taps, const std::vector<int32_t>& ids,
                     const LookOptions& options)
    : points(taps.x.size(), std::vector<LensPoint>(size_t(taps.tokens))),
      taps_(taps),
      ids_(ids),
      causal_(model.spec.causal),
      vocab_(model.spec.vocab),
      top_(options.top),
      lens_(device, model, options.exact, taps.tokens),
      team_(device.host_threads()) {}

bool LensOfAll::step() {
  if (begin_ >= taps_.tokens) return false;
  const int64_t n = std::min(lens_.together(), taps_.tokens - begin_);
  if (point_ == 0) {
    output_ = lens_.logits(taps_.x.back(), begin_, n);
    check(std::all_of(output_.begin(), output_.end(), [](float v) { return std::isfinite(v); }),
          "look: the model's logits are not finite: its weights are broken");
  }
  const std::vector<float> z = point_ + 1 == taps_.x.size() ? output_ : lens_.logits(taps_.x[point_], begin_, n);
  team_.run([&](int thread) {
    const Range mine = part(n, thread, team_.size());
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const size_t t = size_t(begin_ + i), at = size_t(i * vocab_);
      const size_t of = causal_ ? t + 1 : t;
      const std::optional<int32_t> next = of < ids_.size() ? std::optional(ids_[of]) : std::nullopt;
      points[point_][t] = lens_point(std::span(z).subspan(at, size_t(vocab_)),
                                     std::span(output_).subspan(at, size_t(vocab_)), next, top_);
    }
  });
  if (++point_ == taps_.x.size()) point_ = 0, begin_ += n;
  return true;
}

}  // namespace toy::looking
