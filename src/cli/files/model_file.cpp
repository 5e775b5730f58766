#include "cli/files/model_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "cli/console.h"
#include "cli/help.h"
#include "fetch/catalog.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/hf/peft.h"
#include "toy/models/adapter.h"
#include "toy/runs/run.h"
#include "toy/tensor/convert.h"

namespace toy::cli {

namespace fs = std::filesystem;

CLI::Option* add_model_option(CLI::App& app, std::string& model) {
  return add_option(app, "model", model, "GGUF file, name in `toy list`, a run's folder, or its id", file_name());
}

std::string run_folder(const std::string& what) {
  std::error_code error;
  if (what.empty()) return {};
  if (fs::exists(what, error)) return fs::is_directory(what, error) ? what : "";
  if (fs::path(what).filename() != what) return {};  // a path that leads nowhere is no id
  for (const char* root : {"runs", "out"})           // where --out puts them
    if (const fs::path run = fs::path(root) / what; fs::is_directory(run, error)) return run.string();
  if (const auto run = runs::find_run(what, kRunRoots, true)) return *run;
  // A model of `toy list` goes before a run whose id only begins so.
  if (!catalog::find(what, catalog::list(catalog::default_places())).empty()) return {};
  return runs::find_run(what, kRunRoots).value_or("");
}

namespace {

// Says on stderr why it is the file of a checkpoint.
std::string told(const runs::Made& made) {
  if (!made.note.empty()) to_stderr(fmt::format("toy: {}; using {}\n", made.note, one_line(made.file)));
  return made.file;
}

}  // namespace

std::string listed_model(const std::string& what, bool takes_folders) {
  std::error_code error;
  if (what.empty() || what == "-" || fs::exists(what, error)) return {};
  const std::string path = catalog::find(what, catalog::list(catalog::default_places()));
  check(takes_folders || !fs::is_directory(path, error),
        "{0}: a repository in safetensors; convert it first: toy convert {0} OUT.gguf", what);
  if (!path.empty()) to_stderr(fmt::format("toy: using {}\n", one_line(path)));
  return path;
}

void refuse_hugging_face(const std::string& folder) {
  if (hf::is_peft_folder(folder))
    fail("{0}: an adapter of PEFT; give the model that it belongs to, and --lora {0} (toy merge makes one model)",
         folder);
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json"}) {
    if (!fs::exists(fs::path(folder) / weights)) continue;
    check(fs::exists(fs::path(folder) / "config.json"),
          "{}: the folder has {}, but no config.json; download the complete repository", folder, weights);
    fail("{}: a folder from Hugging Face; convert it first (toy convert FOLDER OUT.gguf)", folder);
  }
}

std::string model_file(const std::string& what) {
  const std::string folder = run_folder(what);
  if (folder.empty()) {
    const std::string listed = listed_model(what);
    return listed.empty() ? what : listed;  // a file, or nothing: whoever opens it says so
  }
  const runs::Made made = runs::newest_model(folder);
  if (std::error_code error; made.file.empty() && fs::exists(fs::path(folder) / runs::kAdapterFile, error))
    fail("{0}: the run made an adapter; give the model that it belongs to, and --lora {0}", folder);
  if (made.file.empty()) refuse_hugging_face(folder);
  check(!made.file.empty(),
        "{}: the folder has no model.gguf and no checkpoint; train a model first, or give a GGUF file", folder);
  return told(made);
}

void refuse_broken_weights(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  for (const gguf::TensorInfo& t : file.tensors()) {
    if (!t.dtype || is_quantized(*t.dtype)) continue;
    const View values(const_cast<std::byte*>(t.data), *t.dtype, t.shape);
    for (int64_t i = 0; i < values.count(); ++i)
      if (const double v = element(values, i); !std::isfinite(v))
        fail("{}: tensor '{}' holds {}, so the file is broken; download or convert it again", path, t.name,
             std::isnan(v) ? "NaN" : "infinity");
  }
}

void AdapterOptions::add(CLI::App& app, bool named) {
  named_ = named;
  begin_group(app, "Model");
  if (named)
    add_option(app, "--lora", lora, "Adapter as a model of its own, maybe times :SCALE")
        ->option_text("[NAME=]FILE[:SCALE]");
  else
    add_option(app, "--lora", lora, "Adapter: a GGUF, the folder of a run or of PEFT, maybe times :SCALE")
        ->option_text("FILE[:SCALE]");
}

namespace {

// "out/letters", "out/letters/adapter.gguf", "out/letters/peft" and "letters.gguf" are "letters".
std::string name_of_adapter(const std::string& given) {
  fs::path path = fs::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == runs::kAdapterFile || path.filename() == runs::kPeftFolder) path = path.parent_path();
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

}  // namespace

std::string adapter_file(const std::string& what) {
  const std::string folder = run_folder(what);
  if (folder.empty()) return what;
  const runs::Made made = runs::newest_adapter(folder);
  check(!made.file.empty(),
        "lora: the folder {} has no adapter.gguf and no checkpoint with one; train one with toy train lora", folder);
  return told(made);
}

std::vector<AdapterOptions::Given> AdapterOptions::given() const {
  std::vector<Given> list;
  std::error_code error;
  for (const std::string& text : lora) {
    Given g{text};
    const size_t sign = text.find('=');
    const bool says_name = named_ && sign != text.npos && sign > 0 && !fs::exists(text, error);
    if (says_name) g.name = text.substr(0, sign), g.path = text.substr(sign + 1);
    const std::string given = g.path;
    if (const size_t colon = given.rfind(':'); colon != given.npos && colon > 0 && !fs::exists(given, error)) {
      const char* begin = given.c_str() + colon + 1;
      char* end = nullptr;
      g.scale = std::strtod(begin, &end);
      check(end != begin && *end == 0 && std::isfinite(g.scale),
            "lora: '{}' is no file, and its scale '{}' is no number; use FILE or FILE:SCALE", given, begin);
      g.path = given.substr(0, colon);
    }
    if (!says_name) g.name = name_of_adapter(g.path);
    if (!hf::is_peft_folder(g.path)) g.path = adapter_file(g.path);
    list.push_back(g);
  }
  return list;
}

void AdapterOptions::apply(Model& model, const std::vector<Given>& given) {
  for (const Given& g : given)
    if (hf::is_peft_folder(g.path))
      hf::load_peft(model, g.path, g.scale);
    else
      load_adapter(model, g.path, g.scale);
}

void require_tokenizer(const Model& model, const std::string& path, const char* way_out) {
  if (model.tokenizer) return;
  const std::string unsupported = unsupported_tokenizer(gguf::File::open(path));
  check(!unsupported.empty(), "{}: the file has no tokenizer; {}", path, way_out);
  fail("{}: {}, only {}; {}", path, unsupported, kSupportedTokenizers, way_out);
}

}  // namespace toy::cli
