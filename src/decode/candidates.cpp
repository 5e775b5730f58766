#include "decode/candidates.h"

#include <cmath>
#include <utility>

namespace toy {
namespace {

bool better(const Candidates::Item& a, const Candidates::Item& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

constexpr size_t kMany = 4096;  // fewer are put in order

// The id that reach() finds for a share `uniform` of n items, item(i) with the weight exp(logit - top) each, whose sum
// in their order is `sum`. None is put in order but the few that are about as likely as that one. No id where it is so
// near to another that the order of sums decides, once in millions of draws.
template <class ItemAt>
std::optional<int32_t> draw_quickly(size_t n, const ItemAt& item, std::span<const double> weights, double top,
                                    double sum, double uniform) {
  // Buckets of logits, the largest first. Equal ones are in the same bucket; what is below e^-40 has one.
  constexpr size_t kBuckets = 4096;
  constexpr double kDepth = 40, kUnit = double(kBuckets) / kDepth;
  const auto bucket = [&](size_t i) { return size_t(std::min((top - item(i).logit) * kUnit, double(kBuckets - 1))); };
  std::vector<double> totals(kBuckets);
  for (size_t i = 0; i < n; ++i) totals[bucket(i)] += weights[i];
  const double mass = uniform * sum;
  double before = 0;
  size_t at = 0;
  while (at + 1 < kBuckets && before + totals[at] <= mass) before += totals[at++];
  std::vector<std::pair<Candidates::Item, double>> here;
  for (size_t i = 0; i < n; ++i)
    if (bucket(i) == at) here.emplace_back(item(i), weights[i]);
  std::sort(here.begin(), here.end(), [](const auto& a, const auto& b) { return better(a.first, b.first); });
  // In another order, each term of a sum adds at most a rounding to it.
  const double unsure = 8 * 0x1p-53 * double(n) * sum;
  bool first = at == 0;
  for (const auto& [its, weight] : here) {
    const double after = before + weight;
    if (after > mass) {
      const bool sure = (first || mass - before > unsure) && after - mass > unsure;
      return sure ? std::optional(its.id) : std::nullopt;
    }
    before = after, first = false;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int32_t> draw_of_logits(std::span<const float> logits, double uniform, std::optional<RowSums>& sums) {
  if (logits.size() < kMany) return {};
  std::vector<double> weights(logits.size());
  sums = RowSums(logits, weights);
  const auto item = [&](size_t i) { return Candidates::Item{logits[i], int32_t(i)}; };
  return draw_quickly(logits.size(), item, weights, sums->top, sums->sum, uniform);
}

Candidates::Candidates(std::span<const float> logits, std::span<const uint64_t> allowed) {
  const auto add = [&](size_t i) {
    if (std::isfinite(logits[i])) items_.push_back({logits[i], int32_t(i)});
  };
  if (allowed.empty()) {
    items_.reserve(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) add(i);
    return;
  }
  for (size_t w = 0; w < allowed.size(); ++w)
    for (uint64_t word = allowed[w]; word != 0; word &= word - 1)
      if (const size_t i = 64 * w + size_t(__builtin_ctzll(word)); i < logits.size()) add(i);
}

Candidates::Candidates(std::span<const int32_t> ids, std::span<const float> logits) : by_id_(false) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (std::isfinite(logits[i])) items_.push_back({logits[i], ids[i]});
  sorted_ = items_.size();
}

const Candidates::Item& Candidates::best_item() const {
  if (sorted_ > 0) return items_[0];
  return *std::min_element(items_.begin(), items_.end(), better);
}

double Candidates::largest() const { return best_item().logit; }

double Candidates::total() const {
  const double top = largest();
  double sum = 0;
  for (const Item& item : items_) sum += std::exp(item.logit - top);
  return sum;
}

void Candidates::sort_first(size_t n) {
  by_id_ = false;
  n = std::min(std::max<size_t>({n, 2 * sorted_, 32}), items_.size());
  const auto begin = items_.begin() + int64_t(sorted_), end = items_.begin() + int64_t(n);
  if (end != items_.end()) std::nth_element(begin, end, items_.end(), better);
  std::sort(begin, end, better);
  sorted_ = n;
}

void Candidates::keep_first(size_t n) {
  n = std::min(n, items_.size());
  if (n > 0 && n <= size_t(kLikeliest)) {
    at(n - 1);
  } else if (n > sorted_ && n < items_.size()) {
    std::nth_element(items_.begin() + int64_t(sorted_), items_.begin() + int64_t(n), items_.end(), better);
    by_id_ = false;
  }
  keep_front(n);
}

void Candidates::keep_front(size_t n) {
  items_.resize(n);
  sorted_ = std::min(sorted_, n);
}

void Candidates::drop_first(size_t n) {
  at(n - 1);
  items_.erase(items_.begin(), items_.begin() + int64_t(n));
  sorted_ -= n;
}

size_t Candidates::reach(double mass, bool beyond) {
  constexpr size_t kWalked = 256;
  const double top = largest();
  double sum = 0;
  const auto weight = [&](size_t i) { return std::exp(items_[i].logit - top); };
  const auto enough = [&](double total) { return beyond ? total > mass : total >= mass; };
  size_t begin = 0, end = items_.size();
  while (begin < end && (begin < kWalked || begin < sorted_)) {
    at(begin);
    if (enough(sum += weight(begin++))) return begin;
  }
  // The better half of the rest, or the other one: halves add up to one pass.
  while (end - begin > 32) {
    const size_t middle = begin + (end - begin) / 2;
    const auto first = items_.begin();
    std::nth_element(first + int64_t(begin), first + int64_t(middle), first + int64_t(end), better);
    double half = 0;
    for (size_t i = begin; i < middle; ++i) half += weight(i);
    if (enough(sum + half)) {
      end = middle;
    } else {
      sum += half;
      begin = middle;
    }
  }
  std::sort(items_.begin() + int64_t(begin), items_.begin() + int64_t(end), better);
  while (begin < end)
    if (enough(sum += weight(begin++))) break;
  return begin;
}

int32_t Candidates::draw(double uniform) {
  if (items_.size() >= kMany) {
    const double top = largest();
    double sum = 0;  // total()
    std::vector<double> weights;
    weights.reserve(items_.size());
    for (const Item& item : items_) sum += weights.emplace_back(std::exp(item.logit - top));
    const auto item = [&](size_t i) -> const Item& { return items_[i]; };
    if (const auto id = draw_quickly(items_.size(), item, weights, top, sum, uniform)) return *id;
  }
  return items_[reach(uniform * total(), true) - 1].id;
}

}  // namespace toy
