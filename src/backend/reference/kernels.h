// The kernels of the reference device, one line a kernel, and what they share. They are the executable specification of
// the ops, and where there is none, the op's decomposition is: every float is an f64, the device has one thread, and
// each loop reads like its formula.
#pragma once

#include <cmath>

#include "toy/backend/host_kernel.h"

namespace toy::reference {

#define TOY_KERNEL(name) KernelRecord name##_kernel();
#include "toy/backend/kernels.def"
#undef TOY_KERNEL

// ---- operands

/// An f64 operand; nullptr when it is absent.
inline const double* input(const KernelArgs& args, int i) {
  return i < int(args.in.size()) ? args.in[i].as<const double>() : nullptr;
}
inline double* output(const KernelArgs& args, int i) {
  return i < int(args.out.size()) ? args.out[i].as<double>() : nullptr;
}
inline const int32_t* indices(const KernelArgs& args, int i) { return args.in[i].as<const int32_t>(); }

/// What an optimizer multiplies gradients by: operand i, 1 without it. Not finite: the step is skipped.
inline double scale_of_gradients(const KernelArgs& args, int i) { return input(args, i) ? *input(args, i) : 1; }

/// A score of attention under a softcap (0: none).
inline double capped(double s, double softcap) { return softcap > 0 ? softcap * std::tanh(s / softcap) : s; }

/// Calls f(index) for every index of `shape`, the last one fastest.
template <class F>
void for_each_index(const Shape& shape, F f) {
  Shape index = shape;
  for (int i = 0; i < shape.rank(); ++i) index[i] = 0;
  for (int64_t n = shape.count(); n > 0; --n) {
    f(index);
    for (int i = shape.rank() - 1; i >= 0; --i) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

/// Where an element lies. `index` may have more dimensions than the view, and the view may have size 1 where
/// the index runs: both are numpy's broadcasting.
inline int64_t offset(const View& v, const Shape& index) {
  int64_t at = 0;
  for (int i = 0; i < v.shape.rank(); ++i)
    if (v.shape.back(i) != 1) at += index.back(i) * v.stride[v.shape.rank() - 1 - i];
  return at;
}

}  // namespace toy::reference
