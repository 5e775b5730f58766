#include "bind/find_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "fetch/catalog.h"
#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/nearest.h"
#include "toy/base/user_cache.h"
#include "toy/base/utf8.h"
#include "toy/hf/peft.h"
#include "toy/models/adapter.h"
#include "toy/runs/run.h"
#include "toy/tensor/convert.h"

namespace toy {

namespace fs = std::filesystem;

std::string ModelFinder::run_folder(const std::string& what) const {
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

// Tells why it is the file of a checkpoint.
std::string ModelFinder::told(const std::string& file, const std::string& note) const {
  if (!note.empty()) tell(fmt::format("{}; using {}", note, one_line(file)));
  return file;
}

std::string ModelFinder::listed_model(const std::string& what, bool takes_folders) const {
  std::error_code error;
  if (what.empty() || what == "-" || fs::exists(what, error)) return {};
  const std::string path = catalog::find(what, catalog::list(catalog::default_places()));
  if (path.empty()) return {};
  tell(fmt::format("using {}", one_line(path)));
  return takes_folders ? path : converted_folder(path).value_or(path);
}

std::optional<std::string> ModelFinder::converted_folder(const std::string& folder) const {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return std::nullopt;
  if (hf::is_peft_folder(folder))
    fail("{0}: an adapter of PEFT; give the model that it belongs to, and --lora {0} (toy merge makes one model)",
         folder);
  const fs::path path = fs::canonical(folder);
  const bool has_weights = fs::exists(path / "model.safetensors") || fs::exists(path / "model.safetensors.index.json");
  if (!has_weights) return std::nullopt;
  check(hf::is_model_folder(folder), "{}: the folder has weights, but no config.json; download the complete repository",
        folder);
  std::set<std::string> files;  // what the model is made of, and when that changed
  for (const fs::directory_entry& e : fs::directory_iterator(path))
    if (e.is_regular_file())
      files.insert(fmt::format("{} {} {}\n", e.path().filename().string(), e.file_size(),
                               e.last_write_time().time_since_epoch().count()));
  const std::string own = fmt::format("{}-{}-", path.filename().string(), checksum_text(xxh64(path.string())));
  const fs::path cache = user_cache().empty() ? fs::path() : fs::path(user_cache()) / "models";
  const fs::path file =
      cache / fmt::format("{}{}.gguf", own, checksum_text(xxh64(fmt::format("{}", fmt::join(files, "")))));
  if (fs::exists(file, error)) return file.string();
  check(
      !cache.empty() && make_writable(cache.string()),
      "{}: a folder from Hugging Face, and the cache for its GGUF cannot be written; convert it first: toy convert {} "
      "OUT.gguf",
      folder, folder);
  const FolderLock lock(cache.string(), [&] { tell("another process converts a folder; waiting for it"); });
  if (fs::exists(file, error)) return file.string();
  tell(fmt::format("{}: a folder from Hugging Face, converted once to {}", one_line(folder), one_line(file.string())));
  const auto done = convert([&](const hf::ConvertOptions& o) { return hf::convert_folder(folder, file.string(), o); });
  if (done) warn(folder, done->warnings);
  for (const fs::directory_entry& e : fs::directory_iterator(cache))  // of what the folder held before
    if (e.path() != file && e.path().extension() == ".gguf" && e.path().filename().string().starts_with(own))
      fs::remove(e.path(), error);
  return file.string();
}

namespace {

[[noreturn]] void no_model(const std::string& what) {
  std::vector<std::string> names = runs::find_runs(".");
  for (const catalog::Entry& e : catalog::list(catalog::default_places())) names.push_back(e.name);
  std::error_code error;
  const fs::path folder = fs::path(what).parent_path();
  for (fs::directory_iterator i(folder.empty() ? "." : folder, error), end; !error && i != end; i.increment(error))
    if (i->path().extension() == ".gguf") names.push_back((folder / i->path().filename()).string());
  const std::string near = nearest(what, names);
  const bool is_path = what.find('/') != what.npos || folder / what != fs::path(what) || what.ends_with(".gguf");
  fail("{}: no such file, no run below this folder, and no model of `toy list`; {}", what,
       !near.empty() ? fmt::format("did you mean '{}'?", near)
       : is_path     ? "check the path"
                     : "`toy fetch OWNER/REPO` downloads one");
}

}  // namespace

std::string ModelFinder::model_file(const std::string& what) const {
  const std::string folder = run_folder(what);
  std::error_code error;
  if (folder.empty()) {
    const std::string listed = listed_model(what);
    if (listed.empty() && !fs::exists(what, error)) no_model(what);
    return listed.empty() ? what : listed;
  }
  const runs::Made made = runs::newest_model(folder);
  if (!made.file.empty()) return told(made.file, made.note);
  check(!fs::exists(fs::path(folder) / runs::kAdapterFile, error),
        "{0}: the run made an adapter; give the model that it belongs to, and --lora {0}", folder);
  if (const auto converted = converted_folder(folder)) return *converted;
  std::vector<std::string> runs = runs::find_runs(folder);
  std::erase_if(runs, [](const std::string& run) { return runs::newest_model(run).file.empty(); });
  check(runs.empty(), "{}: a folder of runs; give one of {}", folder, fmt::join(runs, ", "));
  fail(
      "{}: the folder has no model.gguf, no checkpoint and no weights of Hugging Face; train a model first, or "
      "give a GGUF file",
      folder);
}

std::string ModelFinder::tokenizer_file(const std::string& what) const {
  std::error_code error;
  const bool known =
      !is_tokenizer_spec(what) && (fs::exists(what, error) || !run_folder(what).empty() ||
                                   !catalog::find(what, catalog::list(catalog::default_places())).empty());
  return known ? model_file(what) : what;
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

namespace {

// "out/letters", "out/letters/adapter.gguf", "out/letters/peft" and "letters.gguf" are "letters".
std::string name_of_adapter(const std::string& given) {
  fs::path path = fs::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == runs::kAdapterFile || path.filename() == runs::kPeftFolder) path = path.parent_path();
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

}  // namespace

std::string ModelFinder::adapter_file(const std::string& what) const {
  const std::string folder = run_folder(what);
  if (folder.empty()) return what;
  const runs::Made made = runs::newest_adapter(folder);
  check(!made.file.empty(),
        "lora: the folder {} has no adapter.gguf and no checkpoint with one; train one with toy train lora", folder);
  return told(made.file, made.note);
}

GivenAdapter parse_adapter(const std::string& text, bool named, const ModelFinder& finder) {
  std::error_code error;
  GivenAdapter g{text};
  const size_t sign = text.find('=');
  const bool says_name = named && sign != text.npos && sign > 0 && !fs::exists(text, error);
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
  if (!hf::is_peft_folder(g.path)) g.path = finder.adapter_file(g.path);
  return g;
}

void apply_adapters(Model& model, const std::vector<GivenAdapter>& given) {
  for (const GivenAdapter& g : given)
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

}  // namespace toy
