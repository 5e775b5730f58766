// toy convert: a model in another form.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bind/convert.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/files/rewrite.h"
#include "cli/options.h"
#include "cli/run/chat_template_option.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/run_files.h"
#include "toy/chat/builtin.h"
#include "toy/hf/convert.h"

namespace toy::cli {
namespace {

std::optional<DType> float_type(const std::string& name) {
  for (const DTypeInfo& t : kDTypes)
    if (t.name == name) return t.type;
  return std::nullopt;
}

struct Convert : Command {
  Rewrite rewrite;
  bool no_tokenizer = false, reranker = false;
  std::string chat_template;

  void add(CLI::App& app) {
    rewrite.brief = true;
    add_option(app, "in", rewrite.in, "Model to read: Hugging Face folder, GGUF file, name in `toy list`, or a run",
               file_name())
        ->required();
    add_option(app, "out", rewrite.out, "NAME.gguf to write; any other name is a Hugging Face folder", file_name())
        ->required();
    add_option(app, "--type", rewrite.type,
               "Type of the matrices; default for a folder or with --chat-template: as they are",
               one_of({"f32", "f16", "bf16"}));
    app.add_flag("--no-tokenizer", no_tokenizer, "Leave the tokenizer out");
    app.add_flag("--reranker", reranker, "The folder is a Qwen3-Reranker, which answers yes or no (toy rerank)");
    add_chat_template(app, chat_template, "Chat template to write");
    begin_group(app, "Output");
    add_overwrite(app, rewrite.overwrite);
    app.add_flag("--json", rewrite.json, "Print a JSON object");
    app.footer(
        "A folder from Hugging Face (config.json, safetensors, tokenizer) becomes a GGUF, and a GGUF such a folder.\n"
        "With --type, quantized matrices of a GGUF become floats with the values that they stand for.\n\n"
        "Examples:\n"
        "  toy convert SmolLM2-135M smollm2.gguf\n"
        "  toy convert smollm2.gguf smollm2-hf\n"
        "  toy convert model-q4_k_m.gguf model-f32.gguf --type f32");
  }

  void run() {
    using enum bind::Conversion::Kind;
    const auto [kind, in] = bind::plan_conversion(finder(), rewrite.in, rewrite.out, "OUT");
    rewrite.in = in;
    check(kind == folder_to_gguf || !reranker, "--reranker is for Hugging Face folders; '{}' is none", in);
    if (kind != gguf_to_folder) rewrite.check_out();
    if (kind == folder_to_gguf)
      return convert([&](const hf::ConvertOptions& o) { return hf::convert_folder(rewrite.in, rewrite.out, o); });
    const gguf::File file = gguf::File::open(in);
    if (kind == gguf_to_folder) {
      check(!rewrite.overwrite, "--overwrite replaces GGUF files; '{}' is a folder, so remove it first", rewrite.out);
      return convert([&](const hf::ConvertOptions& o) { return hf::convert_gguf(file, rewrite.out, o); });
    }
    check(!rewrite.type.empty() || !chat_template.empty(),
          "--type is missing; matrices of a GGUF become f32, f16 or bf16 (with --chat-template they may stay as they "
          "are)");
    check(!no_tokenizer, "--no-tokenizer: '{}' and '{}' are both GGUF files", rewrite.in, rewrite.out);
    gguf::RequantizeOptions o{.mix = rewrite.type, .types = {}};
    if (!chat_template.empty()) {
      const auto tokenizer = load_tokenizer(file);
      check(tokenizer != nullptr, "{}: the file has no tokenizer; leave out --chat-template", rewrite.in);
      o.metadata["tokenizer.chat_template"] = template_for(*tokenizer);
    }
    rewrite.run(file, o);
  }

 private:
  std::string template_for(const Tokenizer& tokenizer) const {
    return chat_template_named(chat_template, tokenizer).source();
  }
  // From or to a Hugging Face folder.
  void convert(const std::function<hf::Converted(const hf::ConvertOptions&)>& work) const {
    hf::ConvertOptions options{.type = float_type(rewrite.type), .tokenizer = !no_tokenizer, .reranker = reranker};
    if (!chat_template.empty()) options.chat_template = [this](const Tokenizer& t) { return template_for(t); };
    if (const auto done = convert_with_progress(std::move(options), work)) print(*done);
  }

  void print(const hf::Converted& done) const {
    print_warnings(rewrite.in, done.warnings);
    const bool is_folder = std::filesystem::is_directory(rewrite.out);
    const size_t bytes = std::filesystem::file_size(is_folder ? rewrite.out + "/model.safetensors" : rewrite.out);
    if (rewrite.json)
      return print_json({{"model", rewrite.in},
                         {"out", rewrite.out},
                         {"class", done.class_name},
                         {"architecture", done.architecture},
                         {"tensors", done.tensors},
                         {"bytes", bytes},
                         {"warnings", done.warnings}});
    fmt::print("{} tensors of {}, {}\n{}\n", done.tensors, done.class_name, format_bytes(bytes), rewrite.out);
  }
};

}  // namespace

void add_convert(CLI::App& app) {
  add_subcommand<Convert>(app, "convert", "Convert between Hugging Face folders and GGUF, or to floats");
}

}  // namespace toy::cli
