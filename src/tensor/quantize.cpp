// Every format is quantized by the same search: the weighted sum of squares has many local minima in the scale, so 16
// scales are tried side by side, each is replaced by the best for the levels it led to, and the best of all is kept.
#include "toy/tensor/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tensor/quant_formats.h"
#include "tensor/trials.h"
#include "toy/base/error.h"

namespace toy::quant {
namespace {

constexpr int kLanes = Trials::kLanes;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
template <class F>
constexpr bool kHasMin = F::minimum != Minimum::none;

/// Values that share a scale, and their weights.
struct Run {
  const float* x = nullptr;
  const float* w = nullptr;
  int n = 0;
  float sw = 0, sx = 0;  // sums over w and w x

  Run() = default;
  Run(const float* x_in, const float* w_in, int n_in) : x(x_in), w(w_in), n(n_in) {
    for (int i = 0; i < n; ++i) sw += w[i], sx += w[i] * x[i];
  }
};

/// The best trial so far. Values are close to scale * q - min.
struct Best {
  float scale = 0, min = 0, error = kInfinity;
  float q = 0, qq = 0, xq = 0;  // as in Trials
  int lane = 0;
};

/// Keeps the best of the trials if it is better.
template <class F>
void consider(const Run& run, Trials& t, Best& best) {
  const int c = try_all(F::Level::levels(), kHasMin<F>, run.x, run.w, run.n, t);
  if (!(t.error[c] < best.error)) return;
  best = {t.scale[c], t.min[c], t.error[c], t.q[c], t.qq[c], t.xq[c], c};
}

/// Scales, and minima, that are best for the levels which the trials found: least squares.
template <class F>
void refit(const Run& run, Trials& t) {
  for (int c = 0; c < kLanes; ++c) {
    const float alone = t.qq[c] > 0 ? t.xq[c] / t.qq[c] : 0;
    if constexpr (kHasMin<F>) {
      // All levels equal: the determinant is only what rounding left, and a minimum has no effect of its own.
      const float determinant = run.sw * t.qq[c] - t.q[c] * t.q[c], over = 1 / determinant;
      const float scale = (run.sw * t.xq[c] - run.sx * t.q[c]) * over,
                  min = (t.q[c] * t.xq[c] - run.sx * t.qq[c]) * over;
      const bool none = !(determinant > 1e-6f * run.sw * t.qq[c]) || (F::minimum == Minimum::subtracted && min < 0);
      t.scale[c] = none ? alone : scale;
      t.min[c] = none ? 0 : min;
    } else {
      t.scale[c] = alone;
    }
  }
}

constexpr float kLargestHalf = 65504;

/// To finite halves, all lanes together: as to_f16, but without a branch.
void round_to_halves(float (&v)[kLanes]) {
  for (float& f : v) {
    f = f < kLargestHalf ? f : kLargestHalf;
    f = f > -kLargestHalf ? f : -kLargestHalf;
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const float normal = std::bit_cast<float>((u + 0xfff + (u >> 13 & 1)) & ~0x1fffu), tiny = (f + 0.75f) - 0.75f;
    f = std::fabs(f) < 0x1p-14f ? tiny : normal;
  }
}

/// The largest value is put this many times as far out as the outermost level: first + i * step. Beyond 1 it is
/// clipped, which is often better for the others. Found by trying on weights of trained models and on random ones.
struct Reach {
  float first, step;
};
template <class Level>
constexpr Reach kReach = {0.8f, 0.05f};
template <>
constexpr Reach kReach<Q5_0::Level> = {0.8f, 0.04f};
template <>
constexpr Reach kReach<Q6_K::Level> = {0.8f, 0.03f};
template <>
constexpr Reach kReach<Q8_0::Level> = {0.96f, 0.004f};

/// Without importance nobody knows what a large value does, and in IQ4_NL and IQ4_XS, which share levels, clipping it
/// more than a little costs predictions (bench/README.md).
template <class F>
constexpr Reach reach_of(bool important) {
  return std::is_same_v<typename F::Level, IQ4_NL::Level> && !important ? Reach{0.945f, 0.00733f}
                                                                        : kReach<typename F::Level>;
}

/// The best scale, and minimum, for a run; as halves if the block holds them so. `important`: its weights are
/// importance.
template <class F>
Best fit(const Run& run, bool important) {
  Best best;
  Trials t;
  const auto attempt = [&] {
    if constexpr (F::kRuns == 1) {
      round_to_halves(t.scale);
      if constexpr (kHasMin<F>) round_to_halves(t.min);
    }
    consider<F>(run, t, best);
  };
  if constexpr (kHasMin<F>) {
    const auto [lowest, highest] = std::minmax_element(run.x, run.x + run.n);
    const float low = F::minimum == Minimum::added ? *lowest : std::min(*lowest, 0.0f), range = *highest - low;
    for (int c = 0; c < kLanes; ++c) {  // both ends from 0.8 of a level inside the range of levels to 0.7 outside
      const float below = 0.5f * float(c % 4) - 0.8f, above = 0.5f * float(c / 4) - 0.8f;
      t.scale[c] = range / (F::Level::high + below + above);
      t.min[c] = -low - below * t.scale[c];
    }
    attempt();
    refit<F>(run, t);
    attempt();
  } else {
    float top = 0;
    for (int i = 0; i < run.n; ++i) top = std::fabs(run.x[i]) > std::fabs(top) ? run.x[i] : top;
    if (top == 0) return {0, 0, 0};
    const Reach reach = reach_of<F>(important);
    constexpr float kEnds[] = {F::Level::low, -F::Level::low};  // two, unless levels are symmetric
    for (const float end : std::span(kEnds, F::Level::low == -F::Level::high ? 1 : 2)) {
      for (int c = 0; c < kLanes; ++c) t.scale[c] = top / (end * (reach.first + reach.step * float(c)));
      attempt();
      refit<F>(run, t);
      attempt();
    }
  }
  t.q[0] = best.q, t.qq[0] = best.qq, t.xq[0] = best.xq;
  refit<F>(run, t);
  attempt();
  return best;
}

/// A block with given d and dmin.
template <class F>
struct Choice {
  float d = 0, dmin = 0, error = kInfinity;
  std::array<int8_t, F::kRuns> scale{}, min{};
  float better_d = 0, better_dmin = 0;  // for its levels, scales and minima: least squares
};

/// Chooses whole scales and minima near those that fit the runs best.
template <class F>
Choice<F> choose(const std::array<Run, F::kRuns>& runs, const std::array<Best, F::kRuns>& fits, float d, float dmin) {
  Choice<F> choice{d, dmin, 0};
  double ss = 0, sm = 0, mm = 0, xs = 0, xm = 0;  // sums over w (S q)^2, w S q M, w M^2, w x S q, w x M
  const auto whole = [](float v, float unit, int low) {
    return unit != 0 ? int(std::clamp(std::nearbyint(v / unit), float(low), float(F::Integers::high))) : 0;
  };
  for (int r = 0; r < F::kRuns; ++r) {
    const int near_scale = whole(fits[r].scale, d, F::Integers::low), near_min = whole(fits[r].min, dmin, 0);
    int scale[kLanes], min[kLanes];
    Trials t;
    for (int c = 0; c < kLanes; ++c) {
      scale[c] = std::clamp(near_scale + (kHasMin<F> ? c / 3 - 2 : c - 8), F::Integers::low, F::Integers::high);
      min[c] = kHasMin<F> ? std::clamp(near_min + c % 3 - 1, 0, F::Integers::high) : 0;
      t.scale[c] = d * float(scale[c]), t.min[c] = dmin * float(min[c]);
    }
    Best best;
    consider<F>(runs[r], t, best);
    const double s = scale[best.lane], m = min[best.lane];
    choice.scale[r] = int8_t(s), choice.min[r] = int8_t(m);
    choice.error += best.error;
    ss += s * s * best.qq, sm += s * m * best.q, mm += m * m * runs[r].sw, xs += s * best.xq, xm += m * runs[r].sx;
  }
  const double determinant = ss * mm - sm * sm;
  if (determinant > 0) {
    choice.better_d = float((mm * xs - sm * xm) / determinant);
    choice.better_dmin = float((sm * xs - ss * xm) / determinant);
  } else if (ss > 0) {
    choice.better_d = float(xs / ss);
  } else if (mm > 0) {
    choice.better_dmin = float(-xm / mm);
  }
  return choice;
}

float half(float v) { return to_float(to_f16(std::clamp(v, -kLargestHalf, kLargestHalf))); }

/// Blocks of several runs: the scales of runs are whole multiples of d.
template <class F>
void find_scales(const float* x, const float* w, bool important, Parts& p) {
  std::array<Run, F::kRuns> runs;
  std::array<Best, F::kRuns> fits;
  float top = 0, top_min = 0;
  for (int r = 0; r < F::kRuns; ++r) {
    runs[r] = Run(x + r * F::kRun, w + r * F::kRun, F::kRun);
    fits[r] = fit<F>(runs[r], important);
    if (std::fabs(fits[r].scale) > std::fabs(top)) top = fits[r].scale;
    top_min = std::max(top_min, fits[r].min);
  }
  Choice<F> best;
  constexpr int end = F::Integers::low < 0 ? F::Integers::low : F::Integers::high;
  // The largest scale of a run becomes the largest whole number or the one before. Where there are few, as in Q2_K, one
  // run of large values would leave none for the others: there half of that is tried, too.
  const float d_end = top / float(end), min_end = top_min / float(F::Integers::high);
  const std::pair<float, float> starts[] = {
      {d_end, min_end}, {d_end * float(end) / float(end > 0 ? end - 1 : end + 1), min_end}, {d_end / 2, min_end / 2}};
  for (const auto& [d_start, min_start] : std::span(starts, F::Integers::high == 15 ? 3 : 2)) {
    float d = half(d_start), dmin = half(min_start);
    for (int i = 0; i < 3; ++i) {
      const Choice<F> choice = choose<F>(runs, fits, d, dmin);
      if (choice.error < best.error)
        best = choice;
      else if (i > 0)
        break;
      d = half(choice.better_d), dmin = half(choice.better_dmin);
    }
  }
  p.d = best.d, p.dmin = best.dmin;
  std::copy(best.scale.begin(), best.scale.end(), p.scale);
  std::copy(best.min.begin(), best.min.end(), p.min);
}

/// The scale is a power of two, and there are few that come into question.
void find_exponent(const float* x, const float* w, Parts& p) {
  constexpr int kLowest = -128, kHighest = 124;  // at which the largest level is finite
  float top = 0, scaled[MXFP4::kRun];
  for (int i = 0; i < MXFP4::kRun; ++i) top = std::max(top, std::fabs(x[i]));
  const int middle = std::clamp(top > 0 ? std::ilogb(top) - 3 : kLowest, kLowest, kHighest);
  for (int i = 0; i < MXFP4::kRun; ++i) scaled[i] = std::ldexp(x[i], -middle);
  Trials t;
  for (int c = 0; c < kLanes; ++c)
    t.scale[c] = std::ldexp(1.0f, std::clamp(middle + c - 8, kLowest, kHighest) - middle);
  Best best;
  consider<MXFP4>(Run(scaled, w, MXFP4::kRun), t, best);
  p.d = std::ldexp(best.scale, middle);
}

template <class F>
void quantize_block(const float* x, const float* w, bool important, std::byte* to) {
  Parts p;
  if constexpr (std::is_same_v<F, MXFP4>) {
    find_exponent(x, w, p);
  } else if constexpr (F::kRuns == 1) {
    const Best best = fit<F>(Run(x, w, F::kRun), important);
    p.d = best.scale, p.dmin = best.min;
  } else {
    find_scales<F>(x, w, important, p);
  }
  for (int i = 0; i < F::kBlock; ++i) {
    const float scale = p.d * float(p.scale[i / F::kRun]), min = p.dmin * float(p.min[i / F::kRun]);
    p.code[i] = F::Level::code(scale != 0 ? (x[i] + min) / scale : 0);
  }
  typename F::Block block;
  put_scales<F>(p, block);
  put_codes<F>(p, block);
  std::memcpy(to, &block, sizeof block);
}

/// The largest magnitude that any block of the format reaches; of the two signs, the smaller.
template <class F>
constexpr float reach() {
  float units = 1;
  if constexpr (F::kRuns > 1) units = F::Integers::high;
  return units * kLargestHalf * (kHasMin<F> ? 1 : F::Level::high);
}
template <>
constexpr float reach<MXFP4>() {
  return std::numeric_limits<float>::max();
}

/// Weights of a row with the mean 1. Columns that were never used count a little: they must not become arbitrary.
std::vector<float> weights_of(std::span<const float> importance) {
  double sum = 0;
  for (size_t i = 0; i < importance.size(); ++i) {
    check(importance[i] >= 0 && std::isfinite(importance[i]), "quantize: the importance of column {} is {}", i,
          importance[i]);
    sum += importance[i];
  }
  const double mean = sum / double(importance.size());
  std::vector<float> w(importance.size(), 1);
  if (mean > 0)
    for (size_t i = 0; i < w.size(); ++i) w[i] = float(std::max(importance[i] / mean, 1e-4));
  return w;
}

/// Weights of a block where no importance is given: large values count more, sqrt(1 + x^2 / mean x^2), so that fewer
/// are clipped. Chosen by the predictions of language models; with an importance matrix it makes them worse
/// (bench/README.md).
void weigh(std::span<const float> x, float* w) {
  double squares = 0;
  for (const float v : x) squares += double(v) * double(v);
  const double over = squares > 0 ? double(x.size()) / squares : 0;
  for (size_t i = 0; i < x.size(); ++i) w[i] = float(std::sqrt(1 + double(x[i]) * double(x[i]) * over));
}

}  // namespace
}  // namespace toy::quant

namespace toy {

void quantize(DType type, std::span<const float> values, std::span<const float> importance, void* blocks) {
  quant::with_format(type, [&]<class F>() {
    const size_t width = importance.empty() ? F::kBlock : importance.size();
    if (width % F::kBlock != 0 || values.size() % width != 0)
      fail_internal("quantize: {} values in rows of {} as {}", values.size(), width, name_of(type));
    std::vector<float> w = importance.empty() ? std::vector<float>(F::kBlock) : quant::weights_of(importance);
    auto* to = static_cast<std::byte*>(blocks);
    for (size_t i = 0; i < values.size(); i += F::kBlock, to += sizeof(typename F::Block)) {
      float top = 0;
      for (size_t j = i; j < i + F::kBlock; ++j) {
        check(std::isfinite(values[j]), "quantize: value {} is {}", j, values[j]);
        top = std::max(top, std::fabs(values[j]));
      }
      check(top <= quant::reach<F>(), "quantize: a value of {} is too large for {}", top, name_of(type));
      if (importance.empty()) quant::weigh(values.subspan(i, F::kBlock), w.data());
      quant::quantize_block<F>(values.data() + i, w.data() + i % width, !importance.empty(), to);
    }
  });
}

namespace {

// Of a block of q8_0; NaN where a value is not finite, or the scale would not be.
F16 scale_of_q8_0(std::span<const float, 32> values) {
  float largest = 0, times_zero = 0;  // NaN where a value is not finite
  for (const float v : values) largest = std::max(largest, std::fabs(v)), times_zero += v * 0;
  const F16 scale = to_f16(largest / 127);
  const bool finite = !std::isnan(times_zero) && std::isfinite(to_float(scale));
  return finite ? scale : to_f16(std::numeric_limits<float>::quiet_NaN());
}

// The nearest multiple of d, ties to even; 0 where d is no scale.
float level_of_q8_0(float v, float d) {
  constexpr float kWhole = 0x1.8p23f;  // floats from here on are whole numbers
  return d > 0 ? (std::clamp(v / d, -127.0f, 127.0f) + kWhole) - kWhole : 0;
}

}  // namespace

F16 round_q8_0(std::span<const float, 32> values, int8_t* levels) {
  const F16 scale = scale_of_q8_0(values);
  for (size_t i = 0; i < values.size(); ++i) levels[i] = int8_t(level_of_q8_0(values[i], to_float(scale)));
  return scale;
}

void round_key_q8_0(std::span<const float> key, std::span<const float> queries, F16* scales, int8_t* levels) {
  constexpr size_t kBlock = 32;
  const size_t width = key.size();
  if (width % kBlock != 0 || queries.size() % width != 0)
    fail_internal("round_key_q8_0: {} values of a key, {} of queries", width, queries.size());
  std::array<float, 1024> query;  // the sum of them
  if (width > query.size()) fail_internal("round_key_q8_0: {} values of a key, at most {}", width, query.size());
  std::fill_n(query.begin(), width, 0.0f);
  for (size_t at = 0; at < queries.size(); at += width)
    for (size_t i = 0; i < width; ++i) query[i] += queries[at + i];
  float squares = 0;
  for (size_t i = 0; i < width; ++i) squares += query[i] * query[i];
  const bool usable = squares > 1e-30f && squares < 1e30f;
  float left = usable ? squares + squares / float(width) : 1, off = 0;
  for (size_t begin = 0; begin < width; begin += kBlock) {
    scales[begin / kBlock] = scale_of_q8_0(std::span<const float, kBlock>(key.data() + begin, kBlock));
    const float d = to_float(scales[begin / kBlock]);
    for (size_t i = begin; i < begin + kBlock; ++i) {
      const float u = usable ? query[i] : 0, level = level_of_q8_0(key[i] - off * (u / left), d);
      levels[i] = int8_t(level);
      if (!std::isnan(d)) off += (level * d - key[i]) * u;
      left -= u * u;
    }
  }
}

}  // namespace toy
