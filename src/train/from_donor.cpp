#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "toy/base/memory.h"
#include "toy/models/grow.h"
#include "toy/tensor/projection.h"
#include "train/loaded.h"
#include "train/publish.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";

// "blk.*.attn_q.weight" of "blk.0.attn_q.weight".
std::string pattern_of(const TensorSpec& t) {
  return t.block < 0 ? t.name : "blk.*" + t.name.substr(t.name.find('.', t.name.find('.') + 1));
}

class FromDonor final : public Loaded {
 public:
  explicit FromDonor(const GrowOptions& o)
      : Loaded(o), o_(o), donor_(spec_from_gguf(opened())), base_(content_of(o.init)) {
    check(o.masks.fraction == MaskOptions().fraction,
          "mask-fraction: a donor's model learns the next token; leave it out");
  }
  ordered_json config() const override {
    return {{"name", "warm-start"},
            {"size", o_.size},
            {"lens", name_in_list(o_.lens)},
            {"blocks", o_.blocks == GrowOptions::copied},
            {"base", base_}};
  }
  std::vector<std::pair<const char*, std::string>> reads() const override {
    return {{"--size", o_.size}, {"--donor", o_.init}};
  }
  bool may_be_replaced() const override { return false; }
  std::string architecture() const override { return model_spec(o_.size, 1).architecture; }
  ModelSpec spec(const Tokenizer&) override {
    ModelSpec spec = model_spec(o_.size, donor_.vocab, o_.context);
    spec.context = std::max(spec.context, o_.trainer.tokens);
    spec.name = o_.name.empty() ? "toy" : o_.name;
    const bool as_wide = spec.d_model == donor_.d_model;
    check(o_.lens != GrowOptions::none || as_wide,
          "lens is none, and the model is {} wide, the embeddings of {} {}; use --lens random or pca", spec.d_model,
          o_.init, donor_.d_model);
    check(o_.lens != GrowOptions::pca || spec.d_model <= donor_.d_model,
          "lens is pca, and the embeddings of {} have {} components, the model needs {}; use --lens random", o_.init,
          donor_.d_model, spec.d_model);
    if (o_.lens == GrowOptions::none || (o_.lens == GrowOptions::as_needed && as_wide)) return spec;
    spec.lens = donor_.d_model;
    spec.roles.freeze = {kDonorEmbedding};
    return spec;
  }
  Weights::DTypeOf held(const ModelSpec&) const override {
    const DType in_file = *opened().require(kEmbedding).dtype;
    return [in_file](const std::string& name) { return name == kDonorEmbedding ? in_file : DType::f32; };
  }
  Model model(const ModelSpec& spec, const Device& device) override {
    const Model donor = load_model(o_.init, device);
    Model model{spec, std::make_unique<ParamStore>(device), nullptr};
    for (const auto& [key, value] : donor.metadata)
      if (key.starts_with("tokenizer.") || key.starts_with("general.license")) model.metadata.emplace(key, value);
    if (o_.blocks == GrowOptions::copied)
      choices_.push_back(fmt::format("block i of {} begins as block i mod {} of {}", spec.layers.size(),
                                     donor.spec.layers.size(), o_.init));
    ThreadPool threads(device.host_threads());
    std::map<std::string, std::pair<size_t, int64_t>> told;  // place in choices_ and number of tensors
    for (const TensorSpec& t : tensors_of(spec)) {
      const std::string text =
          fmt::format("{} {}: {}", pattern_of(t), t.shape.str(), add_tensor(t, donor, model, threads));
      const auto [at, is_new] = told.try_emplace(text, choices_.size(), 0);
      if (is_new) choices_.push_back(text);
      if (++at->second.second > 1) choices_[at->second.first] = fmt::format("{} ({} tensors)", text, at->second.second);
    }
    if (const auto w = first_beyond(model, std::numeric_limits<float>::max()))
      fail("{}: what '{}' begins with holds {}, and nothing can be learned from there; give weights that are finite",
           o_.init, w->tensor, w->value);
    return model;
  }
  std::vector<std::string> choices() const override { return choices_; }

 private:
  // Returns how it begins.
  std::string add_tensor(const TensorSpec& t, const Model& donor, Model& model, ThreadPool& threads) const {
    if (t.name == kDonorEmbedding) {
      const gguf::TensorInfo& info = opened().require(kEmbedding);
      model.params->bind(t.name, View(const_cast<std::byte*>(info.data), *info.dtype, info.shape),
                         opened().keep_alive(), true);
      return fmt::format("{} of {}, {}, frozen", kEmbedding, o_.init, info.type_name);
    }
    model.params->add(t.name, {DType::f32, t.shape, 0});
    if (t.name == kLens && o_.lens == GrowOptions::pca) {
      const auto columns = size_t(model.spec.lens);
      constexpr size_t kMatrices = 4;  // covariance, eigenvectors, and as much at work
      require_below(o_.memory, kMatrices * columns * columns * sizeof(double), "finding principal components",
                    "--lens random");
      const HostTensor table = donor.params->host(kEmbedding);
      model.params->write(t.name, principal_components(table.view(), model.spec.d_model, threads));
      return fmt::format("principal components of {}", kEmbedding);
    }
    if (t.name == kOutput && model.spec.lens > 0) {
      const char* from = donor.spec.tied ? kEmbedding : kOutput;
      const HostTensor table = donor.params->host(from);
      std::vector<float> values(size_t(t.shape.count()));
      project_rows(table.view(), 0, model.params->read(kLens), values, threads);
      model.params->write(t.name, values);
      return fmt::format("{} through the lens", from);
    }
    Origin origin;
    if (o_.blocks == GrowOptions::copied || t.part == ModelPart::embedding || t.part == ModelPart::output)
      origin = origin_of(t, model.spec, donor.spec);
    if (origin.how == Origin::fresh) {
      constexpr double kScale = 1;  // of from-scratch
      model.params->write(t.name, initial_values(t, o_.seed, kScale, threads));
      const bool is_reason = o_.blocks == GrowOptions::copied && t.name != kLens;
      return fmt::format("fresh{}", is_reason ? fmt::format(", because {}", origin.reason) : "");
    }
    model.params->write(t.name, values_from(origin, t, model.spec, donor));
    if (origin.how == Origin::copied) return "copied";
    return fmt::format("cut or repeated from {}", donor.params->type(origin.tensor).shape.str());
  }

  const GrowOptions& o_;
  const ModelSpec donor_;
  const ordered_json base_;
  std::vector<std::string> choices_;
};

}  // namespace

TrainResult train_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer) {
  FromDonor source(options);
  return run_recipe(options, source, device, observer);
}

RunEstimate estimate_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer) {
  FromDonor source(options);
  return estimate_recipe(options, source, device, observer);
}

}  // namespace toy
