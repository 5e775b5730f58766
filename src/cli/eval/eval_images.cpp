// toy eval MODEL --data FOLDER: a classifier of pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/eval/eval.h"
#include "cli/run/classify.h"
#include "toy/base/utf8.h"
#include "toy/decode/classifier.h"
#include "toy/image/class_scores.h"
#include "toy/text/class_names.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFive = 5;
constexpr size_t kWorst = 10, kShownClasses = 20;

// A picture, the loss of its class, and the class that is thought likeliest.
struct Judged {
  int64_t picture;
  double nats;
  int32_t chosen;
};

struct Result {
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;  // [class][chosen class]
  std::vector<Judged> all;
  int64_t right = 0, among_5 = 0;
  double nats = 0;
};

Result judge(Device& device, const Model& model, const ImageSet& set) {
  Result r{class_names(*model.tokenizer), {}, {}};
  r.confusion.assign(r.classes.size(), std::vector<int64_t>(r.classes.size()));
  EvalProgress progress("picture", set.count());
  ImageClassifier(device, model).each(set, [&](int64_t i, std::span<const float> logits) {
    const int32_t label = set.labels[size_t(i)];
    const int64_t rank = class_rank(logits, label);
    const int32_t chosen = classes_in_order(logits).front();
    r.all.push_back({i, class_nll(logits, label), chosen});
    r.nats += r.all.back().nats;
    r.right += rank == 0, r.among_5 += rank < kFive;
    ++r.confusion[size_t(label)][size_t(chosen)];
    progress.next(r.nats / double(i + 1));
  });
  progress.end();
  std::ranges::stable_sort(r.all, [](const Judged& a, const Judged& b) { return a.nats > b.nats; });
  return r;
}

// A part of n pictures, with its standard error.
MeanError part(int64_t of, size_t n) {
  const double p = double(of) / double(n);
  return {p, std::sqrt(p * (1 - p) / double(n))};
}

void print_confusion(const Result& r) {
  if (r.classes.size() > kShownClasses) return;
  size_t width = 6;
  for (const std::string& name : r.classes) width = std::max(width, std::min<size_t>(14, name.size()));
  fmt::print("\nrows: what a picture shows; columns: what the model says\n{:{}}", "", width);
  for (size_t k = 0; k < r.classes.size(); ++k) fmt::print(" {:>5.5}", printable(r.classes[k]));
  fmt::print("\n");
  for (size_t k = 0; k < r.classes.size(); ++k) {
    fmt::print("{:{}.14}", printable(r.classes[k]), width);
    for (const int64_t n : r.confusion[k]) fmt::print(" {:>5}", n);
    fmt::print("\n");
  }
}

}  // namespace

void eval_images(Device& device, const std::string& model_path, const std::string& data, bool json) {
  const Model model = load_classifier(model_path, device);
  const VisionSpec& v = model.spec.vision;
  ImageSet set = read_images({data, ImageSource::test, v.image, v.channels, 0});
  use_classes(class_names(*model.tokenizer), model.spec.name, set);
  const Result r = judge(device, model, set);
  const MeanError top1 = part(r.right, r.all.size()), top5 = part(r.among_5, r.all.size());
  const size_t worst = std::min(kWorst, r.all.size());
  if (json) {
    ordered_json list = ordered_json::array();
    for (size_t i = 0; i < worst; ++i) {
      const Judged& j = r.all[i];
      list.push_back({{"image", valid_utf8(set.names[size_t(j.picture)])},
                      {"class", valid_utf8(r.classes[size_t(set.labels[size_t(j.picture)])])},
                      {"chosen", valid_utf8(r.classes[size_t(j.chosen)])},
                      {"nats", j.nats}});
    }
    return print_json({{"model", model_path},
                       {"data", data},
                       {"images", r.all.size()},
                       {"top1", top1.mean},
                       {"top1_error", top1.error},
                       {"top5", top5.mean},
                       {"top5_error", top5.error},
                       {"nats", r.nats / double(r.all.size())},
                       {"classes", r.classes},
                       {"confusion", r.confusion},
                       {"worst", list}});
  }
  fmt::print("top-1 {}, top-5 {}, {:.4f} nats; {} pictures, +- is the standard error over them\n", percent(top1),
             percent(top5), r.nats / double(r.all.size()), r.all.size());
  print_confusion(r);
  if (r.right == int64_t(r.all.size())) return;
  fmt::print("\nthe worst\n");
  for (size_t i = 0; i < worst; ++i)
    if (const Judged& j = r.all[i]; j.chosen != set.labels[size_t(j.picture)])
      fmt::print("  {} is {}, the model says {}\n", printable(set.names[size_t(j.picture)]),
                 printable(r.classes[size_t(set.labels[size_t(j.picture)])]), printable(r.classes[size_t(j.chosen)]));
}

}  // namespace toy::cli
