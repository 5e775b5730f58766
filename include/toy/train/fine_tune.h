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
  bool full = false;                     ///< of reinforcement learning: train all weights instead
  bool adapter = false;                  ///< of encoders: train an adapter instead of all weights

  /// Those that other recipes lack; see toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Model", kPattern = "PATTERN";
    f({.name = "model",
       .help = "GGUF file, name in `toy list`, or a run, with a tokenizer",
       .group = k,
       .text = "FILE",
       .required = true},
      o.init);
    if (o.policy) f({"full", "Train all weights instead of an adapter", {}, k}, o.full);
    if (o.trainer.contrastive || o.data.labels)
      f({"adapter", "Train an adapter instead of all weights", {}, k}, o.adapter);
    if (o.lora) {
      LoraOptions::fields(*o.lora, f);
    } else {
      f(text_option("train", "Train only matching tensors, such as 'blk.2[0-9].*' (default: all)", k, kPattern),
        o.roles.train);
      f(text_option("freeze", "Leave matching tensors as they are, such as 'token_embd.*'", k, kPattern),
        o.roles.freeze);
    }
    if (o.policy) PolicyOptions::fields(*o.policy, f);
    if (o.trainer.contrastive) ContrastiveOptions::fields(*o.trainer.contrastive, f);
    if (o.data.pairs) PairOptions::fields(*o.data.pairs, f);
    if (o.data.labels) LabelOptions::fields(*o.data.labels, f);
    if (o.trainer.preference) PreferenceOptions::fields(*o.trainer.preference, f);
  }
};

/// As train_warm_start(). What is trained is held in f32, and all else as the file has it. With `lora` the result is
/// `<out>/adapter.gguf`, of the kind that llama.cpp reads, and TrainResult::peft_path the same for PEFT. A run that
/// leaves tensors as they are can be resumed only with the file that it began with. Throws Error{bad_input} naming the
/// nearest tensor for a pattern that none fits.
TrainResult train_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy
