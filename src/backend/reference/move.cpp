// Moving, rounding and reducing elements. Here alone i32 tensors are values rather than indices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

double load(const View& v, int64_t at) {
  return v.dtype == DType::i32 ? double(v.as<const int32_t>()[at]) : v.as<const double>()[at];
}
void store(const View& v, int64_t at, double value) {
  if (v.dtype == DType::i32)
    v.as<int32_t>()[at] = int32_t(value);
  else
    v.as<double>()[at] = value;
}

void copy(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &x = args.in[0], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) { store(out, offset(out, i), load(x, offset(x, i))); });
}

void concat(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int axis = args.attrs.as<AxisAttrs>().axis;
  const View& out = args.out[0];
  int64_t begin = 0;
  for (const View& x : args.in) {
    for_each_index(x.shape, [&](const Shape& i) {
      Shape to = i;
      to[axis] += begin;
      store(out, offset(out, to), load(x, offset(x, i)));
    });
    begin += x.shape[axis];
  }
}

// The f32 towards zero from x, with its last bit set if that is not exact (Boldo and Melquiond 2008: rounding
// to odd): rounding it once more, to 16 bits, gives what rounding x once would give.
float round_to_odd(double x) {
  const float nearest = float(x);
  if (std::isnan(x) || std::isinf(nearest) || double(nearest) == x) return nearest;
  const float truncated = std::fabs(double(nearest)) > std::fabs(x) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(truncated) | 1);
}

// To integers: towards zero, saturating, NaN is 0. To floats: to nearest, ties to even.
double round_to(DType to, double x) {
  switch (to) {
    case DType::f64:
      return x;
    case DType::f32:
      return float(x);
    case DType::f16:
      return to_float(to_f16(round_to_odd(x)));
    case DType::bf16:
      return to_float(to_bf16(round_to_odd(x)));
    default:
      break;
  }
  using Limits = std::numeric_limits<int32_t>;
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), double(Limits::min()), double(Limits::max()));
}

void cast(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const DType to = args.attrs.as<CastAttrs>().to;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) store(args.out[0], i, round_to(to, load(args.in[0], i)));
}

void fill(const ExecContext& ctx, const KernelArgs& args) noexcept {
  for (int64_t i = 0, n = args.out[0].count(); i < n; ++i) store(args.out[0], i, args.attrs.as<FillAttrs>().value);
}

// The summed axis is kept, with size 1.
void sum(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int axis = args.attrs.as<AxisAttrs>().axis;
  const View &x = args.in[0], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) {
    double total = 0;
    Shape from = i;
    for (from[axis] = 0; from[axis] < x.shape[axis]; ++from[axis]) total += load(x, offset(x, from));
    store(out, offset(out, i), total);
  });
}

// NaN if one is there; -inf over nothing.
void max(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int axis = args.attrs.as<AxisAttrs>().axis;
  const View &x = args.in[0], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) {
    double best = -std::numeric_limits<double>::infinity();
    Shape from = i;
    for (from[axis] = 0; from[axis] < x.shape[axis]; ++from[axis])
      if (const double v = load(x, offset(x, from)); v > best || std::isnan(v)) best = v;
    store(out, offset(out, i), best);
  });
}

}  // namespace

KernelRecord copy_kernel() { return {.op = "copy", .layout = Layout::any, .code = copy}; }
KernelRecord concat_kernel() { return {.op = "concat", .code = concat}; }
KernelRecord cast_kernel() { return {.op = "cast", .code = cast}; }
KernelRecord fill_kernel() { return {.op = "fill", .code = fill}; }
KernelRecord sum_kernel() { return {.op = "sum", .layout = Layout::any, .code = sum}; }
KernelRecord max_kernel() { return {.op = "max", .layout = Layout::any, .code = max}; }

}  // namespace toy::reference
