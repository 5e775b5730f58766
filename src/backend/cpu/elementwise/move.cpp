// Moving elements as they are: copy (from any strides), concat, fill.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/along_axis.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

template <class T>
void copy_runs(const ExecContext& ctx, const KernelArgs& args) {
  const Nest<1> nest(args.out[0].shape, {&args.in[0]});
  const int64_t stride = nest.stride[0][0];
  nest.for_each_run(ctx, [&](const auto& at, int64_t out, int64_t n) {
    const T* x = args.in[0].as<const T>() + at[0];
    T* y = args.out[0].as<T>() + out;
    if (stride == 1) {
      std::memcpy(y, x, size_t(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
    }
  });
}

void copy(const ExecContext& ctx, const KernelArgs& args) noexcept {
  switch (size_of(args.in[0].dtype)) {
    case 2:
      return copy_runs<uint16_t>(ctx, args);
    case 4:
      return copy_runs<uint32_t>(ctx, args);
    default:
      return copy_runs<uint64_t>(ctx, args);
  }
}

// The output is rows of the inputs' rows, one behind the other; a row is everything from the joined axis on.
void concat(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int axis = args.attrs.as<AxisAttrs>().axis;
  const AlongAxis a(args.out[0].shape, axis);
  const int64_t size = int64_t(size_of(args.out[0].dtype)), inner = a.inner * size;  // bytes behind one index
  const int64_t out_row = a.terms * inner;
  int64_t begin = 0;
  for (const View& x : args.in) {
    const int64_t row = x.shape[axis] * inner;
    if (a.outer == 1) {  // long rows: cut them
      const Range r = share_elements(ctx, row / size);
      std::memcpy(args.out[0].as<char>() + begin + r.begin * size, x.as<const char>() + r.begin * size,
                  size_t(r.size() * size));
    } else {
      const Range rows = share_rows(ctx, a.outer, out_row / size);
      for (int64_t o = rows.begin; o < rows.end; ++o)
        std::memcpy(args.out[0].as<char>() + o * out_row + begin, x.as<const char>() + o * row, size_t(row));
    }
    begin += row;
  }
}

void fill(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& out = args.out[0];
  const double value = args.attrs.as<FillAttrs>().value;
  const Range r = share_elements(ctx, out.count());
  if (out.dtype == DType::i32)
    std::fill(out.as<int32_t>() + r.begin, out.as<int32_t>() + r.end, int32_t(value));
  else
    std::fill(out.as<float>() + r.begin, out.as<float>() + r.end, float(value));
}

bool same_dtype(const KernelQuery& q) noexcept {
  return std::all_of(q.in.begin(), q.in.end(), [&](const OperandDesc& x) { return x.dtype == q.out[0].dtype; });
}

}  // namespace

KernelRecord copy_kernel() { return {.op = "copy", .layout = Layout::any, .accepts = same_dtype, .code = copy}; }
KernelRecord concat_kernel() { return {.op = "concat", .accepts = same_dtype, .code = concat}; }
KernelRecord fill_kernel() { return {.op = "fill", .accepts = f32_or_i32, .code = fill}; }

}  // namespace toy::cpu
