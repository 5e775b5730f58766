#include "train/sum_ranks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "toy/base/options.h"
#include "train/gradient_sums.h"

namespace toy {
namespace {

constexpr size_t kBucket = size_t(25) << 20;  // bytes on their way at once
constexpr int64_t kBlock = 4096;              // values that are added while they are in a core's cache

// parts[0] becomes the sum of all, element by element.
template <class T>
void add_parts(std::span<T* const> parts, int64_t n) {
  const SumTree tree{int64_t(parts.size())};
  const size_t leaves = size_t(1) << tree.depth;
  const auto add = [n](T* to, const T* from) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
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
    const Range range = part(blocks, thread, pool.size());
    std::vector<T*> at(parts.size());
    for (int64_t b = range.begin; b < range.end; ++b) {
      const int64_t first = b * kBlock, count = std::min(kBlock, n - first);
      for (size_t r = 0; r < parts.size(); ++r) at[r] = reinterpret_cast<T*>(parts[r]) + first;
      add_parts<T>(at, count);
      T* to = reinterpret_cast<T*>(mine) + first;
      if (to != at[0]) std::copy_n(at[0], count, to);
    }
  });
}

}  // namespace

bool can_share(int64_t shards, int64_t ranks) {
  return ranks == 1 || (ranks <= shards && shards % ranks == 0 && std::has_single_bit(uint64_t(shards / ranks)));
}

std::string sharing_ranks(int64_t shards) {
  std::vector<std::string> list;
  for (int64_t n = 1; n <= shards; ++n)
    if (can_share(shards, n)) list.push_back(std::to_string(n));
  return alternatives(list);
}

void sum_ranks(Communicator& ranks, ThreadPool& pool, DType type, std::span<std::byte> values) {
  const auto n = size_t(ranks.size()), rank = size_t(ranks.rank());
  const size_t unit = size_t(kBlock) * size_of(type);
  std::vector<std::byte> received(n * ((kBucket / unit + n) / n) * unit);
  for (size_t at = 0; at < values.size(); at += kBucket / unit * unit) {
    const std::span<std::byte> bucket = values.subspan(at, std::min(kBucket / unit * unit, values.size() - at));
    const size_t units = (bucket.size() + unit - 1) / unit;
    std::vector<size_t> bounds;
    for (size_t r = 0; r <= n; ++r) bounds.push_back(std::min(bucket.size(), units * r / n * unit));
    const size_t size = bounds[rank + 1] - bounds[rank];
    std::vector<std::byte*> parts;
    for (size_t r = 0; r < n; ++r)
      parts.push_back(r == rank ? bucket.data() + bounds[rank] : received.data() + r * received.size() / n);
    ranks.exchange(bucket, bounds, parts);
    if (type == DType::f64)
      add_chunk<double>(pool, parts, parts[rank], size);
    else
      add_chunk<float>(pool, parts, parts[rank], size);
    ranks.all_gather(bucket, bounds);
  }
}

}  // namespace toy
