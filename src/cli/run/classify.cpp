#include "cli/run/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bind/embed_texts.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/text_lines.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/decode/classifier.h"
#include "toy/decode/text_classifier.h"
#include "toy/image/class_scores.h"
#include "toy/models/vision.h"

namespace toy::cli {

using nlohmann::ordered_json;

void ClassifyOptions::add(CLI::App& app) {
  begin_group(app, "Pictures");
  add_option(app, "--image", files, "Picture whose class is wanted, of a model that tells classes", file_name());
  add_option(app, "--top", top, "Classes to print for each picture, or text of a classifier", at_least(1));
}

void refuse_options_of_text(const CLI::App& app, const char* option) {
  constexpr std::string_view kOfPictures[] = {"model", "--image", "--top", "--data", "--json", "--device", "--threads"};
  for (const CLI::Option* o : app.get_options()) {
    const std::string name = o->get_name();
    if (o->count() > 0 && std::ranges::find(kOfPictures, name) == std::end(kOfPictures))
      fail("{} is about texts, and {} about pictures; remove one of them", name, option);
  }
}

void refuse_options_of_generation(const CLI::App& app) {
  constexpr std::string_view kOfClasses[] = {"model",  "text",     "--prompt",  "--prompt-file", "--prompts",   "--top",
                                             "--json", "--device", "--threads", "--lora",        "--prompt-ids"};
  for (const CLI::Option* o : app.get_options())
    check(o->count() == 0 || std::ranges::find(kOfClasses, o->get_name()) != std::end(kOfClasses),
          "{} is for models that generate text; this one classifies texts, so remove it", o->get_name());
}

void classify_texts(Device& device, const Model& model, const std::string& model_path, const PromptOptions& prompts,
                    int64_t top, bool json) {
  std::vector<bind::TextToEmbed> sources;
  for (const Prompt& p : prompts.all()) {
    check(p.lora.empty(), "{}: 'lora' is for models that generate text; this one classifies texts", p.where);
    check(!p.text || p.text->find_first_not_of(" \t\r\n") != p.text->npos,
          "{}: it is empty; give a text to classify, such as --prompt \"what a lovely film\"", p.where);
    sources.push_back({p.where, p.text.value_or(""), p.ids});
  }
  std::vector<bool> cut;
  const auto ids = bind::ids_to_embed(model, model_path, sources, "", "give token ids with --prompt-ids", cut);
  note_cut_texts(cut, most_tokens_to_embed(model));
  const std::vector<float> scores = with_sound_weights({model_path}, [&] { return Scorer(device, model).scores(ids); });
  const auto n = size_t(model.spec.score.labels);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<TextClass> classes = classes_of_scores(model.spec, std::span(scores).subspan(i * n, n));
    classes.resize(std::min(classes.size(), size_t(top)));
    if (!json && ids.size() > 1) fmt::print("--- prompt {} ---\n", i + 1);
    ordered_json list = ordered_json::array();
    for (const TextClass& c : classes) {
      if (json)
        list.push_back({{"class", valid_utf8(c.name)}, {"probability", c.probability}});
      else
        fmt::print("{:7.3f}%  {}\n", 100 * c.probability, printable(c.name));
    }
    if (!json) continue;
    ordered_json j;
    if (ids.size() > 1) j["index"] = i;
    j["tokens"] = ids[i].size();
    if (cut[i]) j["cut"] = true;
    j["class"] = list[0].at("class"), j["classes"] = list;
    print_json(j);
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
