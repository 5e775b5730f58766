#include "toy/train/vit.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "toy/text/class_names.h"
#include "train/image_rows.h"
#include "train/run.h"

namespace toy {
namespace {

constexpr const char* kPositions = "v.position_embd.weight";

class FreshVision final : public ModelSource {
 public:
  explicit FreshVision(const VitOptions& o) : o_(o) {
    check_limits(o);
    check(o.data.images && !o.data.images->path.empty(), "data is missing: give a folder of pictures");
    require_size(model_spec(o.size));
  }
  nlohmann::ordered_json config() const override {
    return {{"name", "vit"},
            {"size", o_.size},
            {"patch", o_.patch},
            {"pooling", name_in_list(o_.pooling)},
            {"positions", name_in_list(o_.positions)},
            {"init_scale", o_.init_scale}};
  }
  void look_at(const Dataset& data) override { images_ = data.images(); }
  std::shared_ptr<const Tokenizer> tokenizer(const Dataset&) override {
    return make_class_names(images_->training.classes);
  }
  ModelSpec spec(const Tokenizer& tokenizer) override {
    check(class_names(tokenizer) == images_->training.classes,
          "{}: the classes are no longer those that the run began with; choose another --out", o_.data.images->path);
    ModelSpec m = model_spec(o_.size);
    m.vocab = tokenizer.vocab_size();
    m.name = o_.name.empty() ? "toy" : o_.name;
    VisionSpec& v = m.vision;
    v.image = images_->training.size, v.channels = images_->training.channels;
    v.patch = o_.patch > 0 ? o_.patch : usual_patch(v.image);
    v.class_token = o_.pooling == VitOptions::token, v.sincos = o_.positions == VitOptions::sincos;
    v.mean = images_->mean, v.std = images_->std;
    check(v.image % v.patch == 0, "patch: pictures of {} pixels are not cut into patches of {}; use --image-size {}{}",
          v.image, v.patch, std::max(v.patch, v.image / v.patch * v.patch), o_.patch > 0 ? ", or another --patch" : "");
    m.context = v.rows();
    if (v.sincos) m.roles.freeze = {kPositions};
    m.validate();
    images_->vision = v;
    return m;
  }
  std::vector<std::pair<const char*, std::string>> reads() const override { return {{"--size", o_.size}}; }
  std::string architecture() const override { return model_spec(o_.size).architecture; }
  Model model(const ModelSpec& spec, const Device& device) override {
    return random_model(spec, device, o_.seed, o_.init_scale);
  }

 private:
  static void require_size(const ModelSpec& m) {
    check(m.vision.there(), "size: {} is of a model of text; use one of {}", m.name,
          fmt::join(image_size_names(), ", "));
  }
  static int64_t usual_patch(int64_t image) { return image <= 16 ? 2 : image <= 64 ? 4 : 16; }
  const VitOptions& o_;
  RunImages* images_ = nullptr;
};

}  // namespace

TrainResult train_vit(const VitOptions& options, Device& device, TrainObserver& observer) {
  FreshVision source(options);
  return run_recipe(options, source, device, observer);
}

RunEstimate estimate_vit(const VitOptions& options, Device& device, TrainObserver& observer) {
  FreshVision source(options);
  return estimate_recipe(options, source, device, observer);
}

}  // namespace toy
