// Linear maps of rows by experts, and their gradients. Rows are grouped by expert; each thread claims a piece of an
// expert's product (some of its rows by some of its outputs), copies the rows together and calls the dense product by
// itself. A sum has the order of dot_product or outer_product (gemm.h); that of a weight's gradient runs over the rows
// of its expert in order, in blocks of kRows.
#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant/quant.h"

namespace toy::cpu {
namespace {

constexpr size_t kRows = 128;     // rows of a piece
constexpr size_t kOutputs = 128;  // outputs of a piece

// Pairs of a row and one of its experts, p = n U + u, by expert; those of one expert in order.
struct Groups {
  int32_t* pairs;   // [N U]
  int32_t* begins;  // [E + 1]
  size_t experts;

  Groups(std::byte* memory, size_t pairs_in, size_t experts_in)
      : pairs(reinterpret_cast<int32_t*>(memory)), begins(pairs + pairs_in), experts(experts_in) {}
  static size_t bytes(size_t pairs, size_t experts) { return round_up((pairs + experts + 1) * sizeof(int32_t), 64); }

  // By one thread. Pairs whose expert does not exist are reported, and `no_expert(p)` is called.
  template <class F>
  void sort(const ExecContext& ctx, const View& ids, const F& no_expert) const {
    const auto* id = ids.as<const int32_t>();
    const int64_t n = ids.shape[0] * ids.shape[1];
    const auto exists = [&](int64_t p) { return id[p] >= 0 && size_t(id[p]) < experts; };
    std::fill_n(begins, experts + 1, 0);
    for (int64_t p = 0; p < n; ++p) {
      if (exists(p)) {
        ++begins[id[p] + 1];
      } else {
        ctx.report(KernelFault::expert, p / ids.shape[1], id[p]);
        no_expert(p);
      }
    }
    for (size_t e = 0; e < experts; ++e) begins[e + 1] += begins[e];
    for (int64_t p = 0; p < n; ++p)
      if (exists(p)) pairs[begins[id[p]]++] = int32_t(p);
    for (size_t e = experts; e > 0; --e) begins[e] = begins[e - 1];  // back to where each begins
    begins[0] = 0;
  }
  size_t rows(size_t e) const { return size_t(begins[e + 1] - begins[e]); }
};

// Calls f(expert, block of rows, chunk of outputs) for the pieces that this thread claims. `blocks(e)`: how many an
// expert has.
template <class Blocks, class F>
void for_each_piece(const ExecContext& ctx, size_t experts, size_t chunks, const Blocks& blocks, const F& f) {
  int64_t own = 0, at = 0;
  const auto claim = [&] { return ctx.threads > 1 ? ctx.pool->claim() : own++; };
  int64_t mine = claim();
  for (size_t e = 0; e < experts; ++e)
    for (size_t b = 0; b < blocks(e); ++b)
      for (size_t c = 0; c < chunks; ++c)
        if (at++ == mine) f(e, b, c), mine = claim();
}

// What one call has in its workspace: the groups, and for each thread two sets of rows and a product's memory.
struct Space {
  size_t left, right, product, bytes;
  Space(size_t left_floats, size_t right_floats, size_t product_bytes) {
    left = 0;
    right = round_up(left_floats * sizeof(float), 64);
    product = right + round_up(right_floats * sizeof(float), 64);
    bytes = product + product_bytes;
  }
};

// The sizes of a call: pairs, experts, outputs, inputs, experts of a row, rows of x per row.
struct Sizes {
  size_t pairs, experts, outs, ins, used, own;
  Sizes(const Shape& ids, size_t e, size_t o, size_t i, size_t s)
      : pairs(size_t(ids.count())), experts(e), outs(o), ins(i), used(size_t(ids[1])), own(s) {}
  size_t row_of(size_t pair) const { return own == 1 ? pair / used : pair; }
  size_t rows() const { return std::min(kRows, std::max<size_t>(pairs, 1)); }
};

Sizes forward_sizes(const Shape& x, const Shape& w, const Shape& ids) {
  return {ids, size_t(w[0]), size_t(w[1]), size_t(w[2]), size_t(x[1])};
}
// How an expert's weights are multiplied.
enum class Weights { floats, rounded_rows, exact };  // the last two: quantized weights (quant.h)
template <Weights kind>
Space forward_space(const Sizes& s) {
  const size_t outs = std::min(kOutputs, s.outs);
  const DType most = DType::q2_k;  // takes the most
  const size_t product = kind == Weights::floats         ? dot_workspace(s.rows(), outs, s.ins, 1)
                         : kind == Weights::rounded_rows ? quant_workspace(most, s.rows(), outs, s.ins, 1)
                                                         : exact_workspace(s.rows(), outs, s.ins, 1);
  return {s.rows() * s.ins, s.rows() * outs, round_up(product, 64)};
}
template <Weights kind>
Space grad_x_space(const Sizes& s) {
  // Quantized weights are dequantized by the row.
  const size_t ins = kind == Weights::exact ? s.ins : std::min(kOutputs, s.ins);
  const size_t product = kind == Weights::exact ? exact_grad_x_workspace(s.rows(), s.outs, ins, 1)
                                                : outer_workspace(s.rows(), ins, s.outs, 1);
  return {s.rows() * s.outs, s.rows() * ins, round_up(product, 64)};
}
Space grad_w_space(const Sizes& s) {
  const size_t outs = std::min(kOutputs, s.outs);
  return {s.rows() * outs, s.rows() * s.ins, outer_workspace(outs, s.ins, s.rows(), 1)};
}

// One thread's view of a call.
struct Call {
  const ExecContext& ctx;
  const Sizes s;
  const Groups groups;
  float *left, *right;
  std::byte* product;
  const TeamMember alone{};

  Call(const ExecContext& ctx_in, const KernelArgs& args, const Sizes& sizes, const Space& space)
      : ctx(ctx_in), s(sizes), groups(args.workspace, s.pairs, s.experts) {
    std::byte* mine = args.workspace + Groups::bytes(s.pairs, s.experts) + size_t(ctx.thread) * space.bytes;
    left = reinterpret_cast<float*>(mine + space.left);
    right = reinterpret_cast<float*>(mine + space.right);
    product = mine + space.product;
  }
  // The pairs of a block, and how many.
  const int32_t* block(size_t e, size_t b, size_t& n) const {
    n = std::min(kRows, groups.rows(e) - b * kRows);
    return groups.pairs + groups.begins[e] + b * kRows;
  }
};

// to[i] = columns [begin, begin + count) of from[row(i)], whose rows are `width` wide.
template <class Row>
void gather(const float* from, size_t width, size_t begin, size_t count, size_t n, const Row& row, float* to) {
  for (size_t i = 0; i < n; ++i) std::memcpy(to + i * count, from + row(i) * width + begin, count * sizeof(float));
}
void scatter(const float* from, size_t count, size_t n, const int32_t* pairs, float* to, size_t width, size_t begin) {
  for (size_t i = 0; i < n; ++i)
    std::memcpy(to + size_t(pairs[i]) * width + begin, from + i * count, count * sizeof(float));
}

size_t blocks_of(size_t rows) { return ceil_div(rows, kRows); }

const std::byte* expert_of(const View& w, size_t e) {
  return static_cast<const std::byte*>(w.data) + e * bytes_of(w.dtype, w.shape[1] * w.shape[2]);
}

// Groups the pairs; rows of y [N U, width] without an expert are zero.
void sort_pairs(const Call& c, const View& ids, float* y, size_t width) {
  if (c.ctx.thread == 0)
    c.groups.sort(c.ctx, ids, [&](int64_t p) {
      if (y) std::fill_n(y + size_t(p) * width, width, 0.0f);
    });
  c.ctx.barrier();
}

// y [rows,outs] = x [rows,k] w^T by one thread.
template <Weights kind>
void multiply(const float* x, const std::byte* w, DType w_type, size_t rows, size_t outs, size_t k, float* y,
              std::byte* workspace) {
  const TeamMember alone{};
  if constexpr (kind == Weights::floats)
    return dot_product({.x = x, .w = w, .w_type = w_type, .rows = rows, .outs = outs, .k = k, .y = y}, alone,
                       workspace);
  const QuantProduct p{.x = x, .w = w, .w_type = w_type, .rows = rows, .outs = outs, .k = k, .y = y};
  kind == Weights::exact ? exact_product(p, alone, workspace) : quant_product(p, alone, workspace);
}

template <Weights kind>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& w = args.in[1];
  const Sizes s = forward_sizes(args.in[0].shape, w.shape, args.in[2].shape);
  const Call c(ctx, args, s, forward_space<kind>(s));
  const float* x = args.in[0].as<const float>();
  float* y = args.out[0].as<float>();
  sort_pairs(c, args.in[2], y, s.outs);
  const auto blocks = [&](size_t e) { return blocks_of(c.groups.rows(e)); };
  for_each_piece(ctx, s.experts, ceil_div(s.outs, kOutputs), blocks, [&](size_t e, size_t b, size_t chunk) {
    size_t n;
    const int32_t* pairs = c.block(e, b, n);
    const size_t begin = chunk * kOutputs, count = std::min(kOutputs, s.outs - begin);
    const bool in_place = n == 1;  // one row lies together as it is
    if (!in_place)
      gather(
          x, s.ins, 0, s.ins, n, [&](size_t i) { return s.row_of(size_t(pairs[i])); }, c.left);
    const size_t first = size_t(s.row_of(size_t(pairs[0]))) * s.ins;
    multiply<kind>(in_place ? x + first : c.left, expert_of(w, e) + begin * bytes_of(w.dtype, int64_t(s.ins)), w.dtype,
                   n, count, s.ins, in_place ? y + size_t(pairs[0]) * s.outs + begin : c.right, c.product);
    if (!in_place) scatter(c.right, count, n, pairs, y, s.outs, begin);
  });
}

template <Weights kind>
void run_grad_x(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& w = args.in[1];
  const Sizes s = forward_sizes(args.in[0].shape, w.shape, args.in[2].shape);
  const Call c(ctx, args, s, grad_x_space<kind>(s));
  const size_t chunk_size = kind == Weights::exact ? std::max<size_t>(1, s.ins) : kOutputs;
  const float* dy = args.in[0].as<const float>();
  float* dx = args.out[0].as<float>();
  sort_pairs(c, args.in[2], dx, s.ins);
  const auto blocks = [&](size_t e) { return blocks_of(c.groups.rows(e)); };
  for_each_piece(ctx, s.experts, ceil_div(s.ins, chunk_size), blocks, [&](size_t e, size_t b, size_t chunk) {
    size_t n;
    const int32_t* pairs = c.block(e, b, n);
    const size_t begin = chunk * chunk_size, count = std::min(chunk_size, s.ins - begin);
    gather(
        dy, s.outs, 0, s.outs, n, [&](size_t i) { return size_t(pairs[i]); }, c.left);
    if constexpr (kind == Weights::exact) {
      exact_grad_x({.dy = c.left,
                    .w = expert_of(w, e),
                    .w_type = w.dtype,
                    .rows = n,
                    .outs = s.outs,
                    .ins = s.ins,
                    .dx = c.right},
                   c.alone, c.product);
    } else {
      const OuterProduct p{.a = {c.left, s.outs, 1},
                           .b = {expert_of(w, e) + begin * size_of(w.dtype), s.ins, 1},
                           .b_type = w.dtype,
                           .m = n,
                           .n = count,
                           .k = s.outs,
                           .c = c.right};
      outer_product(p, c.alone, c.product);
    }
    scatter(c.right, count, n, pairs, dx, s.ins, begin);
  });
}

void run_grad_w(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Shape& dw_shape = args.out[0].shape;
  const Sizes s = forward_sizes(args.in[1].shape, dw_shape, args.in[2].shape);
  const Call c(ctx, args, s, grad_w_space(s));
  const float *dy = args.in[0].as<const float>(), *x = args.in[1].as<const float>();
  float* dw = args.out[0].as<float>();
  sort_pairs(c, args.in[2], nullptr, 0);
  const auto one = [](size_t) { return size_t(1); };  // all rows of an expert, one block after the other
  for_each_piece(ctx, s.experts, ceil_div(s.outs, kOutputs), one, [&](size_t e, size_t, size_t chunk) {
    const size_t begin = chunk * kOutputs, count = std::min(kOutputs, s.outs - begin);
    float* to = dw + (e * s.outs + begin) * s.ins;
    if (c.groups.rows(e) == 0) std::fill_n(to, count * s.ins, 0.0f);
    for (size_t b = 0; b < blocks_of(c.groups.rows(e)); ++b) {
      size_t n;
      const int32_t* pairs = c.block(e, b, n);
      gather(
          dy, s.outs, begin, count, n, [&](size_t i) { return size_t(pairs[i]); }, c.left);
      gather(
          x, s.ins, 0, s.ins, n, [&](size_t i) { return s.row_of(size_t(pairs[i])); }, c.right);
      const OuterProduct p{.a = {c.left, 1, count},
                           .b = {c.right, s.ins, 1},
                           .m = count,
                           .n = s.ins,
                           .k = n,
                           .init = b == 0 ? nullptr : to,
                           .c = to};
      outer_product(p, c.alone, c.product);
    }
  });
}

// Whose input 0 is x or dy.
bool takes(const KernelQuery& q) {
  return q.in[0].dtype == DType::f32 && q.in[2].dtype == DType::i32 && q.out[0].dtype == DType::f32;
}

template <Space (*kSpace)(const Sizes&)>
size_t workspace_for(const KernelQuery& q, const Shape& x, const Shape& w) {
  const Sizes s = forward_sizes(x, w, q.in[2].shape);
  return Groups::bytes(s.pairs, s.experts) + size_t(q.threads) * kSpace(s).bytes;
}

template <Weights kind>
KernelRecord forward_kernel() {
  const auto accepts = [](const KernelQuery& q) noexcept {
    const DType w = q.in[1].dtype;
    if (kind == Weights::floats) return takes(q) && is_weight_type(w);
    return takes(q) && is_quantized(w) && (kind == Weights::exact || q.products == DType::q8_0);
  };
  const auto workspace = [](const KernelQuery& q) noexcept {
    return workspace_for<forward_space<kind>>(q, q.in[0].shape, q.in[1].shape);
  };
  return {.op = "expert_linear", .accepts = accepts, .workspace = workspace, .code = run<kind>};
}

}  // namespace

KernelRecord expert_linear_kernel() { return forward_kernel<Weights::floats>(); }
KernelRecord expert_linear_quantized_kernel() { return forward_kernel<Weights::rounded_rows>(); }
KernelRecord expert_linear_exact_kernel() { return forward_kernel<Weights::exact>(); }

template <Weights kind>
KernelRecord grad_x_kernel() {
  const auto accepts = [](const KernelQuery& q) noexcept {
    const DType w = q.in[1].dtype;
    return takes(q) && (kind == Weights::exact ? is_quantized(w) : is_weight_type(w));
  };
  const auto workspace = [](const KernelQuery& q) noexcept {
    return workspace_for<grad_x_space<kind>>(q, q.in[0].shape, q.in[1].shape);
  };
  return {.op = "expert_linear_grad_x", .accepts = accepts, .workspace = workspace, .code = run_grad_x<kind>};
}
KernelRecord expert_linear_grad_x_kernel() { return grad_x_kernel<Weights::floats>(); }
KernelRecord expert_linear_grad_x_exact_kernel() { return grad_x_kernel<Weights::exact>(); }
KernelRecord expert_linear_grad_w_kernel() {
  const auto workspace = [](const KernelQuery& q) noexcept {
    return workspace_for<grad_w_space>(q, q.in[1].shape, q.out[0].shape);
  };
  return {.op = "expert_linear_grad_w", .workspace = workspace, .code = run_grad_w};
}

}  // namespace toy::cpu
