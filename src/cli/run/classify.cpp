#include "cli/run/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/decode/classifier.h"
#include "toy/image/class_scores.h"
#include "toy/models/vision.h"

namespace toy::cli {

using nlohmann::ordered_json;

void ClassifyOptions::add(CLI::App& app) {
  begin_group(app, "Pictures");
  add_option(app, "--image", files, "Picture whose class is wanted, of a model that tells classes", file_name());
  add_option(app, "--top", top, "Classes to print for each --image", at_least(1));
}

void refuse_options_of_text(const CLI::App& app, const char* option) {
  constexpr std::string_view kOfPictures[] = {"model", "--image", "--top", "--data", "--json", "--device", "--threads"};
  for (const CLI::Option* o : app.get_options()) {
    const std::string name = o->get_name();
    if (o->count() > 0 && std::ranges::find(kOfPictures, name) == std::end(kOfPictures))
      fail("{} is about texts, and {} about pictures; remove one of them", name, option);
  }
}

Model load_classifier(const std::string& path, const Device& device) {
  const gguf::File file = gguf::File::open(path);
  require_vision(spec_from_gguf(file));
  Model model = load_model(path, device);
  check(model.tokenizer != nullptr, "{}: the file does not name its classes (vit.classes)", path);
  print_warnings(path, model.warnings);
  return model;
}

void classify(Device& device, const std::string& model_path, const ClassifyOptions& o, bool json) {
  const Model model = load_classifier(model_path, device);
  std::vector<Picture> pictures;
  for (const std::string& file : o.files) pictures.push_back(read_picture(file));
  ImageClassifier classifier(device, model, 1);
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::vector<float> logits = classifier.logits(pictures[i]);
    const std::vector<double> p = class_probabilities(logits);
    std::vector<int32_t> order = classes_in_order(logits);
    order.resize(std::min(order.size(), size_t(o.top)));
    if (!json && o.files.size() > 1) fmt::print("--- {} ---\n", printable(o.files[i]));
    ordered_json list = ordered_json::array();
    for (const int32_t c : order) {
      const std::string name = model.tokenizer->token_bytes(c);
      if (json)
        list.push_back({{"class", valid_utf8(name)}, {"probability", p[size_t(c)]}});
      else
        fmt::print("{:7.3f}%  {}\n", 100 * p[size_t(c)], printable(name));
    }
    if (json) print_json(ordered_json{{"image", o.files[i]}, {"class", list[0].at("class")}, {"classes", list}});
  }
}

}  // namespace toy::cli
