// What the logits of a classifier say of one picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace toy {

/// Tables of classes by classes are made for so many classes at most.
inline constexpr int64_t kMostClassesInTables = 100;

/// -log of the probability of a class, in nats, computed in f64.
double class_nll(std::span<const float> logits, int32_t label);
/// How many classes are likelier: 0 where `label` is the likeliest. Of equal ones the earlier class comes first.
int64_t class_rank(std::span<const float> logits, int32_t label);
/// Probabilities of all classes.
std::vector<double> class_probabilities(std::span<const float> logits);
/// Classes, the likeliest first.
std::vector<int32_t> classes_in_order(std::span<const float> logits);

/// Of an item whose class is known: what the logits say.
struct JudgedClass {
  int64_t item = 0;
  int32_t label = 0, chosen = 0;  ///< its class, and the likeliest
  double nats = 0;                ///< class_nll()
  int64_t rank = 0;               ///< class_rank()
  bool right() const { return rank == 0; }
  bool among_5() const { return rank < 5; }
};
/// Judges one.
JudgedClass judge_class(int64_t item, int32_t label, std::span<const float> logits);

/// Adds an item to those with the largest losses, the largest first, of which there are kMostWorst at most. `T` has
/// `nats`.
inline constexpr size_t kMostWorst = 10;
/// @copydoc kMostWorst
template <class T>
void keep_worst(const T& judged, std::vector<T>& worst) {
  auto at = worst.begin();
  while (at != worst.end() && !(at->nats < judged.nats)) ++at;
  worst.insert(at, judged);
  if (worst.size() > kMostWorst) worst.pop_back();
}

}  // namespace toy
