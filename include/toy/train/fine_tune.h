// Fine-tuning: weights of a GGUF trained on, all of them, some, or only an adapter beside them.
#pragma once

#include <optional>

#include "toy/models/adapter.h"
#include "toy/train/warm_start.h"

namespace toy {

/// What the recipes are told, besides what a warm start is.
struct FineTuneOptions : WarmStartOptions {
  Roles roles;                           ///< which tensors of the model are trained; not with an adapter
  std::optional<LoraOptions> lora = {};  ///< train an adapter of this kind; the model stays as it is
};

/// As train_warm_start(). What is trained is held in f32, and all else as the file has it. With `lora` the result is
/// `<out>/adapter.gguf`, of the kind that llama.cpp reads, and TrainResult::peft_path the same for PEFT. A run that
/// leaves tensors as they are can be resumed only with the file that it began with. Throws Error{bad_input} naming the
/// nearest tensor for a pattern that none fits.
TrainResult train_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy
