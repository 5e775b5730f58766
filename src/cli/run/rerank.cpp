// toy rerank: which documents answer a query best.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/text_lines.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/decode/ranker.h"

namespace toy::cli {
namespace {

struct Rerank : Command {
  std::string model_path, query, file;
  std::vector<std::string> documents;
  int64_t top = 0;
  DeviceOptions device;
  bool raw = false, json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    add_option(app, "query", query, "What the documents should answer")->required();
    begin_group(app, "Texts");
    CLI::Option* each =
        add_option(app, "--document", documents, "Document to score; may be given several times")->option_text("TEXT");
    add_option(app, "--file", file, "File with one document per line, as text or JSON; - reads standard input",
               file_name())
        ->excludes(each);
    begin_group(app, "Output");
    add_option(app, "-k,--top", top, "Print the best N documents; 0 prints all", at_least(0));
    app.add_flag("--raw", raw, "Print the model's own number (logit) instead of a score from 0 to 1");
    app.add_flag("--json", json, "Print a JSON object per document: index, score, logit, text");
    begin_group(app, "Machine");
    device.add(app);
    show_in_help(app, {"--document", "--file", "--top", "--raw", "--json", "--threads"});
    app.footer(
        "The model reads query and document together, which is more exact and slower than vectors: find 50 passages "
        "with toy search, and rank these. A score is 1 / (1 + exp(-logit)) (toy help embeddings.md).\n\n"
        "Example:\n"
        "  toy rerank ms-marco-minilm.gguf \"where do badgers live\" --file passages.txt --top 3");
  }

  std::vector<std::string> texts() const {
    check(!documents.empty() || given("--file"),
          "there are no documents; give --file with one per line, or --document");
    if (!documents.empty()) return documents;
    std::vector<std::string> list;
    for (const bind::TextToEmbed& line : read_text_lines(file)) {
      check(line.ids.empty(), "{}: token ids are no document; give a text", line.where);
      list.push_back(line.text);
    }
    return list;
  }

  void run() {
    check(query.find_first_not_of(" \t\r\n") != query.npos, "query: it is empty; give a text");
    const std::vector<std::string> all = texts();
    model_path = model_file(model_path);
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    require_tokenizer(model, model_path);
    std::vector<Ranked> ranked = with_sound_weights({model_path}, [&] { return rerank(*dev, model, query, all); });
    if (const auto n = std::ranges::count_if(ranked, &Ranked::cut); n > 0)
      to_stderr(fmt::format("toy: {} of {} documents {} cut: with the query they are longer than the model takes\n", n,
                            all.size(), n == 1 ? "was" : "were"));
    if (top > 0 && size_t(top) < ranked.size()) ranked.resize(size_t(top));
    for (const Ranked& r : ranked) {
      const std::string& text = all[r.index];
      if (json)
        print_json({{"index", r.index}, {"score", r.score}, {"logit", r.logit}, {"text", valid_utf8(text)}});
      else
        fmt::print("{:8.4f}  {:>4}  {}\n", raw ? r.logit : r.score, r.index + 1, printable(text));
    }
  }
};

}  // namespace

void add_rerank(CLI::App& app) {
  add_subcommand<Rerank>(app, "rerank", "Order documents by how well they answer a query");
}

}  // namespace toy::cli
