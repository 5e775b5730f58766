// A classifier of pictures from nothing: draws shapes, trains a vision transformer, and names what it sees.
//
//   example_vit FOLDER        the pictures and the run go there
#include <fmt/core.h>

#include <filesystem>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/decode/classifier.h"
#include "toy/image/class_scores.h"
#include "toy/models/model.h"
#include "toy/synth/shapes.h"
#include "toy/text/class_names.h"
#include "toy/train/recipes.h"

namespace {

using namespace toy;

// Says how well it goes, whenever it was validated.
struct Printer : TrainObserver {
  void event(const runs::Event& e) override {
    if (const auto* eval = e.as<runs::Eval>(); eval && eval->top1)
      fmt::print("step {}: {:.1f}% of held-out shapes\n", *e.step, 100 * *eval->top1);
  }
};

void run(const std::string& folder) {
  std::filesystem::remove_all(folder + "/shapes");
  write_shapes({.images = 3000, .test = 300, .size = 16}, folder + "/shapes");
  const auto device = make_cpu_device();
  const Recipe recipe = parse_recipe(
      "vit", fmt::format(R"({{"data": "{0}/shapes", "size": "vit-micro", "patch": 4, "epochs": 15, "eval-every": 200,
                              "lr": 0.004, "crop": 0, "label-smoothing": 0, "overwrite": true, "out": "{0}/run"}})",
                         folder));
  Printer printer;
  const TrainResult result = recipe.train(*device, printer);

  const Model model = load_model(result.model_path, *device);
  ImageSet test = read_images({.path = folder + "/shapes", .part = ImageSource::test});
  use_classes(class_names(*model.tokenizer), model.spec.name, test);
  int64_t right = 0;
  ImageClassifier classifier(*device, model);
  classifier.each(test, [&](int64_t i, std::span<const float> logits) {
    right += class_rank(logits, test.labels[size_t(i)]) == 0;
  });
  fmt::print("accuracy {:.3f} on {} new shapes\n", double(right) / double(test.count()), test.count());
  const std::vector<float> logits = classifier.logits(draw_shape(7, 16, 99, "another"));
  const int32_t seen = classes_in_order(logits).front();
  fmt::print("a {} looks like: {}\n", shape_names()[7], model.tokenizer->token_bytes(seen));
  if (10 * right >= 9 * test.count()) fmt::print("ok\n");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    fmt::print(stderr, "usage: example_vit FOLDER\n");
    return 2;
  }
  run(argv[1]);
  return 0;
} catch (const toy::Error& e) {
  fmt::print(stderr, "example_vit: {}\n", e.what());
  return 1;
}
