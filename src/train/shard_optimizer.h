// The optimizer's work and memory, divided among ranks (ZeRO-1, Rajbhandari et al. 2020): each updates some tensors,
// and keeps what the optimizer remembers of them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "toy/train/trainer.h"

namespace toy {

/// A rank for each of trained_tensors(spec): the largest tensors first, each to the rank that has the least.
std::vector<int> sharing_owners(const ModelSpec& spec, const TrainerOptions& options);
/// The rank that updates each of them. Empty where one rank, or with averages of the weights or local steps every rank,
/// updates all.
std::vector<int> owners_of(const ModelSpec& spec, const TrainerOptions& options);
/// Which of them this rank updates.
std::vector<bool> owned(const ModelSpec& spec, const TrainerOptions& options);

/// Of the moments that all ranks together keep: its name, type, the rank that has it, and its name there. With local
/// steps, ranks above 0 have all of them under the same names, and weights of their own.
struct OwnedMoment {
  std::string name;
  TensorType type;
  int rank = 0;
  std::string local = name;
  bool weight = false;
};
/// Sorted by name.
std::vector<OwnedMoment> owned_moments(const ModelSpec& spec, const TrainerOptions& options);

}  // namespace toy
