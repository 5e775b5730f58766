#include "toy/train/fine_tune.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "train/loaded.h"
#include "train/tensor_pattern.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAdapters = "*.lora_[abm]";

void check_patterns(const char* option, const std::vector<std::string>& patterns, const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const TensorSpec& t : tensors_of(spec)) names.push_back(t.name);
  for (const std::string& pattern : patterns) require_match(option, pattern, names);
}

class FineTune final : public Loaded {
 public:
  explicit FineTune(const FineTuneOptions& o) : Loaded(o), o_(o), base_(content_of(o.init)) {
    check(!o.trainer.preference || o.lora, "loss: preferences train an adapter; say which with lora");
  }

  ordered_json config() const override {
    const auto& preference = o_.trainer.preference;
    ordered_json j{{"name", preference ? "dpo" : o_.lora ? "lora" : "full-finetune"}, {"base", base_}};
    if (preference) j.update(ordered_json{{"loss", name_of(preference->loss)}, {"beta", preference->beta}});
    if (o_.lora)
      j.update(ordered_json{{"rank", o_.lora->rank},
                            {"alpha", o_.lora->alpha},
                            {"rslora", o_.lora->rslora},
                            {"dora", o_.lora->dora},
                            {"pissa", o_.lora->pissa},
                            {"lora_dropout", o_.lora->dropout},
                            {"lora_plus", o_.lora->lr_ratio},
                            {"targets", o_.lora->targets}});
    else
      j.update(ordered_json{{"train", o_.roles.train}, {"freeze", o_.roles.freeze}});
    return j;
  }
  bool adapts() const override { return o_.lora.has_value(); }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    ModelSpec spec = Loaded::spec(tokenizer);
    if (o_.lora) {
      spec.adapters = {lora_adapter(spec, *o_.lora)};
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
    if (o_.lora) add_adapter_weights(model, o_.seed);
    return model;
  }

 private:
  const FineTuneOptions& o_;
  const ordered_json base_;
};

// LoRA+ is a learning rate by name. Those that the user gives come after it and override it.
FineTuneOptions with_rates(FineTuneOptions o) {
  auto& rates = o.trainer.optimizer.lr_for;
  if (o.lora && o.lora->lr_ratio != 1) rates.insert(rates.begin(), {"*.lora_b", o.lora->lr_ratio});
  return o;
}

}  // namespace

TrainResult train_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer) {
  const FineTuneOptions all = with_rates(options);
  FineTune source(all);
  return run_recipe(all, source, device, observer);
}

RunEstimate estimate_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer) {
  const FineTuneOptions all = with_rates(options);
  FineTune source(all);
  return estimate_recipe(all, source, device, observer);
}

}  // namespace toy
