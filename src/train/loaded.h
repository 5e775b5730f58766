// A run that begins with the weights and the tokenizer of a GGUF.
#pragma once

#include "toy/runs/run.h"
#include "toy/train/warm_start.h"
#include "train/checkpoints.h"
#include "train/run.h"

namespace toy {

/// The model of a file, with the roles that spec() gives its tensors: all are trained.
class Loaded : public ModelSource {
 public:
  /// `options` must outlive it.
  explicit Loaded(const WarmStartOptions& options)
      : o_(options), file_(gguf::File::open(runs::model_path(options.init))) {}
  nlohmann::ordered_json config() const override;
  std::string file() const override { return o_.init; }
  std::vector<std::pair<const char*, std::string>> reads() const override { return {{"--init", o_.init}}; }
  bool may_be_replaced() const override { return true; }
  std::string architecture() const override { return spec_from_gguf(file_).architecture; }
  std::shared_ptr<const Tokenizer> tokenizer(const Dataset& data) override;
  ModelSpec spec(const Tokenizer& tokenizer) override;
  Model model(const ModelSpec& spec, const Device& device) override;

 protected:
  const gguf::File& opened() const { return file_; }
  /// Does the recipe have --context?
  virtual bool can_extend() const { return true; }

 private:
  const WarmStartOptions& o_;
  gguf::File file_;
};

}  // namespace toy
