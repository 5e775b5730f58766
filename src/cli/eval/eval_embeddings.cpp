// toy eval sts, retrieval: how well embeddings order pairs by likeness, and how often they find what belongs together.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "bind/embed_texts.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval/eval.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/counted.h"
#include "toy/data/examples.h"
#include "toy/data/pairs.h"
#include "toy/decode/search_index.h"
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
               CLI::IsMember({"mean", "cls", "last"}));
    add_option(app, "--dimensions", given_options.dimensions,
               "Keep the first N numbers, of models trained for it; 0 keeps all", at_least(0));
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    begin_group(app, "Machine");
    device.add(app);
  }
  TextFile text_file() {
    model_path = model_file(model_path, file);  // first: the two may be exchanged
    const std::vector<std::string> paths{file};
    return list_text_files(paths).files.at(0);
  }
  // Of length 1, one for each text; equal ones are computed once.
  std::vector<std::vector<float>> vectors(const std::vector<std::string>& texts) {
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    print_warnings(model_path, model.warnings);
    const EmbedOptions o = given_options.of(model, "--");
    std::unordered_map<std::string_view, size_t> numbers;
    std::vector<size_t> number_of;
    std::vector<bind::TextToEmbed> different;
    for (const std::string& text : texts) {
      const auto [it, is_new] = numbers.emplace(text, different.size());
      if (is_new) different.push_back({fmt::format("{}: a text", file), text});
      number_of.push_back(it->second);
    }
    std::vector<bool> cut;
    const auto ids = bind::ids_to_embed(model, model_path, different, "", "give a model that has one", cut);
    if (const auto n = std::ranges::count(cut, true); n > 0)
      to_stderr(fmt::format("toy: {} of {} texts are longer than {} tokens and were cut\n", n, different.size(),
                            most_tokens_to_embed(model)));
    const auto computed = with_sound_weights({model_path}, [&] { return embed_tokens(*dev, model, ids, o); });
    std::vector<std::vector<float>> all;
    for (const size_t n : number_of) all.push_back(computed[n]);
    return all;
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
    const std::vector<RatedPair> pairs = read_rated_pairs(text_file());
    std::vector<std::string> texts;
    std::vector<double> wanted, cosines;
    for (const RatedPair& p : pairs) texts.push_back(p.first), texts.push_back(p.second), wanted.push_back(p.score);
    const auto v = vectors(texts);
    for (size_t i = 0; i < pairs.size(); ++i) cosines.push_back(inner_product(v[2 * i], v[2 * i + 1]));
    const double s = spearman(wanted, cosines), p = pearson(wanted, cosines);
    if (json)
      return print_json(
          {{"model", model_path}, {"file", file}, {"pairs", pairs.size()}, {"spearman", s}, {"pearson", p}});
    fmt::print("Spearman {:.2f}, Pearson {:.2f}; {}\n", 100 * s, 100 * p, counted(int64_t(pairs.size()), "pair"));
  }
};

struct EvalRetrieval final : EvalEmbeddings {
  std::string map, anchor_prefix, passage_prefix;
  void add(CLI::App& app) {
    add_common(app, "Pairs: JSON Lines or a table");
    begin_group(app, "Data");
    add_option(app, "--map", map, "Fields with other names, such as anchor=title,positive=body");
    add_text_option(app, "--anchor-prefix", anchor_prefix, "Put this before each anchor, such as \"query: \"");
    add_text_option(app, "--passage-prefix", passage_prefix, "Put this before each positive and negative");
    show_in_help(app, {"--lora", "--map", "--anchor-prefix", "--passage-prefix", "--pooling", "--json", "--threads"});
    app.footer(
        "A row is {\"anchor\": ..., \"positive\": ...}, perhaps with a \"negative\", as of `toy train contrastive`. "
        "Each anchor is searched in all positives and negatives of the file. Prints how often its positive comes first "
        "and among the first 5, and the mean of 1/rank up to rank 10.\n\n"
        "Example:\n  toy eval retrieval minilm.gguf held-out.jsonl");
  }
  void run() {
    const std::vector<TextPair> pairs =
        read_pairs({text_file()},
                   {.renamed = parse_field_map(map), .warn = [](const std::string& text) { to_stderr(text + "\n"); }});
    std::vector<std::string> texts;
    std::unordered_map<std::string, int64_t> numbers;
    const auto number = [&](const std::string& text) { return numbers.emplace(text, numbers.size()).first->second; };
    std::vector<int64_t> ids;
    for (const TextPair& p : pairs) {
      texts.push_back(anchor_prefix + p.anchor), ids.push_back(number(p.anchor));
      texts.push_back(passage_prefix + p.positive), ids.push_back(number(p.positive));
      if (p.negative) texts.push_back(passage_prefix + *p.negative), ids.push_back(number(*p.negative));
    }
    const auto v = vectors(texts);
    RetrievalSet set(int64_t(v.front().size()));
    size_t at = 0;
    for (const TextPair& p : pairs) {
      set.add_pair(v[at], ids[at], v[at + 1], ids[at + 1]);
      if (p.negative) set.add_negative(v[at + 2], ids[at + 2]);
      at += p.negative ? 3 : 2;
    }
    const RetrievalScores s = set.scores(1);
    const MeanError first = s.recall_1(), five = s.recall_5();
    const double mrr = s.reciprocal_ranks / double(s.anchors);
    if (json) {
      ordered_json j{{"model", model_path}, {"file", file}, {"anchors", s.anchors}, {"texts", s.texts}};
      j["recall_1"] = first.mean, j["recall_5"] = five.mean, j["mrr_10"] = mrr;
      if (std::isfinite(first.error)) j["recall_1_error"] = first.error, j["recall_5_error"] = five.error;
      return print_json(j);
    }
    fmt::print("first {}, among the first 5 {}, mean of 1/rank {:.4f}; {} anchors, {} texts\n", percent(first),
               percent(five), mrr, s.anchors, s.texts);
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
