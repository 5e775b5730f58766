#include "toy/find/find_model.h"
#include "toy/base/shell_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "find/catalog.h"
#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/gguf_name.h"
#include "toy/base/hub_address.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/run_files.h"
#include "toy/base/user_cache.h"
#include "toy/base/utf8.h"
#include "toy/hf/peft.h"
#include "toy/runs/run.h"
#include "toy/text/tokenizer.h"

namespace toy {

namespace fs = std::filesystem;

std::string ModelFinder::run(const std::string& what) const {
  std::error_code error;
  if (what.empty()) return {};
  if (fs::exists(what, error)) return fs::is_directory(what, error) ? what : "";
  if (fs::path(what).filename() != what) return {};  // a path that leads nowhere is no id
  for (const char* root : {"runs", "out"})           // where --out puts them
    if (const fs::path run = fs::path(root) / what; fs::is_directory(run, error)) return run.string();
  if (const auto run = runs::find_run(what, roots, true)) return *run;
  // A model of `toy list` goes before a run whose id only begins so.
  if (!catalog::find(what, catalog::list(catalog::default_places())).empty()) return {};
  return runs::find_run(what, roots).value_or("");
}

namespace {

// Says why it is the file of a checkpoint.
std::string told(const ModelFinder& finder, const runs::Made& made) {
  if (!made.note.empty()) finder.say(fmt::format("{}; using {}", made.note, one_line(made.file)));
  return made.file;
}

// As Hugging Face names them.
bool has_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "model.safetensors", error) || fs::exists(folder / "model.safetensors.index.json", error);
}

}  // namespace

std::string ModelFinder::listed(const std::string& what, bool takes_folders) const {
  std::error_code error;
  if (what.empty() || what == "-" || fs::exists(what, error)) return {};
  const std::string path = catalog::find(what, catalog::list(catalog::default_places()));
  if (path.empty()) return {};
  say(fmt::format("using {}", one_line(path)));
  return takes_folders ? path : converted(path).value_or(path);
}

std::optional<std::string> ModelFinder::converted(const std::string& folder) const {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return std::nullopt;
  if (hf::is_peft_folder(folder))
    fail("{}: an adapter of PEFT; give the model that it belongs to, and --lora {} (toy merge makes one model)", folder,
         shell_quoted(folder));
  const fs::path path = fs::canonical(folder);
  if (!has_weights(path)) return std::nullopt;
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
      folder, shell_quoted(folder));
  const FolderLock lock(cache.string(), [&] { say("another process converts a folder; waiting for it"); });
  if (fs::exists(file, error)) return file.string();
  say(fmt::format("{}: a folder from Hugging Face, converted once to {}", one_line(folder), one_line(file.string())));
  convert([&](const hf::ConvertOptions& o) {
    hf::Converted done = hf::convert_folder(folder, file.string(), o);
    for (const std::string& warning : done.warnings) say(fmt::format("{}: {}", one_line(folder), one_line(warning)));
    return done;
  });
  for (const fs::directory_entry& e : fs::directory_iterator(cache))  // of what the folder held before
    if (e.path() != file && e.path().extension() == ".gguf" && e.path().filename().string().starts_with(own))
      fs::remove(e.path(), error);
  return file.string();
}

std::string folder_of_part(const std::string& file) {
  const fs::path path(file), folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string name = path.filename().string();
  const bool is_part = name == "config.json" || name == "tokenizer.json" || name == "tokenizer_config.json" ||
                       name == "generation_config.json" || name == "model.safetensors.index.json" ||
                       path.extension() == ".safetensors";
  std::error_code error;
  const bool is_model = is_part && hf::is_model_folder(folder.string()) && has_weights(folder);
  return is_model && fs::is_regular_file(path, error) ? folder.string() : "";
}

void refuse_no_name(const std::string& what) {
  const std::string fetch = fetch_of_address(what), why = why_no_path(what);
  check(fetch.empty(), "{}: it is an address; {} downloads the model", what, fetch);
  check(why.empty(), "{}: {}", what, why);
}

std::optional<std::string> base_of_adapter(const std::string& folder) {
  try {
    const runs::Summary run = runs::summarize_file((fs::path(folder) / runs::kEventsFile).string(), folder, false);
    return parse_json<nlohmann::json>(run.config.text).at("model").get<std::string>();
  } catch (const std::exception&) {  // a folder without its log
    return std::nullopt;
  }
}

namespace {

// "smollm2" of "models/SmolLM2-135M.gguf"
bool begins_the_name_of(const std::string& what, const std::string& name) {
  const std::string beginning =
                        fs::path(what.ends_with(".gguf") ? what.substr(0, what.size() - 5) : what).filename().string(),
                    last = fs::path(name).filename().string();
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return beginning.size() >= 3 && beginning.size() < last.size() &&
         std::ranges::equal(beginning, std::string_view(last).substr(0, beginning.size()), same);
}

// config.json, tokenizer.json and the weights: of a model's folder.
void refuse_part(const std::string& file) {
  const std::string folder = folder_of_part(file);
  check(folder.empty(), "{}: it is a part of a model; give the model's folder, {}", file, shell_quoted(folder));
}

// The GGUF files in a folder, by name; of a model that is split over files the first.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    if (const std::optional<SplitName> split = find_split(i->path().string());
        i->path().extension() == ".gguf" && (!split || split->part == 1))
      files.push_back(shell_quoted(i->path().string()));
  std::ranges::sort(files);
  return files;
}

[[noreturn]] void no_model(const std::string& what, const std::vector<std::string>& roots) {
  refuse_no_name(what);
  std::vector<std::string> names;
  for (const std::string& root : roots) std::ranges::copy(runs::find_runs(root), std::back_inserter(names));
  for (const catalog::Entry& e : catalog::list(catalog::default_places())) names.push_back(e.name);
  std::error_code error;
  const fs::path folder = fs::path(what).parent_path();
  for (fs::directory_iterator i(folder.empty() ? "." : folder, error), end; !error && i != end; i.increment(error))
    if (i->path().extension() == ".gguf") names.push_back((folder / i->path().filename()).string());
  std::string near = nearest_path(what, names);
  if (const auto longer = std::ranges::find_if(names, [&](const auto& n) { return begins_the_name_of(what, n); });
      near.empty() && longer != names.end())
    near = *longer;
  if (near.empty() && what.find(' ') != what.npos && what.find('/') == what.npos)  // no name of a model has one
    fail(
        "{}: no such file, no run below this folder, and no model of `toy list`; the model is the first argument, and "
        "a text comes after it",
        what);
  const size_t slash = what.find('/'), colon = what.find(':');
  const auto plain = [](std::string_view part) {  // as owners and repositories are called
    return !part.empty() && part[0] != '.' && part[0] != '~' && part.find_first_of("/\\ :") == part.npos;
  };
  const bool is_ours = what.starts_with("out/") || what.starts_with("runs/") || what.starts_with("models/");
  if (near.empty() && !is_ours && !what.ends_with(".gguf") && slash != what.npos && !fs::exists(folder, error) &&
      plain(what.substr(0, slash)) && plain(what.substr(slash + 1)))
    fail(
        "{0}: no such file, no run below this folder, and no model of `toy list`; `toy fetch {0}` downloads a "
        "repository of the Hugging Face hub",
        what);
  if (near.empty() && slash == what.npos && colon != what.npos && plain(what.substr(0, colon)))
    fail(
        "{}: no such file, no run below this folder, and no model of `toy list`; the name is one of Ollama, whose "
        "models are found here after `ollama pull`, or use `toy fetch OWNER/REPO` such as "
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        what);
  const bool is_path = what.find('/') != what.npos || folder / what != fs::path(what) || what.ends_with(".gguf");
  fail("{}: no such file, no run below this folder, and no model of `toy list`; {}", what,
       !near.empty() ? fmt::format("did you mean '{}'?", near)
       : is_ours && !what.starts_with("models/") && !what.ends_with(".gguf")
           ? "toy train ... --out of that name makes one; or go to the folder where you trained"
       : is_path ? "check the path"
                 : "`toy fetch OWNER/REPO` downloads one");
}

}  // namespace

std::string ModelFinder::model(const std::string& what) const {
  const std::string folder = run(what);
  std::error_code error;
  if (folder.empty()) {
    const std::string known = listed(what);
    if (known.empty() && !fs::exists(what, error)) no_model(what, roots);
    if (known.empty()) refuse_part(what);
    return known.empty() ? what : known;
  }
  const runs::Made made = runs::newest_model(folder);
  if (!made.file.empty()) return told(*this, made);
  if (fs::exists(fs::path(folder) / runs::kAdapterFile, error)) {
    const std::string base = base_of_adapter(folder).value_or("MODEL");
    fail(
        "{0}: the run made an adapter of {1}; commands that run a model take {2} --lora {3}, others one model of both: "
        "toy merge {2} --lora {3} --out FILE",
        folder, base, shell_quoted(base), shell_quoted(folder));
  }
  if (const auto file = converted(folder)) return *file;
  std::vector<std::string> runs = runs::find_runs(folder);
  std::erase_if(runs, [](const std::string& run) { return runs::newest_model(run).file.empty(); });
  check(runs.empty(), "{}: a folder of runs; give one of {}", folder, fmt::join(runs, ", "));
  check(!fs::is_empty(folder, error) || error,
        "{}: the folder is empty; give a GGUF file, a run, or a folder of Hugging Face (config.json, *.safetensors)",
        folder);
  const std::vector<std::string> files = files_in(folder);
  check(files.empty(), "{}: a folder of GGUF files; give {}{}", folder, files.size() > 1 ? "one of " : "",
        fmt::join(files, ", "));
  fail(
      "{}: the folder has no model.gguf, no checkpoint and no weights of Hugging Face; train a model first, or "
      "give a GGUF file",
      folder);
}

std::string ModelFinder::model_of_resumed(const std::string& what, const std::string& out) const {
  std::error_code error;
  const std::string folder = run(what);
  if (!folder.empty() && fs::equivalent(folder, out, error))
    if (const fs::path replaced = fs::path(folder) / runs::kModelFile; fs::exists(replaced, error))
      return replaced.string();
  return model(what);
}

std::string ModelFinder::tokenizer(const std::string& what) const {
  std::error_code error;
  const bool known =
      !is_tokenizer_spec(what) && (fs::exists(what, error) || !run(what).empty() ||
                                   !catalog::find(what, catalog::list(catalog::default_places())).empty());
  return known ? model(what) : what;
}

std::string ModelFinder::adapter(const std::string& what) const {
  const std::string folder = run(what);
  if (folder.empty()) return what;
  const runs::Made made = runs::newest_adapter(folder);
  std::error_code error;
  check(!made.file.empty() || !fs::exists(fs::path(folder) / runs::kModelFile, error),
        "lora: the run {0} made a model, and no adapter; toy infer {0} uses it, and toy train lora trains an adapter",
        folder);
  check(!made.file.empty(),
        "lora: the folder {} has no adapter.gguf and no checkpoint with one; train one with toy train lora", folder);
  return told(*this, made);
}

}  // namespace toy
