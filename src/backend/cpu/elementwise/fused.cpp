// Fused elementwise ops: each op runs over a block of elements at a time, and what one leaves for the next stays in the
// first levels of the cache. The functions are those of elementwise.def, so the bits are those of the ops one by one.
#define TOY_TARGET_FILE "backend/cpu/elementwise/fused.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/elementwise/elementwise-inl.h"
#include "backend/cpu/elementwise/fused.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "toy/backend/fused.h"

#ifndef TOY_CPU_FUSED_BLOCKS_
#define TOY_CPU_FUSED_BLOCKS_
namespace toy::cpu {

constexpr size_t kFusedInputs = FusedAttrs::kMaxInputs;

/// Elements of a slot, for an output of n elements.
inline int64_t slot_size(int64_t n) {
  constexpr int64_t kBlock = 1024;  // 4 KiB for each operand in flight: 2048 is a third slower, 512 no faster
  return std::min(kBlock, div_up(n, 16) * 16);
}
/// Slots of one thread: the program's, and one for each input that does not lie side by side.
inline int64_t slot_count(const FusedAttrs& program, size_t inputs) { return program.slots + int64_t(inputs); }

/// The output as blocks of rows by columns, with the strides of all inputs. Short rows are taken several at a time.
struct FusedBlocks {
  using Inputs = std::array<const View*, kFusedInputs>;
  Nest<kFusedInputs> nest;
  int64_t next, inner;                // sizes of dimensions 1 and 0
  int64_t rows, columns;              // of a whole block
  int64_t row_blocks, column_blocks;  // of dimensions 1 and 0
  int64_t count;

  FusedBlocks(const Shape& out, const Inputs& in) : nest(out, in) {
    const int64_t size = slot_size(out.count());
    inner = nest.size[0], next = nest.rank > 1 ? nest.size[1] : 1;
    columns = std::min(inner, size);
    rows = columns < inner ? 1 : std::min(next, std::max<int64_t>(1, size / columns));
    row_blocks = div_up(next, rows), column_blocks = div_up(inner, columns);
    count = row_blocks * column_blocks;
    for (int d = 2; d < nest.rank; ++d) count *= nest.size[d];
  }
  int64_t stride(int d, size_t k) const { return d < nest.rank ? nest.stride[size_t(d)][k] : 0; }

  struct Block {
    int64_t rows, columns;
    int64_t out;  // offset of its first element
    std::array<int64_t, kFusedInputs> in;
  };
  Block at(int64_t i) const {
    const int64_t column = i % column_blocks * columns, row = i / column_blocks % row_blocks * rows;
    int64_t rest = i / column_blocks / row_blocks;
    Block b{std::min(rows, next - row), std::min(columns, inner - column), (rest * next + row) * inner + column, {}};
    for (size_t k = 0; k < kFusedInputs; ++k) b.in[k] = column * stride(0, k) + row * stride(1, k);
    for (int d = 2; d < nest.rank; ++d) {
      for (size_t k = 0; k < kFusedInputs; ++k) b.in[k] += rest % nest.size[size_t(d)] * stride(d, k);
      rest /= nest.size[size_t(d)];
    }
    return b;
  }

  /// Do the elements of a block lie side by side?
  bool dense(size_t k) const { return (columns == 1 || stride(0, k) == 1) && (rows == 1 || stride(1, k) == columns); }
  /// Is it the same in every block (a smaller block being the beginning of a whole one)?
  bool constant(size_t k) const {
    bool same = (column_blocks == 1 || stride(0, k) == 0) && (row_blocks == 1 || stride(1, k) == 0);
    for (int d = 2; d < nest.rank; ++d) same = same && stride(d, k) == 0;
    return same;
  }
  /// Lays rows by columns elements side by side.
  void gather(size_t k, const float* from, int64_t n_rows, int64_t n_columns, float* to) const {
    const int64_t s = stride(0, k);
    for (int64_t r = 0; r < n_rows; ++r, from += stride(1, k), to += n_columns) {
      if (s == 0)
        std::fill(to, to + n_columns, *from);
      else if (s == 1)
        std::memcpy(to, from, size_t(n_columns) * sizeof(float));
      else
        for (int64_t c = 0; c < n_columns; ++c) to[c] = from[c * s];
    }
  }
};

}  // namespace toy::cpu
#endif  // TOY_CPU_FUSED_BLOCKS_

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// y[i] = F(x0[i], ...) for i < n.
template <class F>
void of_one(const Attrs& attrs, const float* const* x, float* y, int64_t n) {
  const F f = function_of<F>(attrs);
  const float* a = x[0];
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i)), y + i); });
}
template <class F>
void of_two(const Attrs& attrs, const float* const* x, float* y, int64_t n) {
  const F f = function_of<F>(attrs);
  const float *a = x[0], *b = x[1];
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), io.load(b + i)), y + i); });
}
template <class F>
void of_three(const Attrs& attrs, const float* const* x, float* y, int64_t n) {
  const F f = function_of<F>(attrs);
  const float *a = x[0], *b = x[1], *c = x[2];
  for_each_vector(
      n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), io.load(b + i), io.load(c + i)), y + i); });
}

// By the number that fused_function() gives.
constexpr void (*kFunctions[])(const Attrs&, const float* const*, float*, int64_t) = {
#define TOY_UNARY(op, type) of_one<type>,
#define TOY_BINARY(op, type) of_two<type>,
#define TOY_TERNARY(op, type) of_three<type>,
#include "backend/cpu/elementwise/elementwise.def"
};

void run_blocks(const FusedAttrs& program, const FusedBlocks& blocks, Range range, const KernelArgs& args,
                float* slots) {
  const int64_t size = slot_size(args.out[0].count());
  std::array<const float*, kFusedInputs> inputs{};
  const auto gathered = [&](size_t k) { return slots + (program.slots + int64_t(k)) * size; };
  for (size_t k = 0; k < args.in.size(); ++k)
    if (!blocks.dense(k) && blocks.constant(k)) {
      blocks.gather(k, args.in[k].as<const float>(), blocks.rows, blocks.columns, gathered(k));
      inputs[k] = gathered(k);
    }
  for (int64_t i = range.begin; i < range.end; ++i) {
    const FusedBlocks::Block block = blocks.at(i);
    for (size_t k = 0; k < args.in.size(); ++k) {
      const float* from = args.in[k].as<const float>() + block.in[k];
      if (blocks.dense(k)) {
        inputs[k] = from;
      } else if (!blocks.constant(k)) {
        blocks.gather(k, from, block.rows, block.columns, gathered(k));
        inputs[k] = gathered(k);
      }
    }
    for (const FusedStep& s : program.steps) {
      const float* x[FusedAttrs::kMaxOperands] = {};
      for (size_t k = 0; k < s.in.size(); ++k) x[k] = s.in[k] < 0 ? slots + ~s.in[k] * size : inputs[size_t(s.in[k])];
      float* y = s.out < 0 ? args.out[0].as<float>() + block.out : slots + s.out * size;
      kFunctions[s.function](s.attrs, x, y, block.rows * block.columns);
    }
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(run_blocks);

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  static const View kNothing(nullptr, DType::f32, {});
  if (args.out[0].count() == 0) return;
  FusedBlocks::Inputs in;
  in.fill(&kNothing);
  for (size_t k = 0; k < args.in.size(); ++k) in[k] = &args.in[k];
  const FusedAttrs& program = args.attrs.as<FusedAttrs>();
  const FusedBlocks blocks(args.out[0].shape, in);
  const int64_t mine = slot_count(program, args.in.size()) * slot_size(args.out[0].count());
  HWY_DYNAMIC_DISPATCH(run_blocks)
  (program, blocks, ctx.share(blocks.count), args, reinterpret_cast<float*>(args.workspace) + ctx.thread * mine);
}

size_t workspace(const KernelQuery& q) noexcept {
  const int64_t slots = q.threads * slot_count(q.attrs.as<FusedAttrs>(), q.in.size());
  return size_t(slots * slot_size(q.out[0].shape.count())) * sizeof(float);
}

}  // namespace

int fused_function(std::string_view op) {
  static constexpr std::string_view kNames[] = {
#define TOY_UNARY(op, type) #op,
#define TOY_BINARY(op, type) #op,
#define TOY_TERNARY(op, type) #op,
#include "backend/cpu/elementwise/elementwise.def"
  };
  const auto it = std::find(std::begin(kNames), std::end(kNames), op);
  return it == std::end(kNames) ? -1 : int(it - std::begin(kNames));
}

KernelRecord fused_elementwise_kernel() {
  KernelRecord r{
      .op = kFusedElementwise, .layout = Layout::any, .accepts = f32_or_i32, .workspace = workspace, .code = run};
  for (int i = 0; i < int(kFusedInputs); ++i) r.in_place.push_back({0, i});
  return r;
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
