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
NonFinite scan(const View& v) {
  NonFinite found;
  const T* p = v.as<const T>();
  if (v.contiguous()) {
    scan_run(p, v.count(), 1, 0, found);
    return found;
  }
  const int rank = v.shape.rank();
  const int64_t inner = v.shape.back();
  for (int64_t at = 0; at < v.count(); at += inner) {  // a run along the innermost dimension
    int64_t rest = at / inner, offset = 0;
    for (int d = rank - 2; d >= 0; --d) {
      offset += rest % v.shape[d] * v.stride[size_t(d)];
      rest /= v.shape[d];
    }
    scan_run(p + offset, inner, v.stride[size_t(rank - 1)], at, found);
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

NonFinite find_non_finite(const View& v) noexcept {
  switch (v.dtype) {
    case DType::f32:
      return scan<float>(v);
    case DType::f64:
      return scan<double>(v);
    case DType::f16:
      return scan<F16>(v);
    case DType::bf16:
      return scan<BF16>(v);
    default:
      break;
  }
  return {};
}

void FiniteWatch::before(const PlanStep& step, std::span<const HostTensor> in) {
  infinite_operand_ = float_operand_ = false;
  in_.assign(in.size(), {});
  for (size_t i = 0; i < in.size(); ++i) {
    const View& v = in[i].view();
    if (step.in[i].base == Operand::absent || !is_float(v.dtype)) continue;
    float_operand_ = true;
    in_[i] = find_non_finite(v);
    infinite_operand_ = infinite_operand_ || in_[i].count > in_[i].nans;
  }
}

std::string FiniteWatch::after(const PlanStep& step, std::span<const HostTensor> out) const {
  const bool allowed = !float_operand_ || infinite_operand_;
  for (size_t o = 0; o < out.size(); ++o) {
    const Operand& to = step.out[o];
    if (to.base == Operand::absent) continue;
    const View& v = out[o].view();
    NonFinite found = find_non_finite(v);
    const double first = found.first < 0 ? 0 : element(v, found.first);
    if (to.base == Operand::param)
      for (size_t i = 0; i < in_.size(); ++i)
        if (step.in[i].base == Operand::param && step.in[i].index == to.index && step.in[i].offset == to.offset) {
          found.count = std::max<int64_t>(0, found.count - in_[i].count);
          found.nans = std::max<int64_t>(0, found.nans - in_[i].nans);
        }
    if (found.nans == 0 && (found.count == 0 || allowed)) continue;
    return fmt::format("{}{} ({}): output {} {}{} holds {} not finite ({} NaN), the first is {} at {}",
                       step.layer.prefix(), step.op, name_of(step.phase), o, name_of(v.dtype), v.shape.str(),
                       found.count == 1 ? "1 value that is" : fmt::format("{} values that are", found.count),
                       found.nans, std::isnan(first) ? std::string("nan") : fmt::format("{}", first),
                       index_text(v.shape, found.first));
  }
  return "";
}

}  // namespace toy
