// toy eval classify: how often a classifier of texts is right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bind/embed_texts.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval/confusion.h"
#include "cli/eval/eval.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/text_lines.h"
#include "toy/base/utf8.h"
#include "toy/data/examples.h"
#include "toy/data/labelled.h"
#include "toy/decode/text_classifier.h"
#include "toy/image/class_scores.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct EvalClassify final : Command {
  std::string model_path, file, map;
  AdapterOptions adapters;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "file", file, "Texts with labels: JSON Lines or a table", file_name())->required();
    add_option(app, "--map", map, "Fields with other names, such as text=review,label=stars");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    begin_group(app, "Machine");
    device.add(app);
    show_in_help(app, {"--lora", "--map", "--json", "--threads"});
    app.footer(
        "A row is {\"text\": ..., \"label\": ...}, as of `toy train classify`. Prints how many texts get their label, "
        "which "
        "classes are mistaken for which, and the texts with the largest loss.\n\n"
        "Example:\n  toy eval classify out/mood held-out.jsonl");
  }

  std::vector<LabelledText> rows() const {
    const std::vector<std::string> paths{file};
    return read_labelled(
        list_text_files(paths).files,
        {.renamed = parse_field_map(map), .warn = [](const std::string& text) { to_stderr(text + "\n"); }});
  }

  void run() {
    const std::vector<LabelledText> texts = rows();
    model_path = model_file(model_path);
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    print_warnings(model_path, model.warnings);
    require_text_classifier(model.spec);
    Confusion result(model.spec.score.names);
    std::vector<bind::TextToEmbed> sources;
    std::vector<int32_t> labels;
    for (const LabelledText& t : texts) {
      const auto& names = model.spec.score.names;
      const auto it = std::ranges::find(names, t.label);
      check(it != names.end(), "{}: the model has no label '{}'; it has {}", t.where, t.label, listed_classes(names));
      labels.push_back(int32_t(it - names.begin()));
      sources.push_back({t.where, t.text});
    }
    std::vector<bool> cut;
    const auto ids = bind::ids_to_embed(model, model_path, sources, "", "give a model that has one", cut);
    note_cut_texts(cut, most_tokens_to_embed(model));
    const std::vector<float> scores = with_sound_weights({model_path}, [&] { return Scorer(*dev, model).scores(ids); });
    const auto n = size_t(model.spec.score.labels);
    for (size_t i = 0; i < ids.size(); ++i) result.add(int64_t(i), labels[i], std::span(scores).subspan(i * n, n));
    print(result, texts);
  }

  void print(Confusion& r, const std::vector<LabelledText>& texts) const {
    const auto shown = [&](const JudgedClass& j) {
      constexpr size_t kMost = 60;
      return first_bytes(texts[size_t(j.item)].text, kMost);
    };
    const MeanError right = r.top1();
    if (json) {
      ordered_json list = ordered_json::array(), j{{"model", model_path}, {"file", file}, {"texts", r.count()}};
      for (const JudgedClass& w : r.worst())
        list.push_back({{"row", w.item},
                        {"text", valid_utf8(texts[size_t(w.item)].text)},
                        {"label", valid_utf8(r.classes()[size_t(w.label)])},
                        {"chosen", valid_utf8(r.classes()[size_t(w.chosen)])},
                        {"nats", w.nats}});
      j["accuracy"] = right.mean, j["accuracy_error"] = right.error, j["f1"] = r.mean_f1(), j["nats"] = r.nats();
      j["classes"] = r.classes(), j["confusion"] = r.table(), j["worst"] = list;
      return print_json(j);
    }
    fmt::print("accuracy {}, mean F1 {:.4f}, {:.4f} nats; {} texts, +- is the standard error over them\n",
               percent(right), r.mean_f1(), r.nats(), r.count());
    r.print("rows: a text's label; columns: what the model says");
    if (r.right() == r.count()) return;
    fmt::print("\nthe worst\n");
    for (const JudgedClass& w : r.worst())
      if (w.chosen != w.label)
        fmt::print("  {} is {}, the model says {}\n", printable(shown(w)), printable(r.classes()[size_t(w.label)]),
                   printable(r.classes()[size_t(w.chosen)]));
  }
};

}  // namespace

void add_eval_classify(CLI::App& app) {
  add_subcommand<EvalClassify>(app, "classify", "How often a classifier of texts is right");
}

}  // namespace toy::cli
