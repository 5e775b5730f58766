// The two dense products of the cpu device. Each thread of a team calls them with the same arguments and does its part;
// nothing is allocated. Matrices are row-major.
//
// Where it costs little, the parts are not fixed: a thread claims the next piece when it is done with one, so that a
// core which somebody else uses too, or a slower kind of core, does less. Such a product claims and may wait at
// barriers, so there is a barrier between it and the next use of ThreadPool::claim().
//
// dot_product (gemm_dot.cpp): y = x w^T + bias + acc on weights as they lie in the file, for everything
// computed forward. A row of y has the same bits whatever the other rows, the number of threads, the vector
// width. outer_product (gemm_outer.cpp): C = init + A B from packed panels, for gradients and batched
// products. An element has the same bits for any number of threads.
//
// THE ORDER OF SUMS is part of what these functions promise; tests/backend/gemm_test.cpp holds it as plain
// loops.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "toy/base/threads.h"
#include "toy/tensor/dtype.h"
#include "toy/tensor/shape.h"

namespace toy::cpu {

constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t round_up(size_t a, size_t unit) { return ceil_div(a, unit) * unit; }

/// Product of all dimensions but the innermost.
inline size_t rows_of(const Shape& s) {
  size_t rows = 1;
  for (int i = 0; i + 1 < s.rank(); ++i) rows *= size_t(s[i]);
  return rows;
}
/// What weights may be held as while everything else is f32.
inline bool is_weight_type(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

/// Calls f with an element of this type of weights.
template <class F>
void with_weight_type(DType t, const F& f) {
  if (t == DType::f16) return f(F16());
  if (t == DType::bf16) return f(BF16());
  f(float());
}

/// How a sum over k is cut: `count` blocks of `len`, the last one shorter. Depends on k alone.
struct KBlocks {
  size_t len, count, k;

  /// Equal blocks of at most `max`, which is a multiple of `unit`, rounded up to `unit`. k = 0 is one empty
  /// block.
  KBlocks(size_t k_in, size_t max, size_t unit) : k(k_in) {
    len = std::max(unit, round_up(ceil_div(k, std::max<size_t>(1, ceil_div(k, max))), unit));
    count = std::max<size_t>(1, ceil_div(k, len));
  }
  size_t size(size_t block) const { return std::min(len, k - block * len); }
};

/// dot_product: 16 lanes, lane l an fma chain over k = l, l+16, ... of a block, from zero; lanes are added as
/// a tree (l and l+8, then +4, +2, +1), blocks in order. The tail of k counts as zeros. Blocks of 640: 320
/// was 2 to 7% slower, 1152 up to 6%, 2048 up to 13%.
inline KBlocks dot_blocks(size_t k) { return KBlocks(k, 640, 16); }

/// outer_product: an element is init, plus block after block the fma chain over the k of the block, from
/// zero.
inline KBlocks outer_blocks(size_t k) { return KBlocks(k, 512, 8); }

/// Can a product over k be given to a consumer? An element has to be finished with its first block.
inline bool consumes(size_t k) { return outer_blocks(k).count == 1; }

struct DotProduct {
  const float* x = nullptr;  ///< [rows,k]
  const void* w = nullptr;   ///< [outs,k], f32, f16, bf16; or quantized, if dot_takes_blocks()
  DType w_type = DType::f32;
  size_t rows = 0, outs = 0, k = 0;
  size_t stride = 0;            ///< from one row of acc and y to the next; 0: outs
  const float* bias = nullptr;  ///< [outs] or absent; added to the finished product
  const float* acc = nullptr;   ///< [rows,outs] or absent; added last. May be y itself
  float* y = nullptr;           ///< [rows,outs]
  size_t ld() const { return stride > 0 ? stride : outs; }
};
/// Can w be quantized? Then its rows become f32 on their way to the registers, and y is what it would be with those.
/// Not where it would have to be read many times.
bool dot_takes_blocks(size_t rows, size_t k);
/// Bytes for all threads together, enough for any number of rows up to `rows`.
size_t dot_workspace(size_t rows, size_t outs, size_t k, int threads, DType w_type = DType::f32);
void dot_product(const DotProduct& p, const TeamMember& team, std::byte* workspace);

/// A finished block of C: rows from `row` on and columns from `col` on, in memory that holds it only for now.
struct OuterBlock {
  const float* c = nullptr;  ///< [rows,cols], row stride ldc
  size_t ldc = 0, row = 0, col = 0, rows = 0, cols = 0;
};
/// What uses the blocks of C in place of storing them. Threads call it at the same time, each element comes once.
struct OuterConsumer {
  void (*use)(const OuterConsumer& self, const OuterBlock& block) = nullptr;
  /// Arrays [m,n] of which use() reads and writes the elements of its block: fetched while it is computed. Absent ones
  /// last.
  std::array<const float*, 3> touches = {};
};

/// Element (row, col) at data[row * row_stride + col * col_stride]; one of the strides is 1.
struct Matrix {
  const void* data = nullptr;
  size_t row_stride = 0, col_stride = 0;
};
struct OuterProduct {
  Matrix a;  ///< [m,k], f32
  Matrix b;  ///< [k,n], f32, f16 or bf16; or rows of n in quantized blocks, if outer_takes_blocks()
  DType b_type = DType::f32;
  size_t m = 0, n = 0, k = 0;
  const float* init = nullptr;  ///< [m,n] or absent. May be c itself
  bool init_is_row = false;     ///< init is [n], the same for every row: a bias
  float* c = nullptr;           ///< [m,n]; absent with a consumer
  /// Then there is no init, and k fits into one block of sums (consumes()).
  const OuterConsumer* consumer = nullptr;
  size_t init_stride() const { return init_is_row ? 0 : n; }
};
/// dw = dy^T x, dy [N,O] and x [N,I]; what is left is where it starts from and goes to.
OuterProduct product_of_grad_w(const View& dy, const View& x);
/// Can b be of this quantized type? Panels are packed from the blocks, so these must be short.
inline bool outer_takes_blocks(DType t) { return info_of(t).block == 32; }
/// Bytes for all threads together, enough for any m, n and k up to these: of outer_product, or (bf16) of
/// outer_product_bf16 and each way to do it.
size_t outer_workspace(size_t m, size_t n, size_t k, int threads, DType products = DType::f32);
void outer_product(const OuterProduct& p, const TeamMember& team, std::byte* workspace);

/// The same with both operands (f32) rounded to bf16 and summed in f32, with the best instruction that the machine has
/// for it. The rounding is to nearest even; denormals count as zeros. Only where has_bf16_products().
bool has_bf16_products();
void outer_product_bf16(const OuterProduct& p, const TeamMember& team, std::byte* workspace);

/// One way to do it: AVX512_BF16, twice as fast as f32 on AMD (gemm_bf16.cpp). Sums run over pairs of k: an element is
/// init, plus block after block a chain of (a b + a' b').
void outer_product_dot(const OuterProduct& p, const TeamMember& team, std::byte* workspace);
/// Another: AMX, several times as fast (gemm_amx.cpp). An element is init, plus for every 32 k the chain of fma over
/// the first of each pair added to the chain over the second, both from zero.
bool has_amx();        ///< is it there, and may this process use it?
bool has_amx_bytes();  ///< the same of products of bytes (quant_amx.cpp)
void outer_product_amx(const OuterProduct& p, const TeamMember& team, std::byte* workspace);

/// Parts of outer_workspace.
size_t bf16_bytes_of_thread(size_t m, size_t n, size_t k);
size_t amx_bytes_of_thread(size_t m, size_t n, size_t k);

}  // namespace toy::cpu
