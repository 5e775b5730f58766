// How values lie in the blocks of GGUF's quantized types (ggml-common.h). In all of them a value is
//
//     d * scale[run] * level(code) - dmin * min[run]
//
// with halves d and dmin, and small integers scale and min for each run of 16 or 32 elements. A format says where these
// numbers are (get, put) and what levels there are. Products are exact in f32: 11 bits of a half times at most 13.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/trials.h"
#include "toy/base/error.h"
#include "toy/tensor/dtype.h"

namespace toy::quant {

/// The numbers of a block. Blocks of 32 are one run, whose integers are 1.
struct Parts {
  float d = 0, dmin = 0;
  int8_t scale[16] = {1}, min[16] = {1};
  uint8_t code[256];
};

/// Equally spaced levels kLow to kHigh; code kZero is level 0.
template <int kLow, int kHigh, int kZero = -kLow>
struct Uniform {
  static constexpr float low = kLow, high = kHigh;
  static constexpr int zero = kZero;
  static float level(uint8_t code) { return float(int(code) - kZero); }
  static uint8_t code(float v) { return uint8_t(int(std::nearbyint(std::clamp(v, low, high))) + kZero); }
  static Levels levels() { return {low, high}; }
};

/// Levels of a table of 16, by code. Between two of them lies a multiple of 1/2, so the nearest is the same for all v
/// of equal floor(2 v).
template <const int8_t (&kTable)[16]>
struct Table {
  static constexpr const int8_t* table = kTable;
  static constexpr float low = *std::min_element(kTable, kTable + 16), high = *std::max_element(kTable, kTable + 16);
  static float level(uint8_t code) { return kAll.level[code]; }
  static uint8_t code(float v) { return kAll.code[int(2 * (std::clamp(v, low, high) - low))]; }
  static Levels levels() { return {low, high, kAll.nearest}; }

 private:
  struct All {
    float level[16], nearest[512];
    uint8_t code[512];
  };
  static constexpr All kAll = [] {
    All all{};
    for (int c = 0; c < 16; ++c) all.level[c] = kTable[c];
    for (int i = 0; i < 512; ++i) {
      const auto off = [&](int c) {
        return std::max(4 * int(low) + 2 * i + 1 - 4 * kTable[c], 4 * kTable[c] - 4 * int(low) - 2 * i - 1);
      };
      int best = 0;
      for (int c = 1; c < 16; ++c)
        if (off(c) < off(best)) best = c;
      all.nearest[i] = kTable[best], all.code[i] = uint8_t(best);
    }
    return all;
  }();
};

inline constexpr int8_t kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Twice the values of an E2M1 number, so that they are whole.
inline constexpr int8_t kE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Fields of kBits bits: of every kStride bytes, the lowest are elements 0, 1, ..., kStride - 1, the next ones the
/// kStride elements after these, and so on. They are the bits of a code from kShift on; those from bit 0 come first.
template <int kBits, int kStride, int kShift = 0>
struct Plane {
  static constexpr int kFields = 8 / kBits, kMask = (1 << kBits) - 1;

  template <int kBytes>
  static void get(const uint8_t (&bytes)[kBytes], uint8_t* code) {
    if constexpr (kBits == 1 && kStride == 1 && std::endian::native == std::endian::little) {
      // Eight bits at a time: byte j of a word keeps bit j, then has it as its lowest bit.
      for (int n = 0; n < kBytes; ++n) {
        const uint64_t bits = (bytes[n] * 0x0101010101010101u) & 0x8040201008040201u;
        const uint64_t field = ((bits + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 7 << kShift;
        uint64_t to = 0;
        if (kShift) std::memcpy(&to, code + n * 8, sizeof to);
        to |= field;
        std::memcpy(code + n * 8, &to, sizeof to);
      }
      return;
    }
    for (int n = 0; n < kBytes; n += kStride)
      for (int r = 0; r < kFields; ++r) {
        const uint8_t* __restrict from = bytes + n;  // apart, so that this becomes vectors
        uint8_t* __restrict to = code + n * kFields + r * kStride;
        for (int l = 0; l < kStride; ++l) {
          const int field = (from[l] >> (kBits * r) & kMask) << kShift;
          to[l] = uint8_t(kShift ? to[l] | field : field);
        }
      }
  }

  template <int kBytes>
  static void put(const uint8_t* code, uint8_t (&bytes)[kBytes]) {
    for (int n = 0; n < kBytes; n += kStride)
      for (int l = 0; l < kStride; ++l) {
        int byte = 0;
        for (int r = 0; r < kFields; ++r)
          byte |= (code[n * kFields + r * kStride + l] >> kShift & kMask) << (kBits * r);
        bytes[n + l] = uint8_t(byte);
      }
  }
};

/// What a block of the type has: levels, elements that share a scale, and whether a minimum is subtracted or, which is
/// the same with the other sign, added.
enum class Minimum { none, subtracted, added };
template <DType kType, class L, int kRunLength, Minimum kMinimum = Minimum::none>
struct Format {
  using Level = L;
  static constexpr DType type = kType;
  static constexpr int kBlock = info_of(kType).block, kRun = kRunLength, kRuns = kBlock / kRun;
  static constexpr Minimum minimum = kMinimum;
};
/// The integers that scales of runs may be; minima are from 0 to kHigh.
template <int kLow, int kHigh>
struct Scales {
  static constexpr int scale_low = kLow, scale_high = kHigh;
};

// ---- blocks of 32 ----

/// Codes of 4 and of 5 bits.
struct Nibbles {
  static void get(const auto& b, Parts& p) { Plane<4, 16>::get(b.low, p.code); }
  static void put(const Parts& p, auto& b) { Plane<4, 16>::put(p.code, b.low); }
};
struct FiveBits {
  static void get(const auto& b, Parts& p) {
    Plane<4, 16>::get(b.low, p.code);
    Plane<1, 1, 4>::get(b.high, p.code);
  }
  static void put(const Parts& p, auto& b) {
    Plane<4, 16>::put(p.code, b.low);
    Plane<1, 1, 4>::put(p.code, b.high);
  }
};

struct Q4_0 : Format<DType::q4_0, Uniform<-8, 7>, 32>, Nibbles {
  struct Block {
    F16 d;
    uint8_t low[16];
  };
};

struct Q4_1 : Format<DType::q4_1, Uniform<0, 15>, 32, Minimum::added>, Nibbles {
  struct Block {
    F16 d, dmin;
    uint8_t low[16];
  };
};

struct Q5_0 : Format<DType::q5_0, Uniform<-16, 15>, 32>, FiveBits {
  struct Block {
    F16 d;
    uint8_t high[4], low[16];
  };
};

struct Q5_1 : Format<DType::q5_1, Uniform<0, 31>, 32, Minimum::added>, FiveBits {
  struct Block {
    F16 d, dmin;
    uint8_t high[4], low[16];
  };
};

/// -128 is read, but not written: what multiplies bytes may not expect it.
struct Q8_0 : Format<DType::q8_0, Uniform<-127, 127, 128>, 32> {
  struct Block {
    F16 d;
    uint8_t level[32];
  };
  static void get(const Block& b, Parts& p) {
    for (int i = 0; i < 32; ++i) p.code[i] = b.level[i] ^ 128;
  }
  static void put(const Parts& p, Block& b) {
    for (int i = 0; i < 32; ++i) b.level[i] = p.code[i] ^ 128;
  }
};

struct IQ4_NL : Format<DType::iq4_nl, Table<kNonlinear>, 32>, Nibbles {
  struct Block {
    F16 d;
    uint8_t low[16];
  };
};

struct MXFP4 : Format<DType::mxfp4, Table<kE2M1>, 32>, Nibbles {
  struct Block {
    uint8_t exponent;  // d is 2^(exponent - 128)
    uint8_t low[16];
  };
};

// ---- blocks of 256 ----

struct Q2_K : Format<DType::q2_k, Uniform<0, 3>, 16, Minimum::subtracted>, Scales<0, 15> {
  struct Block {
    uint8_t scales[16], low[64];
    F16 d, dmin;
  };
  static void get(const Block& b, Parts& p) {
    for (int s = 0; s < 16; ++s) p.scale[s] = b.scales[s] & 15, p.min[s] = b.scales[s] >> 4;
    Plane<2, 32>::get(b.low, p.code);
  }
  static void put(const Parts& p, Block& b) {
    for (int s = 0; s < 16; ++s) b.scales[s] = uint8_t(p.scale[s] | p.min[s] << 4);
    Plane<2, 32>::put(p.code, b.low);
  }
};

struct Q3_K : Format<DType::q3_k, Uniform<-4, 3>, 16>, Scales<-32, 31> {
  struct Block {
    uint8_t high[32], low[64], scales_low[8], scales_high[4];
    F16 d;
  };
  static void get(const Block& b, Parts& p) {
    uint8_t scale[16];
    Plane<4, 8>::get(b.scales_low, scale);
    Plane<2, 4, 4>::get(b.scales_high, scale);
    for (int s = 0; s < 16; ++s) p.scale[s] = int8_t(scale[s] - 32);
    Plane<2, 32>::get(b.low, p.code);
    Plane<1, 32, 2>::get(b.high, p.code);
  }
  static void put(const Parts& p, Block& b) {
    uint8_t scale[16];
    for (int s = 0; s < 16; ++s) scale[s] = uint8_t(p.scale[s] + 32);
    Plane<4, 8>::put(scale, b.scales_low);
    Plane<2, 4, 4>::put(scale, b.scales_high);
    Plane<2, 32>::put(p.code, b.low);
    Plane<1, 32, 2>::put(p.code, b.high);
  }
};

/// Eight scales and eight minima of 6 bits in 12 bytes: [0,4) and [4,8) have the first four of each, and in their upper
/// two bits those of the last four, whose lower four are in [8,12).
struct SixBitPairs {
  static void get(const uint8_t (&bytes)[12], Parts& p) {
    for (int s = 0; s < 4; ++s) {
      p.scale[s] = bytes[s] & 63;
      p.min[s] = bytes[s + 4] & 63;
      p.scale[s + 4] = int8_t((bytes[s + 8] & 15) | (bytes[s] >> 6) << 4);
      p.min[s + 4] = int8_t(bytes[s + 8] >> 4 | (bytes[s + 4] >> 6) << 4);
    }
  }
  static void put(const Parts& p, uint8_t (&bytes)[12]) {
    for (int s = 0; s < 4; ++s) {
      bytes[s] = uint8_t(p.scale[s] | (p.scale[s + 4] >> 4) << 6);
      bytes[s + 4] = uint8_t(p.min[s] | (p.min[s + 4] >> 4) << 6);
      bytes[s + 8] = uint8_t((p.scale[s + 4] & 15) | (p.min[s + 4] & 15) << 4);
    }
  }
};

struct Q4_K : Format<DType::q4_k, Uniform<0, 15>, 32, Minimum::subtracted>, Scales<0, 63> {
  struct Block {
    F16 d, dmin;
    uint8_t scales[12], low[128];
  };
  static void get(const Block& b, Parts& p) {
    SixBitPairs::get(b.scales, p);
    Plane<4, 32>::get(b.low, p.code);
  }
  static void put(const Parts& p, Block& b) {
    SixBitPairs::put(p, b.scales);
    Plane<4, 32>::put(p.code, b.low);
  }
};

struct Q5_K : Format<DType::q5_k, Uniform<0, 31>, 32, Minimum::subtracted>, Scales<0, 63> {
  struct Block {
    F16 d, dmin;
    uint8_t scales[12], high[32], low[128];
  };
  static void get(const Block& b, Parts& p) {
    SixBitPairs::get(b.scales, p);
    Plane<4, 32>::get(b.low, p.code);
    Plane<1, 32, 4>::get(b.high, p.code);
  }
  static void put(const Parts& p, Block& b) {
    SixBitPairs::put(p, b.scales);
    Plane<4, 32>::put(p.code, b.low);
    Plane<1, 32, 4>::put(p.code, b.high);
  }
};

struct Q6_K : Format<DType::q6_k, Uniform<-32, 31>, 16>, Scales<-128, 127> {
  struct Block {
    uint8_t low[128], high[64];
    int8_t scales[16];
    F16 d;
  };
  static void get(const Block& b, Parts& p) {
    std::memcpy(p.scale, b.scales, sizeof b.scales);
    Plane<4, 64>::get(b.low, p.code);
    Plane<2, 32, 4>::get(b.high, p.code);
  }
  static void put(const Parts& p, Block& b) {
    std::memcpy(b.scales, p.scale, sizeof b.scales);
    Plane<4, 64>::put(p.code, b.low);
    Plane<2, 32, 4>::put(p.code, b.high);
  }
};

struct IQ4_XS : Format<DType::iq4_xs, Table<kNonlinear>, 32>, Scales<-32, 31> {
  struct Block {
    F16 d;
    uint8_t scales_high[2], scales_low[4], low[128];
  };
  static void get(const Block& b, Parts& p) {
    uint8_t scale[8];
    Plane<4, 1>::get(b.scales_low, scale);
    Plane<2, 1, 4>::get(b.scales_high, scale);
    for (int s = 0; s < 8; ++s) p.scale[s] = int8_t(scale[s] - 32);
    Plane<4, 16>::get(b.low, p.code);
  }
  static void put(const Parts& p, Block& b) {
    uint8_t scale[8];
    for (int s = 0; s < 8; ++s) scale[s] = uint8_t(p.scale[s] + 32);
    Plane<4, 1>::put(scale, b.scales_low);
    Plane<2, 1, 4>::put(scale, b.scales_high);
    Plane<4, 16>::put(p.code, b.low);
  }
};

// ---- of all formats ----

/// Reads d and dmin of a block.
template <class F>
void get_scales(const typename F::Block& b, Parts& p) {
  if constexpr (requires { b.exponent; })
    p.d = std::bit_cast<float>(b.exponent < 2 ? 0x00200000u << b.exponent : uint32_t(b.exponent - 1) << 23);
  else
    p.d = to_float(b.d);
  if constexpr (F::minimum != Minimum::none) p.dmin = to_float(b.dmin);
  if constexpr (F::minimum == Minimum::added) p.dmin = -p.dmin;
}

/// Writes them. Halves are rounded; d of an exponent is a power of two.
template <class F>
void put_scales(const Parts& p, typename F::Block& b) {
  if constexpr (requires { b.exponent; })
    b.exponent = uint8_t(std::ilogb(p.d) + 128);
  else
    b.d = to_f16(p.d);
  if constexpr (F::minimum == Minimum::subtracted) b.dmin = to_f16(p.dmin);
  if constexpr (F::minimum == Minimum::added) b.dmin = to_f16(-p.dmin);
}

/// Calls f.template operator()<Format>() for the format of a quantized type.
template <class Fn>
auto with_format(DType type, Fn&& f) {
  switch (type) {
    case DType::q4_0:
      return f.template operator()<Q4_0>();
    case DType::q4_1:
      return f.template operator()<Q4_1>();
    case DType::q5_0:
      return f.template operator()<Q5_0>();
    case DType::q5_1:
      return f.template operator()<Q5_1>();
    case DType::q8_0:
      return f.template operator()<Q8_0>();
    case DType::q2_k:
      return f.template operator()<Q2_K>();
    case DType::q3_k:
      return f.template operator()<Q3_K>();
    case DType::q4_k:
      return f.template operator()<Q4_K>();
    case DType::q5_k:
      return f.template operator()<Q5_K>();
    case DType::q6_k:
      return f.template operator()<Q6_K>();
    case DType::iq4_nl:
      return f.template operator()<IQ4_NL>();
    case DType::iq4_xs:
      return f.template operator()<IQ4_XS>();
    case DType::mxfp4:
      return f.template operator()<MXFP4>();
    default:
      fail_internal("{}: not a quantized type", name_of(type));
  }
}

}  // namespace toy::quant
