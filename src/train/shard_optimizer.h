// The optimizer's work and memory, divided among ranks (ZeRO-1, Rajbhandari et al. 2020): each updates some tensors,
// and keeps what the optimizer remembers of them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "toy/train/trainer.h"

namespace toy {

/// The rank that updates each of trained_tensors(spec): the largest tensors first, each to the rank that has the least.
/// Empty where one rank, or with averages of the weights every rank, updates all.
std::vector<int> owners_of(const ModelSpec& spec, const TrainerOptions& options);
/// Which of them this rank updates.
std::vector<bool> owned(const ModelSpec& spec, const TrainerOptions& options);

/// Of the moments that all ranks together keep: its name, type, and the rank that has it.
struct OwnedMoment {
  std::string name;
  TensorType type;
  int rank = 0;
};
/// Sorted by name.
std::vector<OwnedMoment> owned_moments(const ModelSpec& spec, const TrainerOptions& options);

}  // namespace toy
