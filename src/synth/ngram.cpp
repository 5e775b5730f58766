#include "toy/synth/ngram.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr int kMaxOrder = 8;  // bytes of a 64-bit key
// Discounts are estimated and may leave [0, count]; inside these bounds every probability is positive.
constexpr double kLeastDiscount = 1e-3;

uint64_t low_bytes(uint64_t key, int bytes) { return bytes >= 8 ? key : key & ((uint64_t(1) << (8 * bytes)) - 1); }

// Chen and Goodman 1999, eq. 26, from the numbers of n-grams seen once, twice, three and four times.
std::array<double, 4> estimate_discounts(const std::array<double, 5>& seen) {
  // Without counts to estimate from (a tiny text, or the lowest orders of a large one): 1/2 is subtracted.
  std::array<double, 4> discounts = {0, 0.5, 0.5, 0.5};
  if (seen[1] == 0 || seen[2] == 0) return discounts;
  const double y = seen[1] / (seen[1] + 2 * seen[2]);
  for (int count = 1; count <= 3; ++count) {
    if (seen[size_t(count)] == 0) continue;
    const double d = count - (count + 1) * y * seen[size_t(count) + 1] / seen[size_t(count)];
    discounts[size_t(count)] = std::clamp(d, kLeastDiscount, count - kLeastDiscount);
  }
  return discounts;
}

}  // namespace

// From the keys of all n-grams, sorted, those that are seen several times several times.
NgramModel::Level NgramModel::build(const std::vector<uint64_t>& keys) {
  Level level;
  std::array<double, 5> seen{};
  for (size_t begin = 0, end; begin < keys.size(); begin = end) {
    end = size_t(std::upper_bound(keys.begin() + int64_t(begin), keys.end(), keys[begin]) - keys.begin());
    const uint64_t context = keys[begin] >> 8;
    if (level.keys.empty() || level.keys.back() != context) {
      level.keys.push_back(context);
      level.contexts.push_back({uint32_t(level.entries.size()), 0, 0, 0});
    }
    level.entries.push_back({uint8_t(keys[begin]), uint32_t(end - begin)});
    level.contexts.back().end = uint32_t(level.entries.size());
    if (end - begin < seen.size()) seen[end - begin] += 1;
  }
  level.discounts = estimate_discounts(seen);
  for (Context& context : level.contexts) {
    for (uint32_t i = context.begin; i < context.end; ++i) {
      context.total += level.entries[i].count;
      context.gamma += level.discount(level.entries[i].count);
    }
    context.gamma /= context.total;
  }
  return level;
}

NgramModel NgramModel::train(std::string_view text, int order) {
  check(order >= 1 && order <= kMaxOrder, "n-gram: order {} is not in 1..{}", order, kMaxOrder);
  check(!text.empty(), "n-gram: the training text is empty");
  check(text.size() < UINT32_MAX, "n-gram: the training text has {} bytes; give less than 4 GiB", text.size());
  order = int(std::min(size_t(order), text.size()));
  std::vector<uint64_t> keys;
  keys.reserve(text.size());
  uint64_t key = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    key = key << 8 | uint8_t(text[i]);
    if (i + 1 >= size_t(order)) keys.push_back(low_bytes(key, order));
  }
  NgramModel model;
  model.levels_.resize(size_t(order));
  for (int n = order; n >= 1; --n) {
    std::sort(keys.begin(), keys.end());
    model.levels_[size_t(n) - 1] = build(keys);
    // Below the highest order an n-gram counts once for each byte seen before it.
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (uint64_t& k : keys) k = low_bytes(k, n - 1);
  }
  return model;
}

double NgramModel::probability(std::string_view context, uint8_t next) const {
  double p = 1.0 / 256;
  uint64_t key = 0;
  for (size_t n = 0; n < levels_.size() && n <= context.size(); ++n) {
    if (n > 0) key |= uint64_t(uint8_t(context[context.size() - n])) << (8 * (n - 1));
    const Level& level = levels_[n];
    const auto at = std::lower_bound(level.keys.begin(), level.keys.end(), key);
    if (at == level.keys.end() || *at != key) break;  // a longer context was not seen either
    const Context& seen = level.contexts[size_t(at - level.keys.begin())];
    const auto begin = level.entries.begin() + seen.begin, end = level.entries.begin() + seen.end;
    const auto entry = std::lower_bound(begin, end, next, [](const Entry& e, uint8_t byte) { return e.byte < byte; });
    p *= seen.gamma;
    if (entry != end && entry->byte == next) p += (entry->count - level.discount(entry->count)) / seen.total;
  }
  return p;
}

double NgramModel::nats_per_byte(std::string_view text) const {
  check(!text.empty(), "n-gram: the text to score is empty");
  double nats = 0;
  for (size_t i = 0; i < text.size(); ++i) nats -= std::log(probability(text.substr(0, i), uint8_t(text[i])));
  return nats / double(text.size());
}

}  // namespace toy
