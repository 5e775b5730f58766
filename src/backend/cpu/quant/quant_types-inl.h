// How each block type becomes panels: vectors in which a 32-bit lane holds 4 neighbouring k of one output, unsigned or
// signed bytes. The layouts are those of GGUF; a type states where its bits lie, once for all instruction sets.
//
// `Isa` has vectors V of 32-bit lanes, one lane for each output, and F of floats. `Rows` are the same block of kLanes
// outputs: an object that unpack() reads word by word. It reads all bytes of a block once, always in the same order,
// because repacked weights have that order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/quant/quant_rows.h"

namespace toy::cpu {
namespace {

// Blocks of 256, of parts with integer scales.
template <class T>
concept HasParts = requires {
  T::kPart;
};

// Bytes of a block that make no 32-bit word, and where they are: a scale, at its begin unless the type says otherwise.
template <class T>
constexpr size_t kOdd = T::kBytes % 4;
template <class T>
constexpr size_t kOddAt = [] {
  if constexpr (requires { T::kOddAt; }) return T::kOddAt;
  return size_t(0);
}();

// The same block of several outputs, as it lies in a file.
template <class Isa, class T>
struct BlockRows {
  const uint8_t* p;         // of output 0
  size_t stride;            // bytes from an output to the next
  typename Isa::V offsets;  // bytes from p to each output's

  // 16 bytes from `at` on: vector i has bytes 4i to 4i+3.
  inline void load(size_t at, typename Isa::V (&v)[4]) const { Isa::load_rows(p + at, stride, v); }
  // 4 bytes from `at` on, which must lie in the block.
  inline typename Isa::V word(size_t at) const { return Isa::gather(p + at, offsets); }
  // The odd bytes, below bits that mean nothing.
  inline typename Isa::V odd() const {
    if constexpr (kOddAt<T> == 0) return word(0);
    return Isa::shift_words(word(kOddAt<T> - 2), 16);
  }
  void advance() { p += T::kBytes; }  // to the next block
};

// Blocks of the outputs of one vector, repacked: what unpack() reads of each, in its order, so that the machine
// finds a stream that it fetches by itself.
template <class Isa, class T>
struct StreamRows {
  const uint8_t* p;

  inline typename Isa::V word(size_t) {
    const auto v = Isa::load(p);
    p += 4 * Isa::kLanes;
    return v;
  }
  inline void load(size_t at, typename Isa::V (&v)[4]) {
    for (size_t i = 0; i < 4; ++i) v[i] = word(at + 4 * i);
  }
  inline typename Isa::V odd() {
    const auto* from = p;
    p += kOdd<T> * Isa::kLanes;
    if constexpr (kOdd<T> == 1) return Isa::load_bytes(from);
    return Isa::load_halves(from);
  }
  void advance() {}  // reading has moved it
};

// Writes such a stream while unpack() reads blocks as they lie in a file.
template <class Isa, class T>
struct StreamWriter {
  BlockRows<Isa, T> from;
  uint8_t* to;

  inline typename Isa::V word(size_t at) {
    const auto v = from.word(at);
    Isa::store_words(v, to);
    to += 4 * Isa::kLanes;
    return v;
  }
  inline void load(size_t at, typename Isa::V (&v)[4]) {
    from.load(at, v);
    for (size_t i = 0; i < 4; ++i, to += 4 * Isa::kLanes) Isa::store_words(v[i], to);
  }
  inline typename Isa::V odd() {
    for (size_t o = 0; o < Isa::kLanes; ++o, to += kOdd<T>)
      std::memcpy(to, from.p + o * from.stride + kOddAt<T>, kOdd<T>);
    return from.odd();
  }
};

// The scales of a chunk of k for the lanes of one vector.
template <class Isa>
struct Scales {
  typename Isa::F d[kMostChunk / 32];  // of blocks of 32; [0] of a block of 256
  typename Isa::F m[kMostChunk / 32];  // minimums, or [0] their scale
  typename Isa::V scale[16];           // integer scales of the parts of a block of 256
  typename Isa::V min[8];              // their integer minimums, two parts in a lane
};

// All that is unpacked of them.
template <class Isa>
struct Panel : Scales<Isa> {
  typename Isa::V q[kMostChunk / 4];  // 4 k each
  inline void put(int, int at, typename Isa::V v) { q[at] = v; }
};

// N of quant-formats: the values of IQ4; M: those of MXFP4.
alignas(16) constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <class Isa>
inline typename Isa::V low_nibbles(typename Isa::V v) {
  return Isa::and_(v, Isa::set1(0x0f0f0f0f));
}
template <class Isa>
inline typename Isa::V high_nibbles(typename Isa::V v) {
  return Isa::and_(Isa::shift_words(v, 4), Isa::set1(0x0f0f0f0f));
}
// Of each byte: one bit, or two, from place `from` to place `to`.
template <class Isa>
inline typename Isa::V bit_to(typename Isa::V v, int from, int to) {
  return Isa::shift_words_left(Isa::and_(Isa::shift_words(v, from), Isa::set1(0x01010101)), to);
}
template <class Isa>
inline typename Isa::V pair_to(typename Isa::V v, int from, int to) {
  return Isa::shift_words_left(Isa::and_(Isa::shift_words(v, from), Isa::set1(0x03030303)), to);
}

// 32 nibbles in 16 bytes, the first 16 low, the others high: steps 0 to 3 and 4 to 7.
template <class Isa, class Rows>
inline void nibbles(Rows& r, size_t at, typename Isa::V* q) {
  typename Isa::V v[4];
  r.load(at, v);
  for (int i = 0; i < 4; ++i) q[i] = low_nibbles<Isa>(v[i]), q[i + 4] = high_nibbles<Isa>(v[i]);
}

// ---- blocks of 32: one scale, perhaps one minimum. kSigned: bytes are signed, else kOffset was added to
// them. kMost: the largest magnitude of a byte. kLight: there is little to unpack.

struct Q4_0 {
  static constexpr size_t kBytes = 18;
  static constexpr bool kSigned = false, kMin = false, kLight = true;
  static constexpr int kOffset = 8, kMost = 15;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    nibbles<Isa>(r, 2, to.q + 8 * b);
    to.d[b] = Isa::half_low(r.odd());
  }
};

struct Q4_1 {
  static constexpr size_t kBytes = 20;
  static constexpr bool kSigned = false, kMin = true, kLight = true;
  static constexpr int kOffset = 0, kMost = 15;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    const auto dm = r.word(0);
    nibbles<Isa>(r, 4, to.q + 8 * b);
    to.d[b] = Isa::half_low(dm), to.m[b] = Isa::half_high(dm);
  }
};

// Bit j of `high` is the fifth bit of element j.
template <class Isa>
inline void add_fifth_bits(typename Isa::V high, typename Isa::V* q) {
  for (int i = 0; i < 8; ++i) {
    const auto four = Isa::and_(Isa::shift_words(high, 4 * i), Isa::set1(15));
    q[i] =
        Isa::or_(q[i], Isa::and_(Isa::multiply(four, Isa::set1(0x02040810)), Isa::set1(0x10101010)));  // one in a byte
  }
}

struct Q5_0 {
  static constexpr size_t kBytes = 22;
  static constexpr bool kSigned = false, kMin = false, kLight = false;
  static constexpr int kOffset = 16, kMost = 31;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    nibbles<Isa>(r, 6, to.q + 8 * b);
    add_fifth_bits<Isa>(r.word(2), to.q + 8 * b);
    to.d[b] = Isa::half_low(r.odd());
  }
};

struct Q5_1 {
  static constexpr size_t kBytes = 24;
  static constexpr bool kSigned = false, kMin = true, kLight = false;
  static constexpr int kOffset = 0, kMost = 31;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    nibbles<Isa>(r, 8, to.q + 8 * b);
    add_fifth_bits<Isa>(r.word(4), to.q + 8 * b);
    const auto dm = r.word(0);
    to.d[b] = Isa::half_low(dm), to.m[b] = Isa::half_high(dm);
  }
};

struct Q8_0 {
  static constexpr size_t kBytes = 34;
  static constexpr bool kSigned = true, kMin = false, kLight = true;
  static constexpr int kOffset = 0, kMost = 128;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    typename Isa::V v[4];
    for (int half = 0; half < 2; ++half) {
      r.load(2 + 16 * size_t(half), v);
      for (int i = 0; i < 4; ++i) to.q[8 * b + size_t(4 * half + i)] = Isa::from_signed(v[i]);
    }
    to.d[b] = Isa::half_low(r.odd());
  }
};

template <class Isa>
inline void look_up(const int8_t (&values)[16], typename Isa::V* q, int n) {
  for (int i = 0; i < n; ++i) q[i] = Isa::from_signed(Isa::look_up(values, q[i]));
}

struct Iq4Nl {
  static constexpr size_t kBytes = 18;
  static constexpr bool kSigned = true, kMin = false, kLight = false;
  static constexpr int kOffset = 0, kMost = 127;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    nibbles<Isa>(r, 2, to.q + 8 * b);
    look_up<Isa>(kIq4Values, to.q + 8 * b, 8);
    to.d[b] = Isa::half_low(r.odd());
  }
};

struct Mxfp4 {
  static constexpr size_t kBytes = 17;
  static constexpr bool kSigned = true, kMin = false, kLight = false;
  static constexpr int kOffset = 0, kMost = 12;
  template <class Isa, class Rows>
  static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    nibbles<Isa>(r, 1, to.q + 8 * b);
    look_up<Isa>(kMxfp4Values, to.q + 8 * b, 8);
    to.d[b] = Isa::power_of_two(r.odd());
  }
};

// ---- blocks of 256: parts of kPart elements with integer scales. unpack() sets the
// scales of `to` first. Then it puts vectors of 4 k each, those of a part in order; of the parts that it mixes, the
// first is number 0.

// Scales and minimums of 6 bits, in the three words after d and dmin.
template <class Isa, class Rows>
inline void six_bit_scales(Rows& r, Scales<Isa>& to) {
  using V = typename Isa::V;
  V v[4];
  r.load(0, v);
  to.d[0] = Isa::half_low(v[0]), to.m[0] = Isa::half_high(v[0]);
  V mins[8];
  for (int s = 0; s < 4; ++s) {
    to.scale[s] = Isa::and_(Isa::shift_words(v[1], 8 * s), Isa::set1(63));
    mins[s] = Isa::and_(Isa::shift_words(v[2], 8 * s), Isa::set1(63));
    const V low = Isa::and_(Isa::shift_words(v[3], 8 * s), Isa::set1(15)),
            high = Isa::and_(Isa::shift_words(v[3], 8 * s + 4), Isa::set1(15));
    to.scale[s + 4] = Isa::or_(low, Isa::and_(Isa::shift_words(v[1], 8 * s + 2), Isa::set1(48)));
    mins[s + 4] = Isa::or_(high, Isa::and_(Isa::shift_words(v[2], 8 * s + 2), Isa::set1(48)));
  }
  for (int p = 0; p < 4; ++p) to.min[p] = Isa::or_(mins[2 * p], Isa::shift_words_left(mins[2 * p + 1], 16));
}

struct Q4_K {
  static constexpr size_t kBytes = 144, kPart = 32;
  static constexpr bool kSigned = false, kMin = true, kLight = true;
  static constexpr int kOffset = 0, kMost = 15;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    six_bit_scales<Isa>(r, to);
#pragma GCC unroll 1
    for (int g = 0; g < 4; ++g)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        typename Isa::V v[4];
        r.load(size_t(16 + 32 * g + 16 * h), v);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          to.put(0, 16 * g + 4 * h + i, low_nibbles<Isa>(v[i]));
          to.put(1, 16 * g + 8 + 4 * h + i, high_nibbles<Isa>(v[i]));
        }
      }
  }
};

struct Q5_K {
  static constexpr size_t kBytes = 176, kPart = 32;
  static constexpr bool kSigned = false, kMin = true, kLight = false;
  static constexpr int kOffset = 0, kMost = 31;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    six_bit_scales<Isa>(r, to);
    typename Isa::V high[8], v[4];
    for (int h = 0; h < 2; ++h) {
      r.load(size_t(16 + 16 * h), v);
      for (int i = 0; i < 4; ++i) high[4 * h + i] = v[i];
    }
#pragma GCC unroll 1
    for (int g = 0; g < 4; ++g)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        r.load(size_t(48 + 32 * g + 16 * h), v);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const auto bits = high[4 * h + i];
          to.put(0, 16 * g + 4 * h + i, Isa::or_(low_nibbles<Isa>(v[i]), bit_to<Isa>(bits, 2 * g, 4)));
          to.put(1, 16 * g + 8 + 4 * h + i, Isa::or_(high_nibbles<Isa>(v[i]), bit_to<Isa>(bits, 2 * g + 1, 4)));
        }
      }
  }
};

struct Q6_K {
  static constexpr size_t kBytes = 210, kOddAt = 208, kPart = 16;
  static constexpr bool kSigned = false, kMin = false, kLight = false;
  static constexpr int kOffset = 32, kMost = 63;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    to.d[0] = Isa::half_low(r.odd());
    typename Isa::V v[4];
    r.load(192, v);
    for (int s = 0; s < 16; ++s) to.scale[s] = Isa::signed_byte(v[s / 4], s % 4);
#pragma GCC unroll 1
    for (int n = 0; n < 2; ++n)
#pragma GCC unroll 1
      for (int h = 0; h < 2; ++h) {  // l from 16 h on
        typename Isa::V high[4];
        r.load(size_t(128 + 32 * n + 16 * h), high);
#pragma GCC unroll 2
        for (int low = 0; low < 2; ++low) {  // r = low and low + 2
          r.load(size_t(64 * n + 32 * low + 16 * h), v);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const int at = 32 * n + 8 * low + 4 * h + i;
            to.put(0, at, Isa::or_(low_nibbles<Isa>(v[i]), pair_to<Isa>(high[i], 2 * low, 4)));
            to.put(1, at + 16, Isa::or_(high_nibbles<Isa>(v[i]), pair_to<Isa>(high[i], 2 * low + 4, 4)));
          }
        }
      }
  }
};

struct Q2_K {
  static constexpr size_t kBytes = 84, kPart = 16;
  static constexpr bool kSigned = false, kMin = true, kLight = false;
  static constexpr int kOffset = 0, kMost = 3;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    using V = typename Isa::V;
    const V dm = r.word(80);
    to.d[0] = Isa::half_low(dm), to.m[0] = Isa::half_high(dm);
    V v[4];
    r.load(0, v);
    for (int s = 0; s < 16; ++s) to.scale[s] = Isa::and_(Isa::shift_words(v[s / 4], 8 * (s % 4)), Isa::set1(15));
    for (int p = 0; p < 8; ++p) {
      const V first = Isa::and_(Isa::shift_words(v[p / 2], 16 * (p % 2) + 4), Isa::set1(15)),
              second = Isa::and_(Isa::shift_words(v[p / 2], 16 * (p % 2) + 12), Isa::set1(15));
      to.min[p] = Isa::or_(first, Isa::shift_words_left(second, 16));
    }
#pragma GCC unroll 1
    for (int n = 0; n < 2; ++n)
#pragma GCC unroll 1
      for (int h = 0; h < 2; ++h) {
        r.load(size_t(16 + 32 * n + 16 * h), v);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) to.put(k, 32 * n + 8 * k + 4 * h + i, pair_to<Isa>(v[i], 2 * k, 0));
      }
  }
};

struct Q3_K {
  static constexpr size_t kBytes = 110, kOddAt = 108, kPart = 16;
  static constexpr bool kSigned = false, kMin = false, kLight = false;
  static constexpr int kOffset = 4, kMost = 7;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    using V = typename Isa::V;
    to.d[0] = Isa::half_low(r.odd());
    const V sc[3] = {r.word(96), r.word(100), r.word(104)};
    for (int s = 0; s < 16; ++s) {
      const V low = Isa::and_(Isa::shift_words(sc[s % 8 / 4], 8 * (s % 4) + 4 * (s / 8)), Isa::set1(15)),
              high = Isa::and_(Isa::shift_words(sc[2], 8 * (s % 4) + 2 * (s / 4)), Isa::set1(3));
      to.scale[s] = Isa::sub(Isa::or_(low, Isa::shift_words_left(high, 4)), Isa::set1(32));
    }
    V high[8], v[4];
    for (int h = 0; h < 2; ++h) {
      r.load(size_t(16 * h), v);
      for (int i = 0; i < 4; ++i) high[4 * h + i] = v[i];
    }
#pragma GCC unroll 1
    for (int n = 0; n < 2; ++n)
#pragma GCC unroll 1
      for (int h = 0; h < 2; ++h) {
        r.load(size_t(32 + 32 * n + 16 * h), v);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k)
            to.put(k, 32 * n + 8 * k + 4 * h + i,
                   Isa::or_(pair_to<Isa>(v[i], 2 * k, 0), bit_to<Isa>(high[4 * h + i], 4 * n + k, 2)));
      }
  }
};

struct Iq4Xs {
  static constexpr size_t kBytes = 136, kPart = 32;
  static constexpr bool kSigned = true, kMin = false, kLight = false;
  static constexpr int kOffset = 0, kMost = 127;
  template <class Isa, class Rows, class To>
  static inline void unpack(Rows& r, To& to) {
    using V = typename Isa::V;
    const V first = r.word(0), low = r.word(4);
    to.d[0] = Isa::half_low(first);
    for (int s = 0; s < 8; ++s) {
      const V l = Isa::and_(Isa::shift_words(low, 4 * s), Isa::set1(15)),
              h = Isa::and_(Isa::shift_words(first, 16 + 2 * s), Isa::set1(3));
      to.scale[s] = Isa::sub(Isa::or_(l, Isa::shift_words_left(h, 4)), Isa::set1(32));
    }
#pragma GCC unroll 1
    for (int s = 0; s < 8; ++s) {
      V q[8];
      nibbles<Isa>(r, size_t(8 + 16 * s), q);
      look_up<Isa>(kIq4Values, q, 8);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) to.put(0, 8 * s + i, q[i]);
    }
  }
};

}  // namespace
}  // namespace toy::cpu
