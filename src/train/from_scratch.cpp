#include "toy/train/from_scratch.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/run.h"

namespace toy {
namespace {

class Fresh final : public ModelSource {
 public:
  explicit Fresh(const FromScratchOptions& o) : o_(o) {
    check(o.init_scale > 0 && std::isfinite(o.init_scale), "init-scale is {}, expected a positive number",
          o.init_scale);
  }
  nlohmann::ordered_json config() const override {
    return {{"name", "from-scratch"}, {"size", o_.size}, {"tokenizer", o_.tokenizer}, {"init_scale", o_.init_scale}};
  }
  std::shared_ptr<const Tokenizer> tokenizer(const std::function<std::string()>& training_text) override {
    check(o_.tokenizer != "bytes" || o_.data.tokenizer_bytes == DataOptions().tokenizer_bytes,
          "tokenizer-bytes: the tokenizer 'bytes' is not trained on anything; leave it out, or choose spm:V or "
          "unigram:V");
    return make_tokenizer(o_.tokenizer, o_.tokenizer == "bytes" ? "" : training_text());
  }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    ModelSpec spec = model_spec(o_.size, tokenizer.vocab_size(), o_.context);
    spec.context = std::max(spec.context, o_.trainer.tokens);
    spec.name = o_.name.empty() ? "toy" : o_.name;
    return spec;
  }
  Model model(const ModelSpec& spec, const Device& device) override {
    return random_model(spec, device, o_.seed, o_.init_scale);
  }

 private:
  const FromScratchOptions& o_;
};

}  // namespace

TrainResult train_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer) {
  Fresh source(options);
  return run_recipe(options, source, device, observer);
}

RunEstimate estimate_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer) {
  Fresh source(options);
  return estimate_recipe(options, source, device, observer);
}

}  // namespace toy
