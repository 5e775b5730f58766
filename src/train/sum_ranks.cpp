#include "train/sum_ranks.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "backend/flush_denormals.h"
#include "toy/base/options.h"
#include "train/gradient_sums.h"

namespace toy {
namespace {

constexpr int64_t kBlock = 4096;  // values that are added while they are in a core's cache

// parts[0] becomes the sum of all, element by element: add(a, b) is that of two.
template <class T, class Add>
void add_parts(std::span<T* const> parts, int64_t n, const Add& add_two) {
  const SumTree tree{int64_t(parts.size())};
  const size_t leaves = size_t(1) << tree.depth;
  const auto add = [&](T* to, const T* from) {
    for (int64_t i = 0; i < n; ++i) to[i] = add_two(to[i], from[i]);
  };
  for (size_t first = 0; first < parts.size(); first += leaves) {
    for (size_t width = 1; width < leaves; width *= 2)
      for (size_t i = 0; i < leaves; i += 2 * width) add(parts[first + i], parts[first + i + width]);
    if (first > 0) add(parts[0], parts[first]);
  }
}

// `mine` becomes the sum of what all ranks have of it; parts[rank] is `mine`.
template <class T>
void add_chunk(ThreadPool& pool, std::span<std::byte* const> parts, std::byte* mine, size_t bytes) {
  const auto n = int64_t(bytes / sizeof(T)), blocks = (n + kBlock - 1) / kBlock;
  pool.run([&](int thread) {
    const FlushDenormals as_kernels_do;  // which add the same numbers where fewer ranks do
    const Range range = part(blocks, thread, pool.size());
    std::vector<T*> at(parts.size());
    for (int64_t b = range.begin; b < range.end; ++b) {
      const int64_t first = b * kBlock, count = std::min(kBlock, n - first);
      for (size_t r = 0; r < parts.size(); ++r) at[r] = reinterpret_cast<T*>(parts[r]) + first;
      add_parts<T>(at, count, std::plus<T>());
      T* to = reinterpret_cast<T*>(mine) + first;
      if (to != at[0]) std::copy_n(at[0], count, to);
    }
  });
}

template <class T>
T rounded(T v) {
  return T(to_float(to_bf16(float(v))));
}

// Calls f(first, count) for all blocks of n values, each on one thread.
template <class F>
void for_blocks(ThreadPool& pool, size_t n, const F& f) {
  const auto blocks = (int64_t(n) + kBlock - 1) / kBlock;
  pool.run([&](int thread) {
    const FlushDenormals as_kernels_do;
    const Range range = part(blocks, thread, pool.size());
    for (int64_t b = range.begin; b < range.end; ++b) f(b * kBlock, std::min(kBlock, int64_t(n) - b * kBlock));
  });
}

// parts[i] from `first` on, as T, are added; the sum goes to `to`.
template <class T>
void add_packed(std::span<const BF16* const> parts, int64_t first, int64_t count, BF16* to) {
  std::vector<T> values(parts.size() * size_t(kBlock));
  std::vector<T*> at;
  for (const BF16* p : parts) {
    at.push_back(values.data() + at.size() * size_t(kBlock));
    for (int64_t i = 0; i < count; ++i) at.back()[i] = T(to_float(p[first + i]));
  }
  add_parts<T>(at, count, [](T a, T b) { return rounded(a + b); });
  for (int64_t i = 0; i < count; ++i) to[first + i] = to_bf16(float(at[0][i]));
}

// At least `count` values; what they were is lost.
template <class T>
std::span<T> values_in(Buffer& buffer, size_t count) {
  if (buffer.bytes() < count * sizeof(T)) buffer = Buffer(), buffer = Buffer(count * sizeof(T));
  return {reinterpret_cast<T*>(buffer.data()), count};
}

template <class T>
void sum_in_bf16(Communicator& ranks, ThreadPool& pool, SumBuffers& buffers, std::span<T> values) {
  const auto n = size_t(ranks.size()), rank = size_t(ranks.rank());
  const SumCut cut(ranks.size(), sizeof(BF16), values.size());
  const size_t most = cut.most, largest = cut.largest;
  const std::span<BF16> packed = values_in<BF16>(buffers.packed, most);
  // Of the others; of this rank it is in `packed`.
  const std::span<BF16> received = values_in<BF16>(buffers.received, (n - 1) * largest);
  for (size_t begin = 0; begin < values.size(); begin += most) {
    const std::span<T> bucket = values.subspan(begin, std::min(most, values.size() - begin));
    const std::vector<size_t> bounds = cut.bounds(bucket.size());
    std::vector<std::byte*> to;
    std::vector<const BF16*> parts;
    BF16* const mine = packed.data() + bounds[rank] / sizeof(BF16);
    for (size_t r = 0; r < n; ++r) {
      BF16* const at = r == rank ? mine : received.data() + (r - (r > rank)) * largest;
      parts.push_back(at), to.push_back(reinterpret_cast<std::byte*>(at));
    }
    for_blocks(pool, bucket.size(), [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) packed[size_t(i)] = to_bf16(float(bucket[size_t(i)]));
    });
    const auto all = std::as_writable_bytes(std::span(packed).first(bucket.size()));
    ranks.exchange(all, bounds, to);
    for_blocks(pool, (bounds[rank + 1] - bounds[rank]) / sizeof(BF16),
               [&](int64_t first, int64_t count) { add_packed<T>(parts, first, count, mine); });
    ranks.all_gather(all, bounds);
    for_blocks(pool, bucket.size(), [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) bucket[size_t(i)] = T(to_float(packed[size_t(i)]));
    });
  }
}

template <class T>
std::span<T> values_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <class T>
void round_values(ThreadPool& pool, std::span<T> values) {
  for_blocks(pool, values.size(), [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) values[size_t(i)] = rounded(values[size_t(i)]);
  });
}

}  // namespace

SumCut::SumCut(int ranks, size_t size, size_t values)
    : most(std::min(kSumBucket / size / kBlock * kBlock, values)),
      largest((most / kBlock / size_t(ranks) + 1) * kBlock),
      ranks_(size_t(ranks)),
      size_(size) {}

std::vector<size_t> SumCut::bounds(size_t count) const {
  const size_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<size_t> list;
  for (size_t r = 0; r <= ranks_; ++r) list.push_back(std::min(count, blocks * r / ranks_ * kBlock) * size_);
  return list;
}

void round_to_bf16(ThreadPool& pool, DType type, std::span<std::byte> values) {
  if (type == DType::f64)
    round_values(pool, values_of<double>(values));
  else
    round_values(pool, values_of<float>(values));
}

size_t sum_buffer_bytes(int ranks, DType type, size_t values, bool in_bf16) {
  const size_t size = in_bf16 ? sizeof(BF16) : size_of(type);
  const SumCut cut(ranks, size, values);
  return (size_t(ranks - 1) * cut.largest + (in_bf16 ? cut.most : 0)) * size;
}

void reserve_sums(SumBuffers& buffers, int ranks, DType type, size_t values, bool in_bf16) {
  const size_t size = in_bf16 ? sizeof(BF16) : size_of(type);
  const SumCut cut(ranks, size, values);
  values_in<std::byte>(buffers.received, size_t(ranks - 1) * cut.largest * size);
  if (in_bf16) values_in<std::byte>(buffers.packed, cut.most * size);
}

bool can_share(int64_t shards, int64_t ranks) {
  return ranks == 1 || (ranks <= shards && shards % ranks == 0 && std::has_single_bit(uint64_t(shards / ranks)));
}

std::string sharing_ranks(int64_t shards) {
  std::vector<std::string> list;
  for (int64_t n = 1; n <= shards; ++n)
    if (can_share(shards, n)) list.push_back(std::to_string(n));
  return alternatives(list);
}

void sum_ranks(Communicator& ranks, ThreadPool& pool, SumBuffers& buffers, DType type, std::span<std::byte> values,
               bool in_bf16) {
  if (in_bf16 && type == DType::f64) return sum_in_bf16(ranks, pool, buffers, values_of<double>(values));
  if (in_bf16) return sum_in_bf16(ranks, pool, buffers, values_of<float>(values));
  const auto n = size_t(ranks.size()), rank = size_t(ranks.rank());
  const SumCut cut(ranks.size(), size_of(type), values.size() / size_of(type));
  const size_t most = cut.most * size_of(type), largest = cut.largest * size_of(type);
  const std::span<std::byte> received = values_in<std::byte>(buffers.received, (n - 1) * largest);
  for (size_t at = 0; at < values.size(); at += most) {
    const std::span<std::byte> bucket = values.subspan(at, std::min(most, values.size() - at));
    const std::vector<size_t> bounds = cut.bounds(bucket.size() / size_of(type));
    const size_t size = bounds[rank + 1] - bounds[rank];
    std::vector<std::byte*> parts;
    for (size_t r = 0; r < n; ++r)
      parts.push_back(r == rank ? bucket.data() + bounds[rank] : received.data() + (r - (r > rank)) * largest);
    ranks.exchange(bucket, bounds, parts);
    if (type == DType::f64)
      add_chunk<double>(pool, parts, parts[rank], size);
    else
      add_chunk<float>(pool, parts, parts[rank], size);
    ranks.all_gather(bucket, bounds);
  }
}

}  // namespace toy
