#include "bind/convert.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"
#include "toy/chat/builtin.h"
#include "toy/formats/gguf.h"
#include "toy/formats/requantize.h"
#include "toy/hf/convert.h"
#include "toy/hf/peft.h"
#include "toy/models/save_as.h"
#include "toy/runs/run.h"

namespace toy::bind {
namespace {

namespace fs = std::filesystem;

// The folder of Hugging Face that `what` names, or a GGUF: of a run its model. What neither is stays.
std::string model_to_convert(const ModelFinder& finder, const std::string& what) {
  std::string in = what;
  if (const std::string listed = finder.listed(in, true); !listed.empty()) in = listed;
  const std::string run = finder.run(in);
  if (run.empty()) return in;
  const std::string model = runs::newest_model(run).file;
  if (model.empty() && !runs::newest_adapter(run).file.empty()) return finder.model(run);  // says what to do
  return model.empty() ? in : model;
}

// A new folder that is called like a file is a mistake.
void refuse_name_of_file(const std::string& out, std::string_view name) {
  if (fs::is_directory(out)) return;
  std::string ending = fs::path(out).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  check(ending != ".gguf", "{} is '{}'; the name of a GGUF ends with .gguf in small letters", name, out);
  for (const char* of_a_file : {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".json", ".onnx", ".zip"})
    check(ending != of_a_file, "{} is '{}', but becomes a folder of Hugging Face; did you mean '{}'?", name, out,
          fs::path(out).replace_extension().string());
}

}  // namespace

Conversion plan_conversion(const ModelFinder& finder, const std::string& what, const std::string& out,
                           std::string_view name) {
  const std::string in = model_to_convert(finder, what);
  check(!hf::is_peft_folder(in), "'{}' is an adapter; add it to its model: toy merge MODEL --lora {} --out {}", in,
        shell_quoted(in), shell_quoted(out));
  if (hf::is_model_folder(in)) {
    check(out.ends_with(".gguf"), "{} is '{}'; a folder becomes a GGUF, so use a name that ends with .gguf", name, out);
    return {Conversion::Kind::folder_to_gguf, in};
  }
  const std::string file = finder.model(in);
  std::error_code error;
  if (out.ends_with(".gguf") || fs::is_regular_file(out, error)) return {Conversion::Kind::gguf_to_gguf, file};
  refuse_name_of_file(out, name);
  return {Conversion::Kind::gguf_to_folder, file};
}

std::vector<std::string> convert(const std::string& what, const std::string& out, std::string_view json,
                                 const Between& between) {
  using enum Conversion::Kind;
  const auto given = read_options<ConvertFileOptions>("convert", json);
  hf::ConvertOptions o{.type = std::nullopt, .tokenizer = given.tokenizer, .reranker = given.reranker};
  o.progress = [&](size_t, size_t) { between(); };
  if (!given.type.empty()) {
    const StoredAs stored = parse_stored_as("type", given.type);
    check(stored.mix.empty(), "type is '{}'; use f32, f16 or bf16, or quantize()", given.type);
    o.type = stored.plain;
  }
  const auto chat_template = [&](const Tokenizer& tokenizer) {
    return chat_template_named(given.chat_template, tokenizer).source();
  };
  if (!given.chat_template.empty()) o.chat_template = chat_template;
  check(!out.empty(), "out is empty; give the name of a file or a folder");
  const auto [kind, in] = plan_conversion(ModelFinder(), what, out, "out");
  check(kind == folder_to_gguf || !given.reranker, "reranker is for Hugging Face folders; '{}' is none", in);
  if (kind == gguf_to_folder) {
    check(!given.overwrite, "overwrite replaces GGUF files; '{}' is a folder, so remove it first", out);
    return hf::convert_gguf(gguf::File::open(in), out, o).warnings;
  }
  require_free(out, in, given.overwrite);
  if (kind == folder_to_gguf) return hf::convert_folder(in, out, o).warnings;
  check(o.type || o.chat_template, "type is missing; matrices of a GGUF become f32, f16 or bf16, or use quantize()");
  check(given.tokenizer, "tokenizer=False: '{}' and '{}' are both GGUF files", in, out);
  const gguf::File file = gguf::File::open(in);
  gguf::RequantizeOptions r{.mix = given.type, .types = {}};
  if (o.chat_template) {
    const auto tokenizer = load_tokenizer(file);
    check(tokenizer != nullptr, "{}: the file has no tokenizer; leave out chat_template", in);
    r.metadata["tokenizer.chat_template"] = chat_template(*tokenizer);
  }
  gguf::requantize(file, out, r, [&](const gguf::RequantizedTensor&) { between(); });
  return {};
}

}  // namespace toy::bind
