#include "toy/image/class_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace toy {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float z : logits) sum += std::exp(double(z) - most);
  return most + std::log(sum);
}

}  // namespace

double class_nll(std::span<const float> logits, int32_t label) {
  return log_sum_exp(logits) - double(logits[size_t(label)]);
}

int64_t class_rank(std::span<const float> logits, int32_t label) {
  int64_t rank = 0;
  const float own = logits[size_t(label)];
  for (size_t i = 0; i < logits.size(); ++i)
    rank += logits[i] > own || (logits[i] == own && i < size_t(label)) || std::isnan(own);
  return rank;
}

JudgedClass judge_class(int64_t item, int32_t label, std::span<const float> logits) {
  return {item, label, classes_in_order(logits).front(), class_nll(logits, label), class_rank(logits, label)};
}

std::vector<double> class_probabilities(std::span<const float> logits) {
  const double all = log_sum_exp(logits);
  std::vector<double> p;
  for (const float z : logits) p.push_back(std::exp(double(z) - all));
  return p;
}

std::vector<int32_t> classes_in_order(std::span<const float> logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  return order;
}

}  // namespace toy
