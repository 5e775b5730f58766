#include "toy/train/fine_tune.h"
#include "toy/base/shell_word.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "toy/base/atomic_file.h"
#include "toy/base/run_files.h"
#include "toy/hf/peft.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/score_head.h"
#include "train/config.h"
#include "train/dataset.h"
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
    ordered_json j{{"name", name()}, {"base", base_}};
    if (preference) j.update(json_of(*preference));
    if (o_.policy) j.update(json_of(*o_.policy));
    if (const auto& contrastive = o_.trainer.contrastive) {
      j.update(json_of(*contrastive));
      j.update(json_of(*o_.data.pairs));
    }
    if (o_.data.labels) j.update(json_of(*o_.data.labels));
    if (o_.lora)
      j.update(json_of(*o_.lora));
    else
      j.update(ordered_json{{"train", o_.roles.train}, {"freeze", o_.roles.freeze}});
    return j;
  }
  std::vector<std::pair<const char*, std::string>> reads() const override { return {{"--model", o_.init}}; }
  bool may_be_replaced() const override { return false; }
  bool adapts() const override { return o_.lora.has_value(); }
  void look_at(const Dataset& data) override { classes_ = data.classes(); }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    ModelSpec spec = Loaded::spec(tokenizer);
    if (o_.data.labels || o_.data.pairs) spec.mask_head = false;  // it learns nothing of them
    if (o_.data.labels) {
      const ScoreHead before =
          std::exchange(spec.score, score_head(spec, classes_, embedding_rule(opened().metadata())));
      makes_head_ = before != spec.score;
    }
    if (o_.lora) {
      spec.adapters = {lora_adapter(spec, *o_.lora)};
      spec.roles.train = {kAdapters};
      if (o_.data.labels) spec.adapters[0].head = true, spec.roles.train.push_back(kScoreHead);
      return spec;
    }
    check_patterns("train", o_.roles.train, spec);
    check_patterns("freeze", o_.roles.freeze, spec);
    spec.roles = o_.roles;
    check(!trained_tensors(spec).empty(), "freeze: nothing would be trained; freeze fewer tensors");
    return spec;
  }
  Weights::DTypeOf held(const ModelSpec& spec) const override { return held_types(opened(), in_file(spec)); }
  Model model(const ModelSpec& spec, const Device& device) override {
    Model model = Loaded::model(in_file(spec), device);
    if (makes_head_) add_score_head(model, spec.score, o_.seed);
    if (o_.lora) add_adapter_weights(model, o_.seed);
    return model;
  }

 private:
  // The recipe.
  const char* name() const {
    if (o_.trainer.contrastive) return "contrastive";
    if (o_.data.labels) return "classify";
    if (o_.policy) return "grpo";
    return o_.trainer.preference ? "dpo" : o_.lora ? "lora" : "full-finetune";
  }
  bool can_extend() const override { return name() == std::string_view("full-finetune"); }
  // Without what the file lacks.
  ModelSpec in_file(ModelSpec spec) const {
    if (makes_head_) spec.score = {};
    return spec;
  }
  const FineTuneOptions& o_;
  const ordered_json base_;
  std::vector<std::string> classes_;
  bool makes_head_ = false;
};

// The same adapter for PEFT, where transformers has the model; and what llama.cpp needs instead.
void add_peft(const FineTuneOptions& o, const Device& device, TrainResult& r) {
  Model model = load_model(o.init, device);
  load_adapter(model, r.model_path);
  const AdapterSpec& adapter = model.spec.adapters[0];
  if (const std::string unknown = unknown_to_llama_cpp(model.spec, adapter); !unknown.empty())
    r.remarks.push_back(unknown + (can_be_merged(model.spec, adapter)
                                       ? fmt::format("; for it, make one model: toy merge {} --lora {} --out FILE",
                                                     shell_quoted(o.init), shell_quoted(r.out))
                                       : ""));
  const std::filesystem::path folder = std::filesystem::path(r.out) / runs::kPeftFolder;
  remove_leftovers(folder.string());  // of a process that was killed while it wrote
  try {
    hf::save_peft(model, 0, folder.string());
    r.peft_path = folder.string();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    std::error_code none;  // of an earlier adapter here
    for (const char* name : runs::kPeftFiles) std::filesystem::remove(folder / name, none);
    r.remarks.push_back(fmt::format("not written for PEFT: {}", e.what()));
  }
}

// How many tokens of a text are learned from.
void settle_tokens(const FineTuneOptions& o, const ModelSpec& spec, const EmbeddingRule& rule, int64_t& tokens) {
  const int64_t most = rule.max_tokens > 0 ? std::min(rule.max_tokens, spec.context) : spec.context;
  check(tokens <= spec.context, "text-tokens is {}; {} was made for {} positions", tokens, o.init, spec.context);
  if (tokens == 0) tokens = most;
}

// Vectors are learned as they will be made.
void take_embedding_rule(FineTuneOptions& o) {
  const gguf::File file = gguf::File::open(runs::model_path(o.init));
  const ModelSpec spec = spec_from_gguf(file);
  const EmbeddingRule rule = embedding_rule(file.metadata());
  check(!spec.vision.there(), "{}: it reads pictures, and no text", o.init);
  if (o.data.labels) {
    check(!o.lora || !spec.score.there(),
          "{}: it has a head already (cls.output), and an adapter brings its own; train all weights, or give the model "
          "without a head",
          o.init);
    o.trainer.classes = pooling_of_scores(score_head(spec, {"a", "b"}, rule), spec);
    o.data.labels->classes = spec.score.names;
    return settle_tokens(o, spec, rule, o.data.labels->text_tokens);
  }
  check(!spec.score.there(), "{}: it {} texts, and has no vectors to train; give a model of embeddings", o.init,
        spec.score.classifies() ? "classifies" : "ranks");
  check(rule.pooling == "mean" || rule.pooling == "cls" || rule.pooling == "last",
        "{}: its file does not say how the vectors of tokens become an embedding; give a model of embeddings, such as "
        "all-MiniLM-L6-v2",
        o.init);
  o.trainer.contrastive->pooling = pooling_of(rule.pooling);
  settle_tokens(o, spec, rule, o.data.pairs->text_tokens);
}

// LoRA+ is a learning rate by name. Those that the user gives come after it and override it. The loss says which rows
// there are.
FineTuneOptions settled(FineTuneOptions o) {
  if (o.trainer.contrastive || o.data.labels)
    take_embedding_rule(o);
  else
    check(!spec_from_gguf(gguf::File::open(runs::model_path(o.init))).mask_head,
          "{}: it fills in masks and continues no text; use toy train warm-start, classify or contrastive", o.init);
  if (const auto& p = o.trainer.preference)
    o.data.preferences = takes_pairs(p->loss) ? Preferences::pairs : Preferences::rated;
  auto& rates = o.trainer.optimizer.lr_for;
  if (o.lora && o.lora->lr_ratio != 1) rates.insert(rates.begin(), {"*.lora_b", o.lora->lr_ratio});
  return o;
}

}  // namespace

TrainResult train_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer) {
  const FineTuneOptions all = settled(options);
  FineTune source(all);
  TrainResult r = run_recipe(all, source, device, observer);
  if (all.lora && !r.model_path.empty()) add_peft(all, device, r);
  return r;
}

RunEstimate estimate_fine_tune(const FineTuneOptions& options, Device& device, TrainObserver& observer) {
  const FineTuneOptions all = settled(options);
  FineTune source(all);
  return estimate_recipe(all, source, device, observer);
}

}  // namespace toy
