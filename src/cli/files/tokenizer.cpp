// toy tokenizer: train, encode, decode.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/run/chat_template_option.h"
#include "cli/run/prompts.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/data/examples.h"
#include "toy/data/left_out.h"
#include "toy/data/text_files.h"
#include "toy/text/tokenizer.h"
#include "toy/train/data.h"

namespace toy::cli {
namespace {

// A GGUF file without tensors.
bool is_vocabulary(std::string_view beginning) {
  constexpr std::string_view kMagic = "GGUF";
  uint64_t tensors = 1;
  if (beginning.size() >= 16) std::memcpy(&tensors, beginning.data() + 8, sizeof tensors);
  return beginning.starts_with(kMagic) && tensors == 0;
}

std::shared_ptr<const Tokenizer> load_with_warning(const std::string& path) {
  auto t = load_tokenizer_file(path);
  if (t->kind() != "bpe") return t;
  if (const gguf::File file = gguf::File::open(path); !file.has("tokenizer.ggml.pre"))
    print_warnings(path, {try_load_tokenizer(file).warning});
  return t;
}

void add_tokenizer_file(CLI::App& app, std::string& model) {
  add_option(app, "model", model, "GGUF file, name in `toy list`, or SentencePiece .model file", file_name())
      ->required();
}

struct Train : Command {
  std::string corpus, data, chat_template, map, spec = "spm:512", out;
  void add(CLI::App& app) {
    add_option(app, "--corpus", corpus, "Text file or folder to train on; of more than 64 MiB, parts of all of it",
               file_name());
    add_option(app, "--data", data, "File of examples to train on, also next to --corpus: JSON Lines, .csv or .tsv",
               file_name());
    add_chat_template(app, chat_template, "With --data, the chat template; its marks become control tokens");
    add_option(app, "--map", map, "Fields of --data with other names, such as prompt=question,completion=reply");
    add_option(app, "--tokenizer", spec,
               "bpe:V (byte-level BPE), spm:V or unigram:V (SentencePiece) with V tokens, or bytes",
               suggested({"bytes", "bpe:", "spm:", "unigram:"}));
    add_option(app, "--out", out, "GGUF file to write, a vocabulary without weights", file_name())->required();
    app.footer(
        "A model is trained with it by --tokenizer. See toy help tokenizers.md.\n\n"
        "Examples:\n"
        "  toy tokenizer train --corpus book.txt --tokenizer spm:1024 --out vocab.gguf\n"
        "  toy tokenizer train --data chats.jsonl --chat-template chatml --tokenizer bpe:800 --out chat-vocab.gguf\n"
        "  toy train from-scratch --data chats.jsonl --tokenizer chat-vocab.gguf --out out/chat");
  }
  void run() const {
    check(given("--corpus") || given("--data"), "tokenizer train: give --corpus FILE or --data FILE");
    check(given("--data") || (chat_template.empty() && map.empty()), "{}: it says how rows of --data are read",
          chat_template.empty() ? "--map" : "--chat-template");
    refuse_overwriting("out", out, {{"--corpus", corpus}, {"--data", data}});
    refuse_other_ending("--out", out, ".gguf", "a GGUF file");
    refuse_replacing("out", out, is_vocabulary);
    gguf::Writer w("llama");
    const auto t = given("--data") ? of_examples(w) : make_tokenizer(spec, corpus_text());
    t->save(w);
    w.finish(out);
    to_stderr(fmt::format("{} tokens\n", t->vocab_size()));
    fmt::print("{}\n", out);
  }
  std::string corpus_text() const {
    if (corpus.empty()) return {};
    const TextFiles files = list_text_files(std::span(&corpus, 1));
    if (const std::string note = left_out_note(corpus, files); !note.empty()) to_stderr(one_line(note) + "\n");
    return sample_text(files.files, files.bytes(), uint64_t(DataOptions().tokenizer_bytes));
  }
  // The file keeps their chat template, too.
  std::shared_ptr<const Tokenizer> of_examples(gguf::Writer& w) const {
    std::optional<ChatTemplate> chat;
    if (!chat_template.empty()) chat = chat_template_named(chat_template);
    const ChatTemplate* given = chat ? &*chat : nullptr;
    if (chat) w.set("tokenizer.chat_template", chat->source());
    const ControlTokens control = control_tokens_of(given);
    const std::vector<TextFile> files = list_text_files(std::span(&data, 1)).files;
    const std::string text =
        corpus_text() + example_text(files, given, control, {.renamed = parse_field_map(map)}, 0, SIZE_MAX);
    return make_tokenizer(spec, text, &control);
  }
};

struct Encode : Command {
  std::string model, text, file;
  bool json = false, pieces = false, no_bos = false, parse_special = true;
  void add(CLI::App& app) {
    add_tokenizer_file(app, model);
    CLI::Option* text_option = add_text_option(app, "--text", text, "Text to encode");
    add_option(app, "--file", file, "File with the text; - reads standard input", file_name())->excludes(text_option);
    app.add_flag("--no-bos", no_bos, "Omit the tokens that begin and end a sequence");
    add_parse_special(app, parse_special);
    app.add_flag("--pieces", pieces, "Print the text of each id next to it, one per line");
    app.add_flag("--json", json, "Print a JSON array; with --pieces, of objects with id and text");
    app.footer(
        "Examples:\n"
        "  toy tokenizer encode out/book --text \"Once upon a time\" --pieces\n"
        "  toy tokenizer encode out/book --file book.txt > ids.txt");
  }
  void run() const {
    check(given("--text") || given("--file"), "tokenizer encode: give --text TEXT or --file FILE");
    const auto t = load_with_warning(model_file(model));
    const std::string content = given("--file") ? read_text(file, true) : text;
    const std::vector<int32_t> ids = ids_of(*t, content);
    if (pieces) return print_pieces(*t, ids);
    if (json) return print_json(ids);
    fmt::print("{}\n", fmt::join(ids, " "));
  }
  void print_pieces(const Tokenizer& t, const std::vector<int32_t>& ids) const {
    auto list = nlohmann::ordered_json::array();
    for (const int32_t id : ids)
      if (json)
        list.push_back({{"id", id}, {"text", t.written(id)}});
      else
        fmt::print("{:>7}  {}\n", id, json_text(nlohmann::json(t.written(id))));  // in quotes, so that spaces show
    if (json) print_json(list);
  }
  std::vector<int32_t> ids_of(const Tokenizer& t, const std::string& content) const {
    const EncodeOptions o{.parse_special = parse_special};
    return no_bos ? t.encode(content, o) : encode_complete(t, content, o);
  }
};

struct Decode : Command {
  std::string model;
  std::vector<std::string> words;
  bool json = false;
  void add(CLI::App& app) {
    add_tokenizer_file(app, model);
    add_option(app, "ids", words, "Token ids to decode: 1 2 3 or 1,2,3")->required();
    app.add_flag("--json", json, "Print a JSON string (replaces invalid UTF-8)");
    app.footer("Example:\n  toy tokenizer decode out/book 72 101 108");
  }
  void run() const {
    const std::vector<int32_t> ids = parse_ids("ids", fmt::format("{}", fmt::join(words, " ")));
    const auto t = load_with_warning(model_file(model));
    for (size_t i = 0; i < ids.size(); ++i)
      check(ids[i] >= 0 && ids[i] < t->vocab_size(), "ids: number {} is {}; the ids of {} are 0 to {}", i + 1, ids[i],
            model, t->vocab_size() - 1);
    const std::string bytes = t->decode(ids);
    if (json) return print_json(bytes);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  }
};

}  // namespace

void add_tokenizer(CLI::App& root) {
  CLI::App& app = add_command_group(root, "tokenizer", "Train a tokenizer, encode text, decode ids");
  add_subcommand<Train>(app, "train", "Train a vocabulary on a text");
  add_subcommand<Encode>(app, "encode", "Print the ids of a text");
  add_subcommand<Decode>(app, "decode", "Print the exact bytes of ids");
}

}  // namespace toy::cli
