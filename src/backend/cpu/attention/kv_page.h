// Pages of a key-value cache: where the keys or values of one kv head lie in a page. Plain code, the same for every
// target.
//
// f32 and f16: keys [P][64], values [64][P]. q8_0: first the scales, of keys [P/32][64], of values [64][P/32], then the
// levels as int8 in the layout of the f32 page. So kernels read a line of levels as they read a line of floats. Only
// kv_append and attention_paged know this order; the bytes are as many as q8_0 takes anywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/attention_tasks.h"
#include "toy/backend/host_kernel.h"

namespace toy::cpu {

/// Elements of a block of q8_0.
inline constexpr int64_t kLevels = info_of(DType::q8_0).block;

/// The widest head that kv_append takes with its queries.
inline constexpr int64_t kWidest = 1024;

/// The elements of f32 and f16 pages.
template <class T>
struct KvPage {
  T* at;
  KvPage(const View& cache, int64_t page, int64_t head, int64_t width)
      : at(cache.as<T>() + (page * cache.shape[1] + head) * width * kKeyTile) {}
};

/// Tells q8_0 pages from others.
struct Q8 {};
template <>
struct KvPage<Q8> {
  F16* scale;
  int8_t* at;
  KvPage(const View& cache, int64_t page, int64_t head, int64_t width) {
    const int64_t count = width * kKeyTile;
    std::byte* memory = cache.as<std::byte>() + bytes_of(DType::q8_0, (page * cache.shape[1] + head) * count);
    scale = reinterpret_cast<F16*>(memory);
    at = reinterpret_cast<int8_t*>(scale + count / kLevels);
  }
};

/// Calls f with a value of the storage type of a cache: float(), F16() or Q8().
template <class F>
void with_cache_type(DType type, const F& f) {
  if (type == DType::f16) return f(F16());
  if (type == DType::q8_0) return f(Q8());
  f(float());
}

/// Can kernels keep keys and values in this type?
inline bool is_cache_type(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::q8_0; }

}  // namespace toy::cpu
