#include "hf/config.h"

#include <filesystem>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/formats/mapped_file.h"

namespace toy::hf {

using nlohmann::json;

namespace {

constexpr int64_t kMost = int64_t(1) << 40;

// Python writes words for numbers that JSON does not know. They become what transformers 5 writes instead.
std::string with_words(std::string_view text) {
  if (text.find("Infinity") == text.npos && text.find("NaN") == text.npos) return std::string(text);
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    std::string_view word;
    for (const std::string_view w : {"-Infinity", "Infinity", "NaN"})
      if (!in_string && word.empty() && text.substr(i).starts_with(w)) word = w;
    if (word.empty()) {
      out += text[i];
    } else {
      out += fmt::format(R"({{"__float__": "{}"}})", word);
      i += word.size() - 1;
    }
  }
  return out;
}

}  // namespace

Config::Config(json values, std::string path) : values_(std::move(values)), path_(std::move(path)) {
  check(values_.is_object(), "{}: not a JSON object", path_);
}

Config Config::open(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  return {read_json<json>(path, with_words(text)), path};
}

Config Config::open_if_there(const std::string& path) {
  if (std::filesystem::exists(path)) return open(path);
  Config none;
  none.path_ = path;
  return none;
}

const json* Config::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() || it->is_null() ? nullptr : &*it;
}

std::string Config::name(std::string_view key) const { return fmt::format("{}: '{}'", path_, key); }

Config Config::object(std::string_view key) const {
  const json* value = find(key);
  return value ? Config(*value, name(key)) : Config(json::object(), name(key));
}

void Config::add_defaults(std::string_view defaults) {
  const json more = read_json<json>(path_, defaults);
  for (const auto& [key, value] : more.items())
    if (!values_.contains(key)) values_[key] = value;
}

int64_t Config::integer(std::string_view key) const {
  const json* value = find(key);
  check(value != nullptr, "{} is missing", name(key));
  return json_number<int64_t>(*value, name(key), 0, kMost);
}
int64_t Config::integer(std::string_view key, int64_t otherwise) const { return has(key) ? integer(key) : otherwise; }

float Config::number(std::string_view key) const {
  const json* value = find(key);
  check(value != nullptr, "{} is missing", name(key));
  return json_number<float>(*value, name(key));
}
float Config::number(std::string_view key, float otherwise) const { return has(key) ? number(key) : otherwise; }

bool Config::flag(std::string_view key, bool otherwise) const {
  const json* value = find(key);
  check(!value || value->is_boolean(), "{} is {}, expected true or false", name(key),
        value ? json_text(*value) : std::string());
  return value ? value->get<bool>() : otherwise;
}

std::string Config::text(std::string_view key, std::string_view otherwise) const {
  const json* value = find(key);
  check(!value || value->is_string(), "{} is {}, expected a string", name(key),
        value ? json_text(*value) : std::string());
  return value ? value->get<std::string>() : std::string(otherwise);
}

std::vector<float> Config::numbers(std::string_view key) const {
  const json* value = find(key);
  check(value && value->is_array(), "{} is not a list of numbers", name(key));
  std::vector<float> list;
  for (const json& v : *value) list.push_back(json_number<float>(v, name(key), std::numeric_limits<float>::min()));
  return list;
}

std::vector<int64_t> Config::integers(std::string_view key) const {
  const json* value = find(key);
  if (!value) return {};
  if (!value->is_array()) return {integer(key)};
  std::vector<int64_t> list;
  for (const json& v : *value) list.push_back(json_number<int64_t>(v, name(key), 0, kMost));
  return list;
}

void Config::require(std::string_view key, const json& only) const {
  const json* value = find(key);
  if (value && *value != only)
    fail("{} is {}; only {} is supported here", name(key), json_text(*value), json_text(only));
}

}  // namespace toy::hf
