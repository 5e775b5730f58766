// The loss on the validation texts of a run.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "toy/train/trainer.h"
#include "train/dataset.h"

namespace toy {

/// Mean losses; see docs/data.md for several texts.
struct ValidationResult {
  double loss = 0;  ///< nats a token
  double nats_per_byte = 0;
  bool whole = true;           ///< all of it was read
  std::vector<double> losses;  ///< of each text
};
/// Reads at most `limit` tokens of each text (0: all). Nothing where `stop`, asked before every batch and at the end,
/// says true.
std::optional<ValidationResult> validate(Trainer& trainer, const std::vector<ValidationText>& texts, int64_t limit,
                                         const std::function<bool()>& stop = {});

}  // namespace toy
