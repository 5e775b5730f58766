// toy eval sts, retrieval: how well embeddings order pairs by likeness, and how often they find what belongs together.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bind/embed_texts.h"
#include "bind/eval_embeddings.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval/eval.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/text_lines.h"
#include "toy/base/counted.h"
#include "toy/eval/retrieval.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// What both share: a model, a file, and vectors of texts.
struct EvalEmbeddings : Command {
  std::string model_path, file;
  bind::EmbedTextOptions given_options;
  AdapterOptions adapters;
  DeviceOptions device;
  bool json = false;

  void add_common(CLI::App& app, const char* help) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Data");
    add_option(app, "file", file, help, file_name())->required();
    begin_group(app, "Embeddings");
    add_option(app, "--pooling", given_options.pooling,
               "Vectors of tokens to one of the text (default: as the model's file says)",
               one_of({"mean", "cls", "last"}));
    add_option(app, "--dimensions", given_options.dimensions,
               "Keep the first N numbers, of models trained for it; 0 keeps all", at_least(0));
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    begin_group(app, "Machine");
    device.add(app);
  }
  void find_model() { model_path = model_file(model_path, file); }  // first: the two may be exchanged
  // Of length 1, one for each text.
  bind::Vectors vectors(const std::vector<std::string>& texts) {
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    print_warnings(model_path, model.warnings);
    const EmbedOptions o = given_options.of(model, "--");
    return bind::embed_once(texts, [&](const std::vector<std::string>& different) {
      std::vector<bind::TextToEmbed> all;
      for (const std::string& text : different) all.push_back({fmt::format("{}: a text", file), text});
      std::vector<bool> cut;
      const auto ids = bind::ids_to_embed(model, model_path, all, "", "give a model that has one", cut);
      note_cut_texts(cut, most_tokens_to_embed(model));
      return with_sound_weights({model_path}, [&] { return embed_tokens(*dev, model, ids, o); });
    });
  }
  // What JSON says, after the names of model and file.
  void print_result(const ordered_json& fields) const {
    ordered_json j{{"model", model_path}, {"file", file}};
    j.update(fields);
    print_json(j);
  }
};

struct EvalSts final : EvalEmbeddings {
  void add(CLI::App& app) {
    add_common(app, "Rated pairs: JSON Lines or a table");
    show_in_help(app, {"--lora", "--pooling", "--json", "--threads"});
    app.footer(
        "A row is {\"sentence1\": ..., \"sentence2\": ..., \"score\": 3.8}. Prints Spearman's correlation of the "
        "scores "
        "with the cosines of the two vectors, times 100 as papers have it.\n\n"
        "Example:\n  toy eval sts minilm.gguf stsbenchmark-test.jsonl");
  }
  void run() {
    find_model();
    const bind::RatedTexts rated(file);
    const ordered_json said = rated.fields(vectors(rated.texts));
    if (json) return print_result(said);
    fmt::print("Spearman {:.2f}, Pearson {:.2f}; {}\n", 100 * said["spearman"].get<double>(),
               100 * said["pearson"].get<double>(), counted(int64_t(rated.pairs.size()), "pair"));
  }
};

struct EvalRetrieval final : EvalEmbeddings {
  bind::RetrievalOptions pairs;
  void add(CLI::App& app) {
    add_common(app, "Pairs: JSON Lines or a table");
    begin_group(app, "Data");
    add_option(app, "--map", pairs.map, "Fields with other names, such as anchor=title,positive=body");
    add_text_option(app, "--anchor-prefix", pairs.anchor_prefix, "Put this before each anchor, such as \"query: \"");
    add_text_option(app, "--passage-prefix", pairs.passage_prefix, "Put this before each positive and negative");
    show_in_help(app, {"--lora", "--map", "--anchor-prefix", "--passage-prefix", "--pooling", "--json", "--threads"});
    app.footer(
        "A row is {\"anchor\": ..., \"positive\": ...}, perhaps with a \"negative\", as of `toy train contrastive`. "
        "Each anchor is searched in all positives and negatives of the file. Prints how often its positive comes first "
        "and among the first 5, and the mean of 1/rank up to rank 10.\n\n"
        "Example:\n  toy eval retrieval minilm.gguf held-out.jsonl");
  }
  void run() {
    find_model();
    const bind::PairTexts texts(file, pairs, [](const std::string& text) { to_stderr(text + "\n"); });
    const RetrievalScores s = texts.scores(vectors(texts.texts));
    if (json) return print_result(bind::retrieval_fields(s));
    fmt::print("first {}, among the first 5 {}, mean of 1/rank {:.4f}; {} anchors, {} texts\n", percent(s.recall_1()),
               percent(s.recall_5()), s.reciprocal_ranks / double(s.anchors), s.anchors, s.texts);
  }
};

}  // namespace

void add_eval_sts(CLI::App& app) {
  add_subcommand<EvalSts>(app, "sts", "Compare cosines of pairs with how alike people find them");
}
void add_eval_retrieval(CLI::App& app) {
  add_subcommand<EvalRetrieval>(app, "retrieval", "How often embeddings find the text that belongs to another");
}

}  // namespace toy::cli
