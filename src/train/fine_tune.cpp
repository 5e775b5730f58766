#include "toy/train/fine_tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "toy/base/glob.h"
#include "train/loaded.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAdapters = "*.lora_[abm]";

void check_patterns(const char* option, const std::vector<std::string>& patterns, const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const TensorSpec& t : tensors_of(spec)) names.push_back(t.name);
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& n) { return matches(pattern, n); })) continue;
    const std::string near = nearest(pattern, names);
    fail("{}: no tensor's name fits '{}'{}; toy describe lists them", option, pattern,
         near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
}

class FineTune final : public Loaded {
 public:
  explicit FineTune(const FineTuneOptions& o) : Loaded(o), o_(o), base_(content_of(o.init)) {}

  ordered_json config() const override {
    ordered_json j{{"name", o_.lora ? "lora" : "full-finetune"}, {"base", base_}};
    if (o_.lora)
      j.update(ordered_json{{"rank", o_.lora->rank},
                            {"alpha", o_.lora->alpha},
                            {"rslora", o_.lora->rslora},
                            {"lora_dropout", o_.lora->dropout},
                            {"targets", o_.lora->targets},
                            {"dora", o_.lora->dora},
                            {"pissa", o_.lora->pissa}});
    else
      j.update(ordered_json{{"train", o_.roles.train}, {"freeze", o_.roles.freeze}});
    return j;
  }
  bool adapts() const override { return o_.lora.has_value(); }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    ModelSpec spec = Loaded::spec(tokenizer);
    if (o_.lora) {
      spec.adapters = {lora_adapter(spec, *o_.lora)};
      if (o_.lora->pissa) spec.adapters.push_back(principal_part(spec.adapters[0]));
      spec.roles.train = {kAdapters};
      return spec;
    }
    check_patterns("train", o_.roles.train, spec);
    check_patterns("freeze", o_.roles.freeze, spec);
    spec.roles = o_.roles;
    check(!trained_tensors(spec).empty(), "freeze: nothing would be trained; leave some tensors out");
    return spec;
  }
  Weights::DTypeOf held(const ModelSpec& spec) const override { return held_types(opened(), spec); }
  Model model(const ModelSpec& spec, const Device& device) override {
    Model model = Loaded::model(spec, device);
    if (o_.lora && o_.lora->pissa)
      add_principal_weights(model, o_.seed);
    else if (o_.lora)
      add_adapter_weights(model, o_.seed);
    return model;
  }

 private:
  const FineTuneOptions& o_;
  const ordered_json base_;
};

// With LoRA+'s factor before those of the user, of which the last one counts.
FineTuneOptions with_rates(FineTuneOptions o) {
  auto& lr_for = o.trainer.optimizer.lr_for;
  if (o.lora && o.lora->b_lr != 1) lr_for.insert(lr_for.begin(), {"*.lora_b", o.lora->b_lr});
  return o;
}

}  // namespace

TrainResult train_fine_tune(const FineTuneOptions& given, Device& device, TrainObserver& observer) {
  const FineTuneOptions options = with_rates(given);
  FineTune source(options);
  return run_recipe(options, source, device, observer);
}

RunEstimate estimate_fine_tune(const FineTuneOptions& given, Device& device, TrainObserver& observer) {
  const FineTuneOptions options = with_rates(given);
  FineTune source(options);
  return estimate_recipe(options, source, device, observer);
}

}  // namespace toy
