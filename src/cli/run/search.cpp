// toy search: passages of texts by meaning.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bind/embed_texts.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/decode/search_index.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

uint64_t checksum_of(const std::string& path) {
  uint64_t bytes = 0;
  return xxh64_of_file(path, bytes);
}

struct SearchBuild : Command {
  std::string model_path, out, prefix, query_prefix;
  std::vector<std::string> paths;
  int64_t passage_tokens = 128;
  bind::EmbedTextOptions given_options;
  DeviceOptions device;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    begin_group(app, "Data");
    add_option(app, "paths", paths, "Text files and folders", file_name())->required();
    add_option(app, "--passage-tokens", passage_tokens, "Tokens per passage; paragraphs are joined while they fit",
               at_least(1));
    add_text_option(app, "--prefix", prefix, "Put this before each passage, such as \"passage: \"");
    add_text_option(app, "--query-prefix", query_prefix, "Put this before each query, such as \"query: \"");
    add_option(app, "--pooling", given_options.pooling,
               "Vectors of tokens to one of the text (default: as the model's file says)",
               one_of({"mean", "cls", "last"}));
    begin_group(app, "Output");
    add_option(app, "--out", out, "The index", file_name())->required();
    begin_group(app, "Machine");
    device.add(app);
    show_in_help(app, {"--passage-tokens", "--prefix", "--query-prefix", "--out", "--threads"});
    app.footer(
        "The index has the passages and their vectors. It remembers its model. See toy help embeddings.md.\n\n"
        "Example:\n"
        "  toy search build minilm.gguf notes/ --out notes.index\n"
        "  toy search query notes.index \"where do badgers sleep\"");
  }

  void run() {
    std::error_code unknown;
    check(!fs::is_directory(out, unknown), "--out: '{}' is a folder; name a file", out);
    const fs::path folder = fs::absolute(out).parent_path();
    check(fs::is_directory(folder, unknown), "--out: there is no folder '{}'", folder.string());
    if (fs::exists(out, unknown) && fs::file_size(out, unknown) > 0)
      check(is_search_index(out), "--out: '{}' is a file that toy search did not write; choose another name", out);
    model_path = model_file(model_path, paths.front());
    const std::vector<std::string> except{fs::weakly_canonical(out).string()};
    const TextFiles files = list_text_files(paths, except);
    if (!files.left_out.empty())
      to_stderr(fmt::format("toy: {} left out, such as {} ({})\n",
                            counted(int64_t(files.left_out.size()), "file is", "files are"),
                            printable(files.left_out[0].path), files.left_out[0].reason));
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    require_tokenizer(model, model_path);
    const EmbedOptions o = given_options.of(model, "--");
    std::vector<bool> cut;
    const std::vector<bind::TextToEmbed> shortest{{"prefix", "a"}};
    const auto around = int64_t(
        bind::ids_to_embed(model, model_path, shortest, prefix, "give a model that has one", cut).front().size() - 1);
    std::vector<Passage> passages;
    for (const TextFile& file : files.files) {
      const std::vector<Passage> own = passages_of(read_text_file(file.path), file.path, *model.tokenizer,
                                                   std::min(passage_tokens, most_tokens_to_embed(model) - around));
      passages.insert(passages.end(), own.begin(), own.end());
    }
    check(!passages.empty(), "{}: there is no text in it", paths[0]);
    std::vector<bind::TextToEmbed> texts;
    for (const Passage& p : passages) texts.push_back({fmt::format("{}:{}", p.file, p.line), p.text});
    const auto ids = bind::ids_to_embed(model, model_path, texts, prefix, "give a model that has one", cut);
    if (const auto n = std::ranges::count(cut, true); n > 0)
      to_stderr(fmt::format("toy: {} longer than the model takes; a vector is of what fits\n",
                            counted(n, "passage is", "passages are")));
    const auto vectors = with_sound_weights({model_path}, [&] { return embed_tokens(*dev, model, ids, o); });
    write_search_index(out, passages, vectors,
                       {fs::absolute(model_path).lexically_normal().string(), checksum_of(model_path), query_prefix,
                        given_options.pooling});
    to_stderr(fmt::format("{} of {}\n", counted(int64_t(passages.size()), "passage"),
                          counted(int64_t(files.files.size()), "file")));
    fmt::print("{}\n", out);
  }
};

struct SearchQuery : Command {
  std::string index_path, query, model_path;
  int64_t count = 5;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    add_option(app, "index", index_path, "Index of toy search build", file_name())->required();
    add_option(app, "query", query, "What to search for")->required();
    begin_group(app, "Output");
    add_option(app, "-k,--count", count, "Passages to print", at_least(1));
    app.add_flag("--json", json, "Print a JSON object per passage: score, file, line, text");
    begin_group(app, "Model");
    add_option(app, "--model", model_path, "The index's model, where it has moved (default: where it was)");
    begin_group(app, "Machine");
    device.add(app);
    show_in_help(app, {"--count", "--json", "--model", "--threads"});
    app.footer(
        "Scores are cosines. Every passage is compared, so none is missed.\n\n"
        "Example:\n  toy search query notes.index \"where do badgers sleep\"");
  }

  void run() {
    check(query.find_first_not_of(" \t\r\n") != query.npos, "query: it is empty; give a text");
    std::error_code absent;
    check(fs::exists(index_path, absent) || !fs::is_regular_file(query, absent),
          "{}: no such file; the index is the first argument: toy search query {} TEXT", index_path,
          shell_quoted(query));
    check(fs::exists(index_path, absent), "{}: no such file; toy search build MODEL FOLDER --out {} makes an index",
          index_path, shell_quoted(index_path));
    const SearchIndex index = SearchIndex::open(index_path);
    const bool is_given = !model_path.empty();
    model_path = is_given ? model_file(model_path) : index.model().path;
    std::error_code unknown;
    check(is_given || fs::exists(model_path, unknown),
          "{}: its model was {}, which is gone; say where it is with --model", index_path, model_path);
    check(checksum_of(model_path) == index.model().checksum,
          "{}: {} is not the model that it was made with, so vectors do not compare; make the index again, or give "
          "another --model",
          index_path, model_path);
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    std::vector<bool> cut;
    const std::vector<bind::TextToEmbed> text{{"query", query}};
    const auto ids =
        bind::ids_to_embed(model, model_path, text, index.model().query_prefix, "give a model that has one", cut);
    const EmbedOptions o = bind::EmbedTextOptions{.pooling = index.model().pooling}.of(model, "--");
    const auto vector = with_sound_weights({model_path}, [&] { return embed_tokens(*dev, model, ids, o); });
    for (const SearchIndex::Hit& hit : index.nearest(vector.front(), count)) {
      Passage p = index.passage(hit.passage);
      std::erase(p.text, '\r');
      if (json)
        print_json(
            {{"score", hit.score}, {"file", valid_utf8(p.file)}, {"line", p.line}, {"text", valid_utf8(p.text)}});
      else
        fmt::print("{:.3f}  {}:{}\n{}\n\n", hit.score, one_line(p.file), p.line, printable(p.text));
    }
  }
};

}  // namespace

void add_search(CLI::App& root) {
  CLI::App& app = add_command_group(root, "search", "Find passages of texts by meaning");
  add_subcommand<SearchBuild>(app, "build", "Write an index of files' passages");
  add_subcommand<SearchQuery>(app, "query", "Print the passages nearest to a text");
}

}  // namespace toy::cli
