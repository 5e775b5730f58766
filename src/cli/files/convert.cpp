// toy convert: a model in another form.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bind/files.h"
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
#include "toy/hf/peft.h"
#include "toy/runs/run.h"

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
    rewrite.in = bind::model_to_convert(finder(), rewrite.in);
    check(!hf::is_peft_folder(rewrite.in),
          "'{0}' is an adapter; add it to its model: toy merge MODEL --lora {0} --out {1}", rewrite.in, rewrite.out);
    refuse_adapter_run();
    if (hf::is_model_folder(rewrite.in)) {
      check(rewrite.out.ends_with(".gguf"), "OUT is '{}'; a folder becomes a GGUF, so use a name that ends with .gguf",
            rewrite.out);
      rewrite.check_out();
      return convert([&](const hf::ConvertOptions& o) { return hf::convert_folder(rewrite.in, rewrite.out, o); });
    }
    check(!reranker, "--reranker is for Hugging Face folders; '{}' is none", rewrite.in);
    rewrite.in = model_file(rewrite.in);
    const gguf::File file = gguf::File::open(rewrite.in);
    const bool is_file = rewrite.out.ends_with(".gguf") || std::filesystem::is_regular_file(rewrite.out);
    if (is_file) rewrite.check_out();
    if (!is_file) {
      check(!rewrite.overwrite, "--overwrite replaces GGUF files; '{}' is a folder, so remove it first", rewrite.out);
      refuse_name_of_file();
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
  void refuse_adapter_run() const {
    const std::filesystem::path run = rewrite.in;
    std::error_code error;
    const auto has = [&](const char* file) { return std::filesystem::exists(run / file, error); };
    check(!has(runs::kAdapterFile) || !has(runs::kEventsFile),
          "'{0}' is a run that made an adapter; add it to its model: toy merge MODEL --lora {0} --out {1}", rewrite.in,
          rewrite.out);
  }
  // A new folder that is called like a file is a mistake.
  void refuse_name_of_file() const {
    std::string ending = std::filesystem::path(rewrite.out).extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    if (std::filesystem::is_directory(rewrite.out)) return;
    check(ending != ".gguf", "OUT is '{}'; the name of a GGUF ends with .gguf in small letters", rewrite.out);
    for (const char* of_a_file : {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".json", ".onnx", ".zip"})
      check(ending != of_a_file, "OUT is '{0}', but becomes a folder of Hugging Face; did you mean '{1}'?", rewrite.out,
            std::filesystem::path(rewrite.out).replace_extension().string());
  }

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
