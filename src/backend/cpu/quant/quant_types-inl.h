// How blocks become panels: vectors in which a 32-bit lane holds 4 neighbouring k of one output, unsigned or signed
// bytes. What lies where follows from the format (tensor/quant_formats.h), for all instruction sets.
//
// `Isa` has vectors V of 32-bit lanes, one lane for each output, and F of floats. `Rows` are the same block of kLanes
// outputs: an object that unpack() reads word by word. It reads all bytes of a block once, always in the same order,
// because repacked weights have that order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/fetching.h"
#include "backend/cpu/quant/quant_rows.h"

namespace toy::cpu {
namespace {

// Bytes of a block that make no 32-bit word, and where they are: its scale.
template <class T>
constexpr size_t kOdd = T::kBytes % 4;
template <class T>
constexpr size_t kOddAt = kOdd<T> == 0 ? 0 : T::kScaleAt;

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

// Blocks of the outputs of one vector, repacked: what unpack() reads of each, in its order, so that the machine finds a
// stream that it fetches by itself, unless that `is_fetched`.
template <class Isa, class T>
struct StreamRows {
  static constexpr size_t kAhead = 8192;  // two pages
  const uint8_t* p;
  bool is_fetched = fetching_ends_with_pages();

  [[gnu::always_inline]] inline void fetch() const {  // GCC drops calls of functions that only fetch
    if (is_fetched) __builtin_prefetch(p + kAhead, 0, 2);
  }
  inline typename Isa::V word(size_t) {
    const auto v = Isa::load(p);
    fetch();
    p += 4 * Isa::kLanes;
    return v;
  }
  inline void load(size_t at, typename Isa::V (&v)[4]) {
    for (size_t i = 0; i < 4; ++i) v[i] = word(at + 4 * i);
  }
  inline typename Isa::V odd() {
    const auto* from = p;
    fetch();
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

// The scales and minimums of the runs of a chunk of k for the lanes of one vector.
template <class Isa>
struct Scales {
  static constexpr size_t kMost = std::max<size_t>(kMostChunk / 32, 256 / 16);
  typename Isa::F d[kMost], m[kMost];
};

// All that is unpacked of them.
template <class Isa>
struct Panel : Scales<Isa> {
  typename Isa::V q[kMostChunk / 4];  // 4 k each
  inline void put(int, int at, typename Isa::V v) { q[at] = v; }
};

// Field number r of a plane of each byte, moved to where it is in a code.
template <class Isa, class Plane>
[[gnu::always_inline]] inline typename Isa::V field(typename Isa::V v, int r) {
  v = Isa::and_(Isa::shift_words(v, Plane::bits * r), Isa::set1(0x01010101u * Plane::mask));
  return Plane::shift == 0 ? v : Isa::shift_words_left(v, Plane::shift);
}
// The lowest one.
template <class Isa, class Plane>
[[gnu::always_inline]] inline typename Isa::V first_field(typename Isa::V v) {
  static_assert(Plane::shift == 0);
  return Isa::and_(v, Isa::set1(0x01010101u * Plane::mask));
}

template <class Isa>
inline void look_up(const int8_t (&values)[16], typename Isa::V* q, int n) {
  for (int i = 0; i < n; ++i) q[i] = Isa::from_signed(Isa::look_up(values, q[i]));
}

// Bit j of `high` is the fifth bit of element j.
template <class Isa>
inline void add_fifth_bits(typename Isa::V high, typename Isa::V* q) {
  for (int i = 0; i < 8; ++i) {
    const auto four = Isa::and_(Isa::shift_words(high, 4 * i), Isa::set1(15));
    q[i] =
        Isa::or_(q[i], Isa::and_(Isa::multiply(four, Isa::set1(0x02040810)), Isa::set1(0x10101010)));  // one in a byte
  }
}

// 32 codes of a plane in which neighbours are in one vector: eight vectors.
template <class Isa, class Plane, class Rows>
inline void codes_of_32(Rows& r, size_t at, typename Isa::V* q) {
  static_assert(Plane::bits == 8 || (Plane::bits == 4 && Plane::stride == 16));
  typename Isa::V v[4];
  for (int part = 0; part < Plane::bits / 4; ++part) {
    r.load(at + 16 * size_t(part), v);
    for (int i = 0; i < 4; ++i)
      if constexpr (Plane::bits == 8)
        q[4 * part + i] = Isa::from_signed(v[i]);
      else
        q[i] = first_field<Isa, Plane>(v[i]), q[i + 4] = field<Isa, Plane>(v[i], 1);
  }
}

// The words of a block of 256 beside its codes, each read once, and what they say.
template <class Isa, class T>
struct Head {
  using V = typename Isa::V;
  using Code = typename T::Format::Code;
  static constexpr size_t kCodes = 256 / 8 * T::kBits;  // bytes, from here on:
  static constexpr size_t kCodesAt = std::min(Code::Low::at, Code::High::at);
  static constexpr size_t kWords = (T::kBytes - kCodes) / 4;

  V words[kWords], odd;

  static constexpr size_t place(size_t at) { return at < kCodesAt ? at : at - kCodes; }
  template <class Rows>
  [[gnu::always_inline]] explicit inline Head(Rows& r) {
    if constexpr (kOdd<T> != 0) odd = r.odd();
    read<0>(r);
  }
  // Words from number i on.
  template <size_t i, class Rows>
  [[gnu::always_inline]] inline void read(Rows& r) {
    constexpr size_t kAt = 4 * i < kCodesAt ? 4 * i : 4 * i + kCodes, kEnd = kAt < kCodesAt ? kCodesAt : T::kBytes;
    if constexpr (i < kWords && kAt + 16 <= kEnd) {
      V v[4];
      r.load(kAt, v);
      words[i] = v[0], words[i + 1] = v[1], words[i + 2] = v[2], words[i + 3] = v[3];
      read<i + 4>(r);
    } else if constexpr (i < kWords) {
      words[i] = r.word(kAt);
      read<i + 1>(r);
    }
  }
  // Bits [bit, bit + bits) of byte `at` of the block, and of those behind it.
  [[gnu::always_inline]] inline V get(size_t at, int bit, int bits) const {
    const int from = 8 * int(place(at) % 4) + bit;
    const V v = words[place(at) / 4];
    return Isa::and_(from == 0 ? v : Isa::shift_words(v, from), Isa::set1((1u << bits) - 1));
  }
  template <class Plane>
  [[gnu::always_inline]] inline V get(int s) const {
    constexpr int kOfStride = Plane::stride * Plane::fields;
    const V v = get(Plane::at + size_t(s / kOfStride * Plane::stride + s % Plane::stride),
                    Plane::bits * (s % kOfStride / Plane::stride), Plane::bits);
    return Plane::shift == 0 ? v : Isa::shift_words_left(v, Plane::shift);
  }
  [[gnu::always_inline]] inline typename Isa::F half(size_t at) const {
    if constexpr (kOdd<T> != 0) return Isa::half_low(odd);
    const V v = words[place(at) / 4];
    return place(at) % 4 == 0 ? Isa::half_low(v) : Isa::half_high(v);
  }

  // The integers of the runs: scales, and minimums where there are some.
  using Runs = V[T::kBlock / T::kRun];
  template <size_t kAt>
  [[gnu::always_inline]] inline void integers(quant::SignedBytes<kAt>, Runs& scale, Runs&) const {
    for (int s = 0; s < 16; ++s) scale[s] = Isa::signed_byte(words[place(kAt + size_t(s)) / 4], s % 4);
  }
  template <size_t kAt>
  [[gnu::always_inline]] inline void integers(quant::NibblePairs<kAt>, Runs& scale, Runs& min) const {
    for (int s = 0; s < 16; ++s) scale[s] = get(kAt + size_t(s), 0, 4), min[s] = get(kAt + size_t(s), 4, 4);
  }
  template <size_t kAt>
  [[gnu::always_inline]] inline void integers(quant::SixBitPairs<kAt>, Runs& scale, Runs& min) const {
    const V &first = words[place(kAt) / 4], &second = words[place(kAt) / 4 + 1];
    for (int s = 0; s < 4; ++s) {
      scale[s] = get(kAt + size_t(s), 0, 6);
      min[s] = get(kAt + 4 + size_t(s), 0, 6);
      const V low = get(kAt + 8 + size_t(s), 0, 4), high = get(kAt + 8 + size_t(s), 4, 4);
      scale[s + 4] = Isa::or_(low, Isa::and_(Isa::shift_words(first, 8 * s + 2), Isa::set1(48)));
      min[s + 4] = Isa::or_(high, Isa::and_(Isa::shift_words(second, 8 * s + 2), Isa::set1(48)));
    }
  }
  template <class Low, class High>
  [[gnu::always_inline]] inline void integers(quant::SixBits<Low, High>, Runs& scale, Runs&) const {
    for (int s = 0; s < int(256 / T::kRun); ++s)
      scale[s] = Isa::sub(Isa::or_(get<Low>(s), get<High>(s)), Isa::set1(32));
  }
};

// A format as panels see it: unpack() for an instruction set.
template <class F>
struct Unpacked : BlockFormat<F> {
  using T = Unpacked;
  using Code = typename F::Code;
  using Low = typename Code::Low;
  using High = typename Code::High;

  // A block of 32: block b of the panel.
  template <class Isa, class Rows>
  requires(!HasRuns<BlockFormat<F>>) static inline void unpack(Rows& r, size_t b, Panel<Isa>& to) {
    if constexpr (T::kMin) {
      static_assert(T::kMinAt == T::kScaleAt + 2);
      const auto dm = r.word(T::kScaleAt);
      to.d[b] = Isa::half_low(dm), to.m[b] = Isa::half_high(dm);
    }
    codes_of_32<Isa, Low>(r, Low::at, to.q + 8 * b);
    if constexpr (Code::has_high) add_fifth_bits<Isa>(r.word(High::at), to.q + 8 * b);
    if constexpr (T::kTable) look_up<Isa>(F::Level::table, to.q + 8 * b, 8);
    if constexpr (!T::kMin) to.d[b] = T::kExponent ? Isa::power_of_two(r.odd()) : Isa::half_low(r.odd());
  }

  // A block of 256, of runs with integer scales. The scales of `to` are set first. Then come vectors of 4 k each, those
  // of a run in order; of the runs that are mixed, the first is number 0. Its place is 0: a chunk has one block.
  template <class Isa, class Rows, class To>
  requires HasRuns<BlockFormat<F>>
  static inline void unpack(Rows& r, size_t, To& to) {
    {
      const Head<Isa, T> head(r);
      typename Head<Isa, T>::Runs scale, min;
      head.integers(typename F::Integers(), scale, min);
      const auto d = head.half(T::kScaleAt);
      for (size_t s = 0; s < std::size(scale); ++s) to.d[s] = Isa::mul(d, Isa::to_float(scale[s]));
      if constexpr (T::kMin) {
        const auto m = Isa::negative(head.half(T::kMinAt));
        for (size_t s = 0; s < std::size(min); ++s) to.m[s] = Isa::mul(m, Isa::to_float(min[s]));
      }
    }
    if constexpr (Low::stride == 16)
      put_neighbours<Isa>(r, to);
    else if constexpr (Code::has_high && High::stride < Low::stride)
      put_with_high<Isa>(r, to);
    else
      put_all<Isa>(r, to);
  }

 private:
  static constexpr int kGroup = Low::stride * Low::fields;  // elements of kStride bytes

  // Both fields of a byte are in the same run.
  template <class Isa, class Rows, class To>
  static inline void put_neighbours(Rows& r, To& to) {
    static_assert(!Code::has_high && T::kRun == 32);
#pragma GCC unroll 1
    for (int s = 0; s < 8; ++s) {
      typename Isa::V q[8];
      codes_of_32<Isa, Low>(r, Low::at + 16 * size_t(s), q);
      if constexpr (T::kTable) look_up<Isa>(F::Level::table, q, 8);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) to.put(0, 8 * s + i, q[i]);
    }
  }

  // High bits, if there are any, of all elements in the same 32 bytes.
  template <class Isa, class Rows, class To>
  static inline void put_all(Rows& r, To& to) {
    static_assert(Low::stride == 32 && !T::kTable);
    typename Isa::V high[8], v[4];
    if constexpr (Code::has_high) {
      static_assert(High::stride == 32 && High::bits == 1);
      for (int h = 0; h < 2; ++h) {
        r.load(High::at + 16 * size_t(h), v);
        for (int i = 0; i < 4; ++i) high[4 * h + i] = v[i];
      }
    }
    const auto half = [&](int n, int h) __attribute__((always_inline)) {
      r.load(Low::at + size_t(32 * n + 16 * h), v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const auto put = [&](int k, typename Isa::V q) __attribute__((always_inline)) {
          if constexpr (Code::has_high) q = Isa::or_(q, field<Isa, High>(high[4 * h + i], n * Low::fields + k));
          to.put(k, n * (kGroup / 4) + 8 * k + 4 * h + i, q);
        };
        put(0, first_field<Isa, Low>(v[i]));
#pragma GCC unroll 4
        for (int k = 1; k < Low::fields; ++k) put(k, field<Isa, Low>(v[i], k));
      }
    };
#pragma GCC unroll 1
    for (int n = 0; n < 256 / kGroup; ++n)
      if constexpr (T::kRun == 32) {  // both halves are in a run, whose steps are counted
        half(n, 0), half(n, 1);
      } else {
#pragma GCC unroll 1
        for (int h = 0; h < 2; ++h) half(n, h);
      }
  }

  // High bits of several vectors of low ones in one.
  template <class Isa, class Rows, class To>
  static inline void put_with_high(Rows& r, To& to) {
    static_assert(Low::fields == 2 && High::stride == 32 && High::stride * High::fields == kGroup && T::kRun == 16);
    constexpr int kLows = Low::stride / High::stride;
#pragma GCC unroll 1
    for (int n = 0; n < 256 / kGroup; ++n)
#pragma GCC unroll 1
      for (int h = 0; h < 2; ++h) {
        typename Isa::V high[4], v[4];
        r.load(High::at + size_t(High::stride * n + 16 * h), high);
#pragma GCC unroll 2
        for (int low = 0; low < kLows; ++low) {
          r.load(Low::at + size_t(Low::stride * n + High::stride * low + 16 * h), v);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const int at = n * (kGroup / 4) + High::stride / 4 * low + 4 * h + i;
            to.put(0, at, Isa::or_(first_field<Isa, Low>(v[i]), field<Isa, High>(high[i], low)));
            to.put(1, at + Low::stride / 4, Isa::or_(field<Isa, Low>(v[i], 1), field<Isa, High>(high[i], kLows + low)));
          }
        }
      }
  }
};

}  // namespace
}  // namespace toy::cpu
