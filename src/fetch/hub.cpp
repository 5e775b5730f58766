#include "fetch/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/glob.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"

namespace toy::fetch {
namespace {

using nlohmann::json;

bool is_hex(const std::string& text, size_t least, size_t most) {
  return text.size() >= least && text.size() <= most && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_inside(const std::string& path) {
  if (path.empty() || path.size() > 1024 || path.find('\\') != path.npos) return false;
  if (std::any_of(path.begin(), path.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; })) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string text_of(const json& object, const char* key) {
  const json* v = member(object, key);
  return v && v->is_string() ? v->get<std::string>() : "";
}

std::string listed(const std::vector<RepoFile>& files) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kMost); ++i)
    text += fmt::format("{}{} ({})", i ? ", " : "", one_line(files[i].path), format_bytes(files[i].bytes));
  if (files.size() > kMost) text += fmt::format(" and {} more", files.size() - kMost);
  return text;
}

// A file with the other parts of its model.
std::vector<RepoFile> whole(const std::vector<RepoFile>& files, const RepoFile& file, const std::string& where) {
  const auto split = split_name(file.path);
  if (!split) return {file};
  std::vector<RepoFile> parts;
  for (int part = 1; part <= split->parts; ++part) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [name = split->of(part)](const RepoFile& f) { return f.path == name; });
    check(found != files.end(), "{}: the repository has no file '{}', a part of the model of '{}'", where,
          one_line(split->of(part)), one_line(file.path));
    parts.push_back(*found);
  }
  return parts;
}

// What may be meant without a name: models, each once, with the bytes of all its parts.
std::vector<RepoFile> models_of(const std::vector<RepoFile>& ggufs) {
  std::vector<RepoFile> models;
  std::map<std::string, size_t> of_name;  // of the first part
  for (const RepoFile& f : ggufs) {
    if (is_side_file_name(f.path)) continue;
    const auto split = split_name(f.path);
    const auto [at, is_new] = of_name.emplace(split ? split->of(1) : f.path, models.size());
    if (is_new)
      models.push_back(f);
    else
      models[at->second].bytes += f.bytes;
  }
  return models;
}

bool ends_with_any(const std::string& path, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return path.ends_with(end); });
}

}  // namespace

Repo parse_repo(std::string_view text, const std::string& where) {
  const json j = parse_json<json>(text);
  Repo repo{.commit = text_of(j, "sha"), .files = {}};
  const json* siblings = member(j, "siblings");
  check(is_hex(repo.commit, 1, 64) && siblings && siblings->is_array(),
        "{}: the answer does not describe a repository; is HF_ENDPOINT right?", where);
  for (const json& s : *siblings) {
    RepoFile f{.path = text_of(s, "rfilename"), .sum = text_of(s, "blobId")};
    check(is_inside(f.path), "{}: the repository has a file '{}', which is no path in a folder", where,
          one_line(f.path));
    const json* size = member(s, "size");
    if (const json* lfs = member(s, "lfs"); lfs && lfs->is_object())
      f.large = true, f.sum = text_of(*lfs, "sha256"), size = member(*lfs, "size");
    check(is_hex(f.sum, f.large ? 64 : 40, f.large ? 64 : 40) && size && size->is_number_unsigned(),
          "{}: the server states no size and checksum of '{}'", where, one_line(f.path));
    f.bytes = size->get<uint64_t>();
    repo.files.push_back(std::move(f));
  }
  std::sort(repo.files.begin(), repo.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return repo;
}

std::vector<RepoFile> choose_files(const Repo& repo, const std::string& file, const std::string& where) {
  std::vector<RepoFile> chosen, ggufs;
  for (const RepoFile& f : repo.files)
    if (f.path.ends_with(".gguf")) ggufs.push_back(f);
  if (!file.empty()) {
    for (const RepoFile& f : repo.files)
      if (f.path == file) return whole(repo.files, f, where);
    for (const RepoFile& f : repo.files)
      if (matches(file, f.path)) chosen.push_back(f);
    check(!chosen.empty(), "{}: there is no file '{}'; there are {}", where, file,
          listed(ggufs.empty() ? repo.files : ggufs));
    return chosen;
  }
  std::vector<RepoFile> models = models_of(ggufs);
  if (models.empty()) models = ggufs;
  check(models.size() <= 1, "{}: give one of the files {}", where, listed(models));
  if (!models.empty()) return whole(repo.files, models.front(), where);
  bool weights = false;
  for (const RepoFile& f : repo.files) {
    if (f.path.find('/') != f.path.npos) continue;  // other formats of the same weights
    const bool wanted = ends_with_any(f.path, {".safetensors", ".json", "tokenizer.model", ".jinja", "merges.txt"});
    if (wanted) chosen.push_back(f);
    weights = weights || f.path.ends_with(".safetensors");
  }
  check(weights, "{}: the repository has no GGUF and no safetensors files", where);
  return chosen;
}

}  // namespace toy::fetch
