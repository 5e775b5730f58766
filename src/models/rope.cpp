// Rotary positions (Su et al. 2021), stretched to longer contexts: linear (Chen et al. 2023), YaRN (Peng et al. 2023),
// and Llama 3's factors. As llama.cpp computes them, which is as Hugging Face does.
#include "models/builders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "toy/base/memory.h"

namespace toy {
namespace {

// How many turns within the original context a pair makes at the two ends of YaRN's ramp. Fixed: GGUF has keys for
// other values, but llama.cpp does not read them.
constexpr double kBetaFast = 32, kBetaSlow = 1;

// The pair, as a real number, that makes `turns` turns within the original context.
double pair_of(double turns, const RopeSpec& r, int64_t width) {
  const double original = double(r.original_context), base = r.base;
  return double(width) * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// [positions,Q,2] for the Q pairs of heads of `width` that turn.
Value rope_table(Graph& graph, const RopeSpec& spec, int64_t width, int64_t positions, const std::string& name) {
  const std::vector<double> frequencies = rope_frequencies(spec, width, positions);
  const double magnitude = rope_magnitude(spec);
  const int64_t pairs = int64_t(frequencies.size());
  // In f64 here, and in f32 on the device.
  require_memory(size_t(positions) * size_t(pairs) * 2 * (sizeof(double) + sizeof(float)),
                 fmt::format("a table of the angles of {} positions", positions));
  std::vector<double> table;
  table.reserve(size_t(positions * pairs * 2));
  for (int64_t p = 0; p < positions; ++p)
    for (const double f : frequencies) {
      table.push_back(magnitude * std::cos(double(p) * f));
      table.push_back(magnitude * std::sin(double(p) * f));
    }
  return graph.constant({DType::f32, {positions, pairs, 2}, 0}, std::move(table), name);
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& r, int64_t width, int64_t positions) {
  const int64_t n = r.dims > 0 ? r.dims : width;
  const double fast = pair_of(kBetaFast, r, n), slow = pair_of(kBetaSlow, r, n);
  const double lo = std::max(0.0, r.whole_pairs ? std::floor(fast) : fast);
  const double hi = std::min(double(n - 1), r.whole_pairs ? std::ceil(slow) : slow);
  const bool is_long = !r.long_factors.empty() && positions > r.original_context;
  const std::vector<float>& factors = is_long ? r.long_factors : r.factors;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < n / 2; ++i) {
    double f = std::pow(double(r.base), -2.0 * double(i) / double(n));
    if (!factors.empty()) f /= double(factors[size_t(i)]);
    if (r.scaling == RopeSpec::Scaling::linear) f /= double(r.factor);
    if (r.scaling == RopeSpec::Scaling::yarn) {
      const double keep = 1 - std::clamp((double(i) - lo) / std::max(0.001, hi - lo), 0.0, 1.0);
      f *= keep + (1 - keep) / double(r.factor);
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

double rope_magnitude(const RopeSpec& r) {
  const double yarn = r.scaling == RopeSpec::Scaling::yarn ? 0.1 * std::log(double(r.factor)) + 1 : 1;
  return yarn * double(r.attn_factor);
}

std::vector<float> llama3_factors(const Llama3Scaling& s, double base, int64_t width) {
  std::vector<float> factors;
  for (int64_t i = 0; i < width / 2; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(base, 2.0 * double(i) / double(width));
    const double smooth = (s.original_context / wavelength - s.low) / (s.high - s.low);
    factors.push_back(float(wavelength < s.original_context / s.high  ? 1
                            : wavelength > s.original_context / s.low ? s.factor
                                                                      : 1 / ((1 - smooth) / s.factor + smooth)));
  }
  return factors;
}

nn::Rope RopeTables::operator()(const LayerSpec& l) {
  const std::optional<RopeSpec> rope = rope_of(spec_, l);
  if (!rope || positions_ == 0) return {};
  for (const auto& [spec, width, table] : made_)
    if (spec == *rope && width == l.d_head) return {table, rope->pairing};
  const std::string name = made_.empty() ? "rope_table" : fmt::format("rope_table.{}", made_.size());
  made_.push_back({*rope, l.d_head, rope_table(graph_, *rope, l.d_head, positions_, name)});
  return {made_.back().table, rope->pairing};
}

}  // namespace toy
