#include "toy/train/warm_start.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "toy/models/embedding_rule.h"
#include "train/loaded.h"
#include "train/masked_dataset.h"
#include "train/publish.h"

namespace toy {

// Only the path: a resumed run takes its weights from the checkpoint, and --init may be the file that the run replaces.
nlohmann::ordered_json Loaded::config() const { return {{"name", "warm-start"}, {"init", o_.init}}; }

std::shared_ptr<const Tokenizer> Loaded::tokenizer(const Dataset&) {
  if (!o_.trainer.contrastive && !o_.trainer.classes && !o_.data.masks) require_causal(spec_from_gguf(file_));
  auto t = load_tokenizer(file_);
  check(t != nullptr, "{}: the file has no tokenizer, so it cannot read a text; give a model that has one", o_.init);
  return t;
}

ModelSpec Loaded::spec(const Tokenizer&) {
  ModelSpec spec = spec_from_gguf(file_);
  if (spec.positions == PositionKind::learned) {
    spec.require_positions(o_.trainer.tokens, "tokens");
    check(o_.context == 0 || o_.context == spec.context,
          "context is {}: {} has learned {} positions, neither more nor fewer; leave --context out", o_.context,
          o_.init, spec.context);
  }
  if (o_.context > 0) spec.context = o_.context;
  if (!o_.name.empty()) spec.name = o_.name;
  check(o_.trainer.tokens <= spec.context, "tokens is {}, and {} was made for {} positions; use --tokens {} or less{}",
        o_.trainer.tokens, o_.init, spec.context, spec.context,
        can_extend() ? fmt::format(", or --context {} to extend it", o_.trainer.tokens) : "");
  return spec;
}

Model Loaded::model(const ModelSpec& spec, const Device& device) {
  Model model = load_model(o_.init, device, spec);
  if (const auto w = first_beyond(model, std::numeric_limits<float>::max()))
    fail("{}: tensor '{}' holds {}, and nothing can be learned from there; give weights that are finite", o_.init,
         w->tensor, w->value);
  for (std::string& w : model.warnings) w = fmt::format("{}: {}", o_.init, w);
  return model;
}

// A model that fills in masks goes on with them.
static WarmStartOptions settled(WarmStartOptions o) {
  if (spec_from_gguf(gguf::File::open(runs::model_path(o.init))).mask_head)
    settle_masks(o, o.masks);
  else
    check(o.masks.fraction == MaskOptions().fraction, "mask-fraction: {} fills in no masks; leave it out", o.init);
  return o;
}

TrainResult train_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer) {
  const WarmStartOptions all = settled(options);
  Loaded source(all);
  return run_recipe(all, source, device, observer);
}

RunEstimate estimate_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer) {
  const WarmStartOptions all = settled(options);
  Loaded source(all);
  return estimate_recipe(all, source, device, observer);
}

}  // namespace toy
