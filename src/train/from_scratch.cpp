#include "toy/train/from_scratch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "toy/base/memory.h"
#include "toy/models/embedding_rule.h"
#include "toy/runs/run.h"
#include "train/dataset.h"
#include "train/masked_dataset.h"
#include "train/run.h"

namespace toy {
namespace {

class Fresh final : public ModelSource {
 public:
  explicit Fresh(const FromScratchOptions& o) : o_(o) { check_limits(o); }
  nlohmann::ordered_json config() const override {
    nlohmann::ordered_json j{{"name", "from-scratch"}, {"size", o_.size}};
    if (!o_.layers.empty()) j["layers"] = o_.layers;
    j["tokenizer"] = o_.tokenizer, j["init_scale"] = o_.init_scale;
    if (o_.data.masks) j["objective"] = "mlm";
    return j;
  }
  std::shared_ptr<const Tokenizer> tokenizer(const Dataset& data) override {
    const bool trains = o_.tokenizer != "bytes" && !from_file();
    check(trains || o_.data.tokenizer_bytes == DataOptions().tokenizer_bytes,
          "tokenizer-bytes: the tokenizer '{}' is not trained on anything; leave it out, or choose bpe:V, spm:V or "
          "unigram:V",
          o_.tokenizer);
    if (from_file()) return load_tokenizer_file(runs::model_path(o_.tokenizer));
    if (!is_tokenizer_spec(o_.tokenizer)) return make_tokenizer(o_.tokenizer, "");  // says what there is
    const auto control = data.control_tokens();
    const std::string text = trains ? data.tokenizer_text() : "";
    if (trains && o_.memory > 0) require_training(text);
    return make_tokenizer(o_.tokenizer, text, control ? &*control : nullptr);
  }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    ModelSpec spec = model_spec(o_.size, tokenizer.vocab_size(), o_.context);
    check(!spec.vision.there(), "size: {} is of a model of pictures; use toy train vit, or one of {}", o_.size,
          fmt::join(size_names(), ", "));
    if (!o_.layers.empty()) set_layers(spec, o_.layers);
    check(spec.causal == !o_.data.masks, "size: {} {}", o_.size,
          spec.causal ? "sees only what comes before; use an encoder with --objective mlm, such as bert-mini"
                      : "is an encoder, which fills in masks; add --objective mlm");
    spec.mask_head = o_.data.masks.has_value();
    spec.context = std::max(spec.context, o_.trainer.tokens);
    spec.name = o_.name.empty() ? "toy" : o_.name;
    return spec;
  }
  std::vector<std::pair<const char*, std::string>> reads() const override {
    return {{"--size", o_.size}, {"--tokenizer", o_.tokenizer}};
  }
  std::string template_file() const override {
    const std::string path = from_file() ? runs::model_path(o_.tokenizer) : "";
    return path.ends_with(".gguf") ? path : "";
  }
  std::string architecture() const override {
    constexpr int64_t kAnyVocabulary = 256;  // the tokenizer decides later
    ModelSpec spec = model_spec(o_.size, kAnyVocabulary);
    if (!o_.layers.empty()) set_layers(spec, o_.layers);
    return spec.architecture;
  }
  Model model(const ModelSpec& spec, const Device& device) override {
    Model model = random_model(spec, device, o_.seed, o_.init_scale);
    if (spec.mask_head)  // as vectors of such encoders are made
      model.metadata.emplace(spec.architecture + ".pooling_type", gguf::Value(pooling_number("mean")));
    return model;
  }

 private:
  bool from_file() const {
    std::error_code error;
    return !is_tokenizer_spec(o_.tokenizer) && std::filesystem::exists(o_.tokenizer, error);
  }
  // The tokenizer's training keeps within --memory, too.
  void require_training(const std::string& text) const {
    const size_t needed = training_bytes(o_.tokenizer, text), there = anonymous_memory();
    // Some of it does not depend on the text; words repeat less in a shorter one.
    constexpr double kAlways = 8 << 20, kLess = 0.9;
    const double rest = double(o_.memory) - double(there) + double(text.size()) - kAlways;
    const double each = (double(needed + text.size()) - kAlways) / double(text.size());
    constexpr int64_t kRound = 100'000;
    const int64_t fits = int64_t(kLess * rest / each) / kRound * kRound;
    require_below(o_.memory, needed,
                  fmt::format("training the tokenizer {} on {} of text", o_.tokenizer, format_bytes(text.size())),
                  fits > 0 ? fmt::format("--tokenizer-bytes {}", fits) : "--tokenizer bytes");
  }
  const FromScratchOptions& o_;
};

}  // namespace

// What the objective says of the rows.
static FromScratchOptions settled(FromScratchOptions o) {
  if (o.objective == FromScratchOptions::mlm)
    settle_masks(o, o.masks);
  else
    check(o.masks.fraction == MaskOptions().fraction, "mask-fraction is of --objective mlm; add it, or leave this out");
  return o;
}

TrainResult train_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer) {
  const FromScratchOptions all = settled(options);
  Fresh source(all);
  return run_recipe(all, source, device, observer);
}

RunEstimate estimate_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer) {
  const FromScratchOptions all = settled(options);
  Fresh source(all);
  return estimate_recipe(all, source, device, observer);
}

}  // namespace toy
