// toy eval MODEL --data FOLDER: a classifier of pictures.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/eval/confusion.h"
#include "cli/eval/eval.h"
#include "cli/run/classify.h"
#include "toy/base/utf8.h"
#include "toy/decode/classifier.h"
#include "toy/text/class_names.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

}  // namespace

void eval_images(Device& device, const std::string& model_path, const std::string& data, bool json) {
  const Model model = load_classifier(model_path, device);
  const VisionSpec& v = model.spec.vision;
  ImageSet set = read_images({data, ImageSource::test, v.image, v.channels, 0});
  use_classes(class_names(*model.tokenizer), model.spec.name, set);
  Confusion r(class_names(*model.tokenizer));
  EvalProgress progress("picture", set.count());
  ImageClassifier(device, model).each(set, [&](int64_t i, std::span<const float> logits) {
    r.add(i, set.labels[size_t(i)], logits);
    progress.next(r.nats());
  });
  progress.end();
  const MeanError top1 = r.top1(), top5 = r.top5();
  if (json) {
    ordered_json list = ordered_json::array();
    for (const JudgedClass& j : r.worst())
      list.push_back({{"image", valid_utf8(set.names[size_t(j.item)])},
                      {"class", valid_utf8(r.classes()[size_t(j.label)])},
                      {"chosen", valid_utf8(r.classes()[size_t(j.chosen)])},
                      {"nats", j.nats}});
    return print_json({{"model", model_path},
                       {"data", data},
                       {"images", r.count()},
                       {"top1", top1.mean},
                       {"top1_error", top1.error},
                       {"top5", top5.mean},
                       {"top5_error", top5.error},
                       {"nats", r.nats()},
                       {"classes", r.classes()},
                       {"confusion", r.table()},
                       {"worst", list}});
  }
  fmt::print("top-1 {}, top-5 {}, {:.4f} nats; {} pictures, +- is the standard error over them\n", percent(top1),
             percent(top5), r.nats(), r.count());
  r.print("rows: what a picture shows; columns: what the model says");
  if (r.right() == r.count()) return;
  fmt::print("\nthe worst\n");
  for (const JudgedClass& j : r.worst())
    if (j.chosen != j.label)
      fmt::print("  {} is {}, the model says {}\n", printable(set.names[size_t(j.item)]),
                 printable(r.classes()[size_t(j.label)]), printable(r.classes()[size_t(j.chosen)]));
}

}  // namespace toy::cli
