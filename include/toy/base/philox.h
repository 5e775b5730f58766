// Counter-based random numbers (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a function of (key, counter): no hidden state, so results do not depend on threads or on order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace toy {

/// Four 32-bit words from a 64-bit key and a 128-bit counter.
inline std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_lo, uint64_t counter_hi = 0) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t c[4] = {uint32_t(counter_lo), uint32_t(counter_lo >> 32), uint32_t(counter_hi), uint32_t(counter_hi >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * c[0], p1 = uint64_t(0xCD9E8D57u) * c[2];
    const uint32_t n0 = uint32_t(p1 >> 32) ^ c[1] ^ k0, n2 = uint32_t(p0 >> 32) ^ c[3] ^ k1;
    c[1] = uint32_t(p1), c[3] = uint32_t(p0), c[0] = n0, c[2] = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c[0], c[1], c[2], c[3]};
}

/// FNV-1a, to turn a tensor's or a stream's name into part of a key.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t h = 14695981039346656037ull;
  for (const char ch : name) h = (h ^ uint8_t(ch)) * 1099511628211ull;
  return h;
}

/// A stream of numbers keyed by (seed, name); the i-th draw is a pure function of the key and i.
class Philox {
 public:
  /// Streams of different seeds or names are independent.
  explicit Philox(uint64_t seed, std::string_view name = {}) : key_(seed), stream_(hash_name(name)) {}

  /// The i-th 32-bit word of the stream.
  uint32_t word(uint64_t i) const { return philox4x32(key_, i / 4, stream_)[i % 4]; }
  /// Uniform in [0, 1), 53 bits, from words 2i and 2i+1.
  double uniform(uint64_t i) const {
    const auto w = philox4x32(key_, i / 2, stream_);
    return unit(w[i % 2 * 2], w[i % 2 * 2 + 1]);
  }
  /// Standard normal (Box-Muller on uniforms 2i, 2i+1).
  double normal(uint64_t i) const {
    const auto w = philox4x32(key_, i, stream_);  // has both
    const double u = 1.0 - unit(w[0], w[1]), v = unit(w[2], w[3]);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }
  /// Uniform integer in [0, n), n >= 1, without bias worth measuring (64-bit multiply).
  uint64_t below(uint64_t i, uint64_t n) const {
    const auto w = philox4x32(key_, i / 2, stream_);
    const uint64_t bits = (uint64_t(w[i % 2 * 2]) << 32) | w[i % 2 * 2 + 1];
    __extension__ using Wide = unsigned __int128;
    return uint64_t((Wide(bits) * n) >> 64);
  }

 private:
  // 53 bits in [0, 1).
  static double unit(uint32_t high, uint32_t low) { return double(((uint64_t(high) << 32) | low) >> 11) * 0x1p-53; }
  uint64_t key_, stream_;
};

}  // namespace toy
