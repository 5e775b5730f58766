// The dense products one element at a time: the definition of their bits. `fused`: the instruction set has
// fma; the x86 baseline rounds each product and each sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "toy/tensor/dtype.h"

namespace toy::test {

inline float multiply_add(float a, float b, float c, bool fused) { return fused ? std::fma(a, b, c) : a * b + c; }

/// Equal blocks of at most `max`, rounded up to a multiple of `unit`.
struct Cut {
  size_t len, count;
};
inline Cut cut(size_t k, size_t max, size_t unit) {
  const size_t c = (k + max - 1) / max, even = (k + c - 1) / c, len = (even + unit - 1) / unit * unit;
  return {len, (k + len - 1) / len};
}

/// linear, logits: x w^T of one row and one output.
template <class T>
float dot_bits(const float* x, const T* w, size_t k, bool fused) {
  if (k == 0) return 0;
  const Cut c = cut(k, 640, 16);
  float y = 0;
  for (size_t b = 0; b < c.count; ++b) {
    float lane[16] = {};
    const size_t len = std::min(c.len, k - b * c.len);
    for (size_t i = 0; i < (len + 15) / 16 * 16; ++i) {
      const float xv = i < len ? x[b * c.len + i] : 0, wv = i < len ? to_float(w[b * c.len + i]) : 0;
      lane[i % 16] = multiply_add(xv, wv, lane[i % 16], fused);
    }
    for (int h = 8; h; h /= 2)
      for (int l = 0; l < h; ++l) lane[l] += lane[l + h];
    y = b == 0 ? lane[0] : y + lane[0];
  }
  return y;
}

/// linear_grad_x, linear_grad_w, matmul: init + sum over k of a[k * as] b[k * bs]. init may be null.
template <class T>
float outer_bits(const float* a, size_t as, const T* b, size_t bs, size_t k, const float* init, bool fused) {
  if (k == 0) return init ? *init : 0;
  const Cut c = cut(k, 512, 8);
  float y = init ? *init : 0;
  for (size_t i = 0; i < c.count; ++i) {
    float chain = 0;
    for (size_t l = i * c.len; l < std::min(k, (i + 1) * c.len); ++l)
      chain = multiply_add(a[l * as], to_float(b[l * bs]), chain, fused);
    y = i == 0 && !init ? chain : y + chain;
  }
  return y;
}

}  // namespace toy::test
