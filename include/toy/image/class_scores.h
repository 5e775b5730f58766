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

}  // namespace toy
