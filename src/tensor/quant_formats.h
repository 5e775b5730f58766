// How values lie in the blocks of GGUF's quantized types (ggml-common.h). In all of them a value is
//
//     d * scale[run] * level(code) - dmin * min[run]
//
// with halves d and dmin, and small integers scale and min for each run of 16 or 32 elements. A format says where these
// numbers are and what levels there are: all that is read and written of a block, by the host and by kernels, follows
// from that. Products are exact in f32: 11 bits of a half times at most 13.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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
  static constexpr const int8_t (&table)[16] = kTable;
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

alignas(16) inline constexpr int8_t kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the values of an E2M1 number, so that they are whole.
alignas(16) inline constexpr int8_t kE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Fields of kBits bits, from byte kAt of a block on: of every kStride bytes, the lowest are elements 0, 1, ...,
/// kStride - 1, the next ones the kStride elements after these, and so on. They are the bits of a code from kShift on;
/// kFlip changes some of them.
template <size_t kAt, int kBits, int kStride, int kShift = 0, int kFlip = 0>
struct Plane {
  static constexpr size_t at = kAt;
  static constexpr int bits = kBits, stride = kStride, shift = kShift;
  static constexpr int fields = 8 / kBits, mask = (1 << kBits) - 1;  // of a byte

  /// kCount codes of a block. Inlined, so that it is compiled for the instructions of its caller.
  template <int kCount>
  [[gnu::always_inline]] static inline void get(const uint8_t* block, uint8_t* code) {
    constexpr int kBytes = kCount / fields;
    const uint8_t* bytes = block + kAt;
    if constexpr (kBits == 1 && kStride == 1 && std::endian::native == std::endian::little) {
      // Eight bits at a time: byte j of a word keeps bit j, then has it as its lowest bit.
      for (int n = 0; n < kBytes; ++n) {
        const uint64_t set = (bytes[n] * 0x0101010101010101u) & 0x8040201008040201u;
        const uint64_t field = ((set + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 7 << kShift;
        uint64_t to = 0;
        if (kShift) std::memcpy(&to, code + n * 8, sizeof to);
        to |= field;
        std::memcpy(code + n * 8, &to, sizeof to);
      }
      return;
    }
    for (int n = 0; n < kBytes; n += kStride)
      for (int r = 0; r < fields; ++r) {
        const uint8_t* __restrict from = bytes + n;  // apart, so that this becomes vectors
        uint8_t* __restrict to = code + n * fields + r * kStride;
        for (int l = 0; l < kStride; ++l) {
          const int field = ((from[l] >> (kBits * r) & mask) ^ kFlip) << kShift;
          to[l] = uint8_t(kShift ? to[l] | field : field);
        }
      }
  }

  template <int kCount>
  static void put(const uint8_t* code, uint8_t* block) {
    for (int n = 0; n < kCount / fields; n += kStride)
      for (int l = 0; l < kStride; ++l) {
        int byte = 0;
        for (int r = 0; r < fields; ++r)
          byte |= ((code[n * fields + r * kStride + l] >> kShift & mask) ^ kFlip) << (kBits * r);
        block[kAt + size_t(n + l)] = uint8_t(byte);
      }
  }
};

/// Codes of one plane, or of two: those from bit 0 on and those above them.
template <class LowPlane, class HighPlane = LowPlane>
struct Codes {
  using Low = LowPlane;
  using High = HighPlane;  // Low where has_high is false
  static constexpr bool has_high = !std::is_same_v<Low, High>;

  template <int kCount>
  [[gnu::always_inline]] static inline void get(const uint8_t* block, uint8_t* code) {
    Low::template get<kCount>(block, code);
    if constexpr (has_high) High::template get<kCount>(block, code);
  }
  template <int kCount>
  static void put(const uint8_t* code, uint8_t* block) {
    Low::template put<kCount>(code, block);
    if constexpr (has_high) High::template put<kCount>(code, block);
  }
};
/// The usual ones of blocks of 32: of 4 and of 5 bits.
template <class Block>
using Nibbles = Codes<Plane<offsetof(Block, low), 4, 16>>;
template <class Block>
using FiveBits = Codes<Plane<offsetof(Block, low), 4, 16>, Plane<offsetof(Block, high), 1, 1, 4>>;

// How the integers of the runs of a block of 256 lie, and what they may be: scales from `low` to `high`, minima from 0.

/// Each scale is a byte with its sign.
template <size_t kAt>
struct SignedBytes {
  static constexpr size_t at = kAt;
  static constexpr int low = -128, high = 127;
  template <int kRuns>
  static void get(const uint8_t* block, Parts& p) {
    std::memcpy(p.scale, block + kAt, kRuns);
  }
  template <int kRuns>
  static void put(const Parts& p, uint8_t* block) {
    std::memcpy(block + kAt, p.scale, kRuns);
  }
};

/// Each byte has a scale in its lower half and a minimum in its upper one.
template <size_t kAt>
struct NibblePairs {
  static constexpr size_t at = kAt;
  static constexpr int low = 0, high = 15;
  template <int kRuns>
  static void get(const uint8_t* block, Parts& p) {
    for (int s = 0; s < kRuns; ++s) p.scale[s] = block[kAt + s] & 15, p.min[s] = block[kAt + s] >> 4;
  }
  template <int kRuns>
  static void put(const Parts& p, uint8_t* block) {
    for (int s = 0; s < kRuns; ++s) block[kAt + s] = uint8_t(p.scale[s] | p.min[s] << 4);
  }
};

/// Eight scales and eight minima of 6 bits in 12 bytes: [0,4) and [4,8) have the first four of each, and in their upper
/// two bits those of the last four, whose lower four are in [8,12).
template <size_t kAt>
struct SixBitPairs {
  static constexpr size_t at = kAt;
  static constexpr int low = 0, high = 63;
  template <int kRuns>
  static void get(const uint8_t* block, Parts& p) {
    const uint8_t* bytes = block + kAt;
    for (int s = 0; s < 4; ++s) {
      p.scale[s] = bytes[s] & 63;
      p.min[s] = bytes[s + 4] & 63;
      p.scale[s + 4] = int8_t((bytes[s + 8] & 15) | (bytes[s] >> 6) << 4);
      p.min[s + 4] = int8_t(bytes[s + 8] >> 4 | (bytes[s + 4] >> 6) << 4);
    }
  }
  template <int kRuns>
  static void put(const Parts& p, uint8_t* block) {
    uint8_t* bytes = block + kAt;
    for (int s = 0; s < 4; ++s) {
      bytes[s] = uint8_t(p.scale[s] | (p.scale[s + 4] >> 4) << 6);
      bytes[s + 4] = uint8_t(p.min[s] | (p.min[s + 4] >> 4) << 6);
      bytes[s + 8] = uint8_t((p.scale[s + 4] & 15) | (p.min[s + 4] & 15) << 4);
    }
  }
};

/// Scales of 6 bits, to which 32 was added, in two planes.
template <class LowPlane, class HighPlane>
struct SixBits {
  using Low = LowPlane;
  using High = HighPlane;
  static constexpr int low = -32, high = 31;
  template <int kRuns>
  static void get(const uint8_t* block, Parts& p) {
    uint8_t scale[kRuns];
    Codes<Low, High>::template get<kRuns>(block, scale);
    for (int s = 0; s < kRuns; ++s) p.scale[s] = int8_t(scale[s] - 32);
  }
  template <int kRuns>
  static void put(const Parts& p, uint8_t* block) {
    uint8_t scale[kRuns];
    for (int s = 0; s < kRuns; ++s) scale[s] = uint8_t(p.scale[s] + 32);
    Codes<Low, High>::template put<kRuns>(scale, block);
  }
};

/// What a block of the type has: levels, elements that share a scale, and whether a minimum is subtracted or, which is
/// the same with the other sign, added. A format adds its Block, its `Code` and, for blocks of 256, its `Integers`: all
/// that kernels know of it (backend/cpu/quant).
enum class Minimum { none, subtracted, added };
template <DType kType, class L, int kRunLength, Minimum kMinimum = Minimum::none>
struct Format {
  using Level = L;
  static constexpr DType type = kType;
  static constexpr int kBlock = info_of(kType).block, kRun = kRunLength, kRuns = kBlock / kRun;
  static constexpr Minimum minimum = kMinimum;
};

// ---- blocks of 32 ----

struct Q4_0 : Format<DType::q4_0, Uniform<-8, 7>, 32> {
  struct Block {
    F16 d;
    uint8_t low[16];
  };
  using Code = Nibbles<Block>;
};

struct Q4_1 : Format<DType::q4_1, Uniform<0, 15>, 32, Minimum::added> {
  struct Block {
    F16 d, dmin;
    uint8_t low[16];
  };
  using Code = Nibbles<Block>;
};

struct Q5_0 : Format<DType::q5_0, Uniform<-16, 15>, 32> {
  struct Block {
    F16 d;
    uint8_t high[4], low[16];
  };
  using Code = FiveBits<Block>;
};

struct Q5_1 : Format<DType::q5_1, Uniform<0, 31>, 32, Minimum::added> {
  struct Block {
    F16 d, dmin;
    uint8_t high[4], low[16];
  };
  using Code = FiveBits<Block>;
};

/// Levels with their sign, which are read as codes from 0 on. -128 is read, but not written: what multiplies bytes may
/// not expect it.
struct Q8_0 : Format<DType::q8_0, Uniform<-127, 127, 128>, 32> {
  struct Block {
    F16 d;
    uint8_t level[32];
  };
  using Code = Codes<Plane<offsetof(Block, level), 8, 32, 0, 128>>;
};

struct IQ4_NL : Format<DType::iq4_nl, Table<kNonlinear>, 32> {
  struct Block {
    F16 d;
    uint8_t low[16];
  };
  using Code = Nibbles<Block>;
};

struct MXFP4 : Format<DType::mxfp4, Table<kE2M1>, 32> {
  struct Block {
    uint8_t exponent;  // d is 2^(exponent - 128)
    uint8_t low[16];
  };
  using Code = Nibbles<Block>;
};

// ---- blocks of 256 ----

struct Q2_K : Format<DType::q2_k, Uniform<0, 3>, 16, Minimum::subtracted> {
  struct Block {
    uint8_t scales[16], low[64];
    F16 d, dmin;
  };
  using Code = Codes<Plane<offsetof(Block, low), 2, 32>>;
  using Integers = NibblePairs<offsetof(Block, scales)>;
};

struct Q3_K : Format<DType::q3_k, Uniform<-4, 3>, 16> {
  struct Block {
    uint8_t high[32], low[64], scales_low[8], scales_high[4];
    F16 d;
  };
  using Code = Codes<Plane<offsetof(Block, low), 2, 32>, Plane<offsetof(Block, high), 1, 32, 2>>;
  using Integers = SixBits<Plane<offsetof(Block, scales_low), 4, 8>, Plane<offsetof(Block, scales_high), 2, 4, 4>>;
};

struct Q4_K : Format<DType::q4_k, Uniform<0, 15>, 32, Minimum::subtracted> {
  struct Block {
    F16 d, dmin;
    uint8_t scales[12], low[128];
  };
  using Code = Codes<Plane<offsetof(Block, low), 4, 32>>;
  using Integers = SixBitPairs<offsetof(Block, scales)>;
};

struct Q5_K : Format<DType::q5_k, Uniform<0, 31>, 32, Minimum::subtracted> {
  struct Block {
    F16 d, dmin;
    uint8_t scales[12], high[32], low[128];
  };
  using Code = Codes<Plane<offsetof(Block, low), 4, 32>, Plane<offsetof(Block, high), 1, 32, 4>>;
  using Integers = SixBitPairs<offsetof(Block, scales)>;
};

struct Q6_K : Format<DType::q6_k, Uniform<-32, 31>, 16> {
  struct Block {
    uint8_t low[128], high[64], scales[16];
    F16 d;
  };
  using Code = Codes<Plane<offsetof(Block, low), 4, 64>, Plane<offsetof(Block, high), 2, 32, 4>>;
  using Integers = SignedBytes<offsetof(Block, scales)>;
};

struct IQ4_XS : Format<DType::iq4_xs, Table<kNonlinear>, 32> {
  struct Block {
    F16 d;
    uint8_t scales_high[2], scales_low[4], low[128];
  };
  using Code = Codes<Plane<offsetof(Block, low), 4, 16>>;
  using Integers = SixBits<Plane<offsetof(Block, scales_low), 4, 1>, Plane<offsetof(Block, scales_high), 2, 1, 4>>;
};

// ---- of all formats ----

/// Byte of a block where d is, or its exponent.
template <class Block>
constexpr size_t scale_at() {
  if constexpr (requires(Block b) { b.exponent; })
    return offsetof(Block, exponent);
  else
    return offsetof(Block, d);
}

/// Reads what a block has beside d and dmin, and writes it.
template <class F>
[[gnu::always_inline]] inline void get_codes(const typename F::Block& b, Parts& p) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&b);
  if constexpr (F::kRuns > 1) F::Integers::template get<F::kRuns>(bytes, p);
  F::Code::template get<F::kBlock>(bytes, p.code);
}
template <class F>
void put_codes(const Parts& p, typename F::Block& b) {
  auto* bytes = reinterpret_cast<uint8_t*>(&b);
  if constexpr (F::kRuns > 1) F::Integers::template put<F::kRuns>(p, bytes);
  F::Code::template put<F::kBlock>(p.code, bytes);
}

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
