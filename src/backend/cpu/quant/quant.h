// y = x w^T + bias + acc on block-quantized weights as they lie in the file, with x rounded to 8 bits.
//
// A row of x becomes int8 once, values rounded to the nearest: each run of 32 or 16 values, which share a scale of the
// weights, has a scale xs of its own, its largest magnitude / 127 without the lowest two bits. Inside a run everything
// is integer arithmetic and so exact in any order; across runs y is one chain of f32 fma per element, from the first
// run to the last:
//
//   y = fma(d, xs I, y), and with a minimum y = fma(m, xs X, y)
//
// d and m are the weights' scale and minimum in f32 (in blocks of 256, which are exact, halves times integers), I the
// integer dot product, X the sum of the quantized x. bias and acc are added to the finished sum. So a row of y has the
// same bits whatever the other rows, the number of threads, the instruction set. A row of x that is not finite, or has
// a magnitude of 2^111 or more, makes its row of y NaN.
//
// One thread unpacks a strip of outputs, some 256 values of k at a time, into a panel in L1 in which 4 neighbouring k
// of an output are one 32-bit lane: the layout of the dot product instructions. Then all rows of x pass by. Few rows by
// repacked weights need no panel: vectors are multiplied as they are unpacked.
#pragma once

#include <cstddef>
#include <cstring>

#include "toy/base/threads.h"
#include "toy/tensor/dtype.h"

namespace toy::cpu {

struct QuantProduct {
  const float* x = nullptr;      ///< [rows,k]
  const std::byte* w = nullptr;  ///< [outs,k] in blocks; k is a multiple of the type's block
  DType w_type = DType::q8_0;
  size_t rows = 0, outs = 0, k = 0;
  const float* bias = nullptr;  ///< [outs] or absent
  const float* acc = nullptr;   ///< [rows,outs] or absent. May be y itself
  float* y = nullptr;           ///< [rows,outs]
  bool repacked = false;        ///< w is what repack() wrote
  bool rounded = false;         ///< the workspace has the rows of x rounded, from a product that shares them
};
/// Bytes for all threads together, enough for any number of rows up to `rows`.
size_t quant_workspace(DType w_type, size_t rows, size_t outs, size_t k, int threads);
/// Do products of the same rows by weights of `outs` and `other_outs` outputs, both repacked or neither, round them
/// alike? What the first leaves in the workspace serves the second, on the same number of threads.
bool shares_rounded(DType w_type, size_t outs, DType other_type, size_t other_outs);
void quant_product(const QuantProduct& p, const TeamMember& team, std::byte* workspace);

/// Bytes of a repacked copy of weights [outs,k]; 0 where there is none, because there are too few outputs.
size_t repacked_bytes(DType type, size_t outs, size_t k);
/// Writes it, this thread its part. The outputs of one vector after the other; of these, block by block, the same word
/// of all outputs lies together. Words have the order in which they are unpacked, so that a product reads one stream
/// and finds vectors as it needs them. The order depends on the machine.
void repack(DType type, const std::byte* w, size_t outs, size_t k, const TeamMember& team, std::byte* to);

/// The same with x as it is: weights become f32, some outputs at a time, and sums have the order of dot_product
/// (gemm.h), so that y is what it would be with these weights in f32.
size_t exact_workspace(size_t rows, size_t outs, size_t k, int threads);
void exact_product(const QuantProduct& p, const TeamMember& team, std::byte* workspace);

/// dx = init + dy w on such weights.
struct QuantGradX {
  const float* dy = nullptr;     ///< [rows,outs]
  const std::byte* w = nullptr;  ///< [outs,ins] in blocks
  DType w_type = DType::q8_0;
  size_t rows = 0, outs = 0, ins = 0;
  const float* init = nullptr;  ///< [rows,ins] or absent. May be dx itself
  float* dx = nullptr;          ///< [rows,ins]
};
/// Weights become f32, a block of k of outer_product (gemm.h) at a time, whose order sums have.
size_t exact_grad_x_workspace(size_t rows, size_t outs, size_t ins, int threads);
void exact_grad_x(const QuantGradX& p, const TeamMember& team, std::byte* workspace);

/// Writes outputs [first,last) of a row of y: finished sums, to which it adds bias and acc.
inline void finish_sums(const QuantProduct& p, float* sums, size_t row, size_t first, size_t last) {
  const size_t at = row * p.outs + first, n = last - first;
  if (p.bias)
    for (size_t o = 0; o < n; ++o) sums[o] += p.bias[first + o];
  if (p.acc)
    for (size_t o = 0; o < n; ++o) sums[o] += p.acc[at + o];
  std::memcpy(p.y + at, sums, n * sizeof(float));
}

}  // namespace toy::cpu
