#include "runtime/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "toy/tensor/convert.h"

namespace toy {
namespace {

template <class T>
auto number(T v) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return v;
  else
    return to_float(v);
}

// Elements p[i stride], i < n, the first of which is element `index` of its tensor.
template <class T>
void scan_run(const T* p, int64_t n, int64_t stride, int64_t index, NonFinite& found) {
  constexpr auto kMax = std::numeric_limits<decltype(number(T()))>::max();
  constexpr int64_t kBlock = 4096;  // counted without branches; only a block with a find is looked at again
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    int bad = 0;
    for (int64_t i = begin; i < end; ++i) bad += !(std::fabs(number(p[i * stride])) <= kMax);
    if (!bad) continue;
    found.count += bad;
    for (int64_t i = begin; i < end; ++i) {
      const auto v = number(p[i * stride]);
      if (found.first < 0 && !std::isfinite(v)) found.first = index + i;
      found.nans += std::isnan(v);
    }
  }
}

template <class T>
NonFinite scan(const View& v, Range range) {
  NonFinite found;
  if (range.size() <= 0) return found;
  const T* p = v.as<const T>();
  if (v.contiguous()) {
    scan_run(p + range.begin, range.size(), 1, range.begin, found);
    return found;
  }
  const int rank = v.shape.rank();
  const int64_t inner = v.shape.back();
  for (int64_t at = range.begin; at < range.end;) {  // a run along the innermost dimension
    const int64_t column = at % inner, n = std::min(range.end - at, inner - column);
    int64_t rest = at / inner, offset = column * v.stride[size_t(rank - 1)];
    for (int d = rank - 2; d >= 0; --d) {
      offset += rest % v.shape[d] * v.stride[size_t(d)];
      rest /= v.shape[d];
    }
    scan_run(p + offset, n, v.stride[size_t(rank - 1)], at, found);
    at += n;
  }
  return found;
}

std::string index_text(const Shape& shape, int64_t i) {
  Shape index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = i % shape[d];
    i /= shape[d];
  }
  return index.str();
}

}  // namespace

NonFinite find_non_finite(const View& v, Range range) noexcept {
  switch (v.dtype) {
    case DType::f32:
      return scan<float>(v, range);
    case DType::f64:
      return scan<double>(v, range);
    case DType::f16:
      return scan<F16>(v, range);
    case DType::bf16:
      return scan<BF16>(v, range);
    case DType::i32:
      break;
  }
  return {};
}

FiniteWatch::FiniteWatch(const Plan& plan, int threads) : plan_(plan), parts_(size_t(threads) * 2), threads_(threads) {
  size_t inputs = 0, outputs = 0;
  for (const PlanStep& s : plan.steps)
    inputs = std::max(inputs, s.in.size()), outputs = std::max(outputs, s.out.size());
  for (Part& p : parts_) p.in.resize(inputs), p.at.resize(inputs), p.out.resize(outputs);
}

void FiniteWatch::before(int thread, size_t step, std::span<const View> in) noexcept {
  Part& mine = part(thread, step);
  mine.infinite_operand = mine.float_operand = false;
  std::fill(mine.at.begin(), mine.at.end(), nullptr);
  for (size_t i = 0; i < in.size(); ++i) {
    const View& v = in[i];
    if (!v.data || !is_float(v.dtype)) continue;
    mine.float_operand = true;
    const NonFinite found = find_non_finite(v, toy::part(v.count(), thread, threads_));
    mine.in[i] = found, mine.at[i] = v.data;
    mine.infinite_operand = mine.infinite_operand || found.count > found.nans;
  }
}

void FiniteWatch::after(int thread, size_t step, std::span<const View> out) noexcept {
  Part& mine = part(thread, step);
  for (size_t o = 0; o < mine.out.size(); ++o) {
    mine.out[o] = {};
    if (o >= out.size() || !out[o].data) continue;
    mine.out[o] = find_non_finite(out[o], toy::part(out[o].count(), thread, threads_));
    if (plan_.steps[step].out[o].base != Operand::param) continue;
    for (size_t i = 0; i < mine.at.size(); ++i)
      if (mine.at[i] == out[o].data && mine.in[i].count > 0) {
        mine.out[o].count = std::max<int64_t>(0, mine.out[o].count - mine.in[i].count);
        mine.out[o].nans = std::max<int64_t>(0, mine.out[o].nans - mine.in[i].nans);
      }
  }
}

bool FiniteWatch::wrong(int thread, size_t step) noexcept {
  const bool floats = part(thread, step).float_operand;
  bool allowed = !floats;
  for (int t = 0; t < threads_; ++t) allowed = allowed || part(t, step).infinite_operand;
  for (size_t o = 0; o < part(thread, step).out.size(); ++o) {
    NonFinite all;
    for (int t = 0; t < threads_; ++t) {  // parts are in row-major order
      const NonFinite& f = part(t, step).out[o];
      all.count += f.count;
      all.nans += f.nans;
      if (all.first < 0) all.first = f.first;
    }
    if (all.nans == 0 && (all.count == 0 || allowed)) continue;
    if (thread == 0) step_ = step, output_ = o, bad_ = all;
    return true;
  }
  return false;
}

std::string FiniteWatch::text(const Plan& plan, std::span<const View> out) const {
  const PlanStep& s = plan.steps[step_];
  const View& v = out[output_];
  const double first = element(v, bad_.first);
  return fmt::format(
      "{}{} ({}): output {} {}{} holds {} not finite ({} NaN), the first is {} at {}",
      s.layer.empty() ? "" : s.layer + ": ", s.op, s.backward ? "backward" : "forward", output_, name_of(v.dtype),
      v.shape.str(), bad_.count == 1 ? "1 value that is" : fmt::format("{} values that are", bad_.count), bad_.nans,
      std::isnan(first) ? std::string("nan") : fmt::format("{}", first), index_text(v.shape, bad_.first));
}

}  // namespace toy
