#include "hf/chat_templates.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKey = "tokenizer.chat_template";
constexpr const char* kDefault = "default";
constexpr const char* kFolder = "additional_chat_templates";

std::string text_of(const fs::path& path) {
  const MappedFile file = MappedFile::open(path.string());
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  check(is_utf8(text), "{}: not UTF-8", path.string());
  return text;
}

void write_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

// The key of a file: a template, or a list of {"name": ..., "template": ...}.
void take_key(const Config& config, ChatTemplates& out) {
  const json* value = config.find("chat_template");
  if (!value) return;
  if (value->is_string()) {
    out[kDefault] = value->get<std::string>();
    return;
  }
  check(value->is_array(), "{}: 'chat_template' is neither a string nor a list", config.path());
  for (const json& entry : *value) {
    const Config one(entry, config.path() + ": 'chat_template'");
    out[one.text("name", kDefault)] = one.text("template", "");
  }
}

}  // namespace

ChatTemplates read_chat_templates(const std::string& folder, const Config& tokenizer_config) {
  const fs::path root(folder), usual = root / "chat_template.jinja", more = root / kFolder;
  ChatTemplates out;
  take_key(tokenizer_config, out);
  if (out.empty()) take_key(Config::open_if_there((root / "chat_template.json").string()), out);
  if (fs::exists(usual)) out[kDefault] = text_of(usual);
  if (fs::is_directory(more))
    for (const fs::directory_entry& entry : fs::directory_iterator(more))
      if (entry.path().extension() == ".jinja") out[entry.path().stem().string()] = text_of(entry.path());
  return out;
}

void write_chat_templates(const ChatTemplates& templates, gguf::Writer& writer) {
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    if (name != kDefault) names.push_back(name);
    writer.set(name == kDefault ? kKey : fmt::format("{}.{}", kKey, name), source);
  }
  if (!names.empty()) writer.set("tokenizer.chat_templates", gguf::Array(names));
}

void save_chat_templates(const gguf::File& file, const std::string& folder) {
  const std::string named = std::string(kKey) + ".";
  const fs::path root(folder), more = root / kFolder;
  if (file.has(kKey)) write_text(root / "chat_template.jinja", file.get_string(kKey));
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(named)) continue;
    const std::string name = key.substr(named.size());
    check(!name.empty() && name[0] != '.' && name.find('/') == name.npos,
          "{}: the chat template '{}' has no name for a file", file.path(), one_line(name));
    fs::create_directories(more);
    write_text(more / (name + ".jinja"), file.get_string(key));
  }
}

}  // namespace toy::hf
