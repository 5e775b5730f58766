#include "find/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/quant_mix.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/json_text.h"

namespace toy::catalog {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string text_of(const fs::path& path) {
  constexpr std::streamsize kMost = 1 << 20;  // manifests and refs are far smaller
  std::ifstream in(path, std::ios::binary);
  std::string text(size_t(kMost), '\0');
  in.read(text.data(), kMost);
  text.resize(size_t(in.gcount()));
  return text;
}

// Folders and files in it, sorted; none where it cannot be read.
std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) all.push_back(i->path());
  std::sort(all.begin(), all.end());
  return all;
}

// The regular files below it that `wanted` takes, as paths from there, sorted. Links to folders are not followed.
template <class Wanted>
std::vector<fs::path> files_below(const fs::path& folder, Wanted wanted) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && i != end; i.increment(error)) {
    std::error_code ignored;
    if (i.depth() > 16) i.disable_recursion_pending();
    if (wanted(i->path()) && fs::is_regular_file(i->path(), ignored))
      all.push_back(i->path().lexically_relative(folder));
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

// Files that go with models and are none, and parts of one after the first that is there.
bool is_other_file(const fs::path& path) {
  if (const auto split = split_name(path.string()); split && split->part > 1) {
    std::error_code error;
    for (int part = 1; part < split->part; ++part)
      if (fs::is_regular_file(split->of(part), error)) return true;
  }
  const std::string type = gguf::type_of_file(path.string());
  if (type == "mmproj" || type == "imatrix" || type == "adapter") return true;
  return type.empty() && is_side_file_name(path.string());
}

bool is_safetensors(const fs::path& path) { return path.extension() == ".safetensors"; }

class List {
 public:
  explicit List(std::string source) : source_(std::move(source)) {}
  void add(std::string name, const fs::path& path) {
    std::error_code error;
    Entry e{std::move(name), path.string(), source_, fs::file_size(path, error)};
    if (error || !fs::is_regular_file(path, error) || is_other_file(path)) return;
    if (const auto split = find_split(path.string()))
      for (int part = 1; part <= split->parts; ++part) {
        if (part == split->part) continue;
        const uint64_t more = fs::file_size(split->of(part), error);
        e.bytes += error ? 0 : more;
        e.missing += error ? 1 : 0;
      }
    entries_.push_back(std::move(e));
  }
  // A folder of config.json and safetensors.
  void add_folder(std::string name, const fs::path& folder) {
    std::error_code error;
    if (!fs::is_regular_file(folder / "config.json", error)) return;
    uint64_t bytes = 0;
    for (const fs::path& file : files_below(folder, is_safetensors)) bytes += fs::file_size(folder / file, error);
    if (bytes > 0) entries_.push_back({std::move(name), folder.string(), source_, bytes, true});
  }
  std::vector<Entry> entries() && { return std::move(entries_); }

 private:
  std::string source_;
  std::vector<Entry> entries_;
};

// models--OWNER--NAME/snapshots/COMMIT/FILE, links into blobs; refs/main names the commit that was asked for last.
std::vector<Entry> hugging_face(const fs::path& cache) {
  List list("Hugging Face");
  for (const fs::path& repo : children(cache)) {
    constexpr std::string_view kPrefix = "models--", kSlash = "--";
    std::string name = repo.filename().string();
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const size_t at = name.find(kSlash); at != name.npos) name.replace(at, kSlash.size(), "/");
    std::vector<fs::path> snapshots = children(repo / "snapshots");
    const std::string main = text_of(repo / "refs" / "main");
    std::stable_partition(snapshots.begin(), snapshots.end(),
                          [&](const fs::path& s) { return s.filename().string() == main.substr(0, main.find('\n')); });
    std::set<fs::path> seen;  // a file of several commits is that of the first
    for (const fs::path& snapshot : snapshots)
      for (const fs::path& file : files_below(snapshot, is_gguf))
        if (seen.insert(file).second) list.add(name + "/" + file.generic_string(), snapshot / file);
    if (seen.empty() && !snapshots.empty()) list.add_folder(name, snapshots.front());
  }
  return std::move(list).entries();
}

// manifests/HOST/NAMESPACE/MODEL/TAG, as `ollama list` names them.
std::vector<Entry> ollama(const fs::path& folder) {
  List list("Ollama");
  const fs::path manifests = folder / "manifests";
  for (const fs::path& file : files_below(manifests, [](const fs::path&) { return true; })) {
    const std::string blob = ollama_blob(text_of(manifests / file));
    if (blob.empty()) continue;
    std::string name = file.parent_path().generic_string();
    for (const std::string_view usual : {"registry.ollama.ai/", "library/"})
      if (name.starts_with(usual)) name.erase(0, usual.size());
    list.add(name + ":" + file.filename().string(), folder / "blobs" / blob);
  }
  return std::move(list).entries();
}

std::vector<Entry> folder_of_files(const fs::path& folder, const std::string& source, const std::string& prefix) {
  List list(source);
  for (const fs::path& file : files_below(folder, is_gguf)) list.add(prefix + file.generic_string(), folder / file);
  return std::move(list).entries();
}

// Does a list's name answer to this one?
bool answers(const Entry& e, std::string_view name) {
  const std::string_view full = e.name;
  if (full == name || full == fmt::format("{}:latest", name)) return true;
  const bool begins = full.starts_with(name) && full.substr(name.size()).starts_with("/");  // OWNER/REPO
  return begins || (full.ends_with(name) && full.substr(0, full.size() - name.size()).ends_with("/"));
}

}  // namespace

Places default_places() {
  const auto or_else = [](const std::string& value, const fs::path& otherwise) {
    return value.empty() ? otherwise.string() : value;
  };
  const fs::path home = or_else(variable("HOME"), ".");
  const fs::path cache = or_else(variable("XDG_CACHE_HOME"), home / ".cache");
  const fs::path hf = or_else(variable("HF_HOME"), cache / "huggingface");
  return {.hugging_face = or_else(variable("HF_HUB_CACHE"), hf / "hub"),
          .ollama = or_else(variable("OLLAMA_MODELS"), home / ".ollama" / "models"),
          .lm_studio = {(home / ".lmstudio" / "models").string(), (cache / "lm-studio" / "models").string()},
          .data = "data"};
}

std::vector<Entry> list(const Places& places) {
  std::vector<Entry> all;
  std::set<std::string> names;
  const auto take = [&](std::vector<Entry> some) {
    for (Entry& e : some) {
      if (names.contains(e.name)) e.name = e.path;
      names.insert(e.name);
      all.push_back(std::move(e));
    }
  };
  if (!places.hugging_face.empty()) take(hugging_face(places.hugging_face));
  if (!places.ollama.empty()) take(ollama(places.ollama));
  for (const std::string& folder : places.lm_studio) take(folder_of_files(folder, "LM Studio", ""));
  if (!places.data.empty()) take(folder_of_files(places.data, "data", places.data + "/"));
  return all;
}

std::string find(std::string_view name, const std::vector<Entry>& entries) {
  std::vector<const Entry*> found;
  for (const Entry& e : entries) {
    if (e.name == name) return e.path;
    if (!name.empty() && answers(e, name)) found.push_back(&e);
  }
  if (found.empty()) return {};
  std::string names;
  for (const Entry* e : found) names += (names.empty() ? "" : ", ") + e->name;
  check(found.size() == 1, "'{}' fits {} models; use one of {}", name, found.size(), names);
  return found[0]->path;
}

std::string quantization_of(const gguf::File& file) {
  if (const auto found = file.metadata().find("general.file_type"); found != file.metadata().end())
    if (const auto* number = std::get_if<uint32_t>(&found->second))
      for (const gguf::Mix& m : gguf::mixes())
        if (m.file_type == *number) return std::string(m.name);
  std::map<std::string, int64_t> values;
  for (const gguf::TensorInfo& t : file.tensors()) values[t.type_name] += t.shape.count();
  const auto most =
      std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == values.end() ? "" : most->first;
}

std::string family_of_folder(const std::string& folder) {
  const auto j = parse_json<nlohmann::json>(text_of(fs::path(folder) / "config.json"));
  const auto it = j.is_object() ? j.find("model_type") : j.end();
  return j.is_object() && it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string ollama_blob(std::string_view manifest) {
  const auto j = parse_json<nlohmann::json>(manifest);
  const auto text = [](const nlohmann::json& object, const char* key) -> std::string {
    const auto it = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && it != object.end() && it->is_string() ? it->get<std::string>() : "";
  };
  if (!j.is_object() || !j.contains("layers") || !j.at("layers").is_array()) return {};
  for (const nlohmann::json& layer : j.at("layers")) {
    if (text(layer, "mediaType") != "application/vnd.ollama.image.model") continue;
    std::string digest = text(layer, "digest");
    constexpr std::string_view kPrefix = "sha256:";
    const bool is_sum = digest.size() == kPrefix.size() + 64 && digest.starts_with(kPrefix) &&
                        digest.find_first_not_of("0123456789abcdef", kPrefix.size()) == digest.npos;
    if (!is_sum) return {};  // nothing else may become a part of a path
    digest[kPrefix.size() - 1] = '-';
    return digest;
  }
  return {};
}

}  // namespace toy::catalog
