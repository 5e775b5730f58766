// What products have to know of a format of blocks: all of it follows from tensor/quant_formats.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tensor/quant_formats.h"

namespace toy::cpu {

/// Numbers of a format for kernels. Integers of weights are bytes, signed or not.
template <class F>
struct BlockFormat {
  using Format = F;
  using Code = typename F::Code;
  static constexpr size_t kBytes = sizeof(typename F::Block), kBlock = F::kBlock;
  static constexpr size_t kRun = F::kRun;  ///< values that share a scale
  static constexpr int kBits = Code::Low::bits + (Code::has_high ? Code::High::bits : 0);
  static constexpr bool kTable = requires { F::Level::table; };
  static constexpr bool kSigned = kTable || kBits == 8;                     ///< else kOffset was added to them
  static constexpr bool kMin = F::minimum != quant::Minimum::none;          ///< there is a minimum, too
  static constexpr bool kLight = kBits >= 4 && !kTable && !Code::has_high;  ///< there is little to unpack
  static constexpr int kOffset = [] {
    if constexpr (!kSigned) return F::Level::zero;
    return 0;
  }();
  static constexpr int kMost = [] {  ///< the largest magnitude of a byte
    if constexpr (kTable)
      return int(std::max(-F::Level::low, F::Level::high));
    else
      return kSigned ? 128 : (1 << kBits) - 1;
  }();
  static constexpr bool kExponent = requires(typename F::Block b) { b.exponent; };  ///< d is a power of two
  static constexpr size_t kScaleAt = quant::scale_at<typename F::Block>(), kMinAt = kScaleAt + 2;
};

/// Blocks of 256, of runs with integer scales.
template <class T>
concept HasRuns = T::kBlock == 256;

}  // namespace toy::cpu
