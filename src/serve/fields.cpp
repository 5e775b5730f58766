#include "serve/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// Objects of ordered_json are searched from their beginning for every key.
bool has_many_keys(const nlohmann::json& j) {
  return (j.is_object() && j.size() > kMostKeys) ||
         (j.is_structured() && std::any_of(j.begin(), j.end(), has_many_keys));
}

}  // namespace

void refuse(const std::string& message, const std::string& param, const char* code) {
  throw ApiError(400, message, param, code);
}

void refuse_at(const std::string& path, const std::string& what, const char* code) {
  refuse(fmt::format("'{}' {}", one_line(path), what), path, code);
}

ordered_json parse_body(const std::string& body) {
  if (!is_utf8(body)) refuse("the request's body is not valid UTF-8", "");
  ordered_json j;
  try {
    if (has_many_keys(read_json<nlohmann::json>("the request's body", body)))
      refuse(fmt::format("an object of the request's body has more than {} keys", kMostKeys), "");
    j = read_json<ordered_json>("the request's body", body);
  } catch (const Error& e) {
    refuse(e.what(), "");
  }
  if (!j.is_object()) refuse("the request's body is not a JSON object", "");
  return j;
}

Fields::Fields(const ordered_json& object, std::string path) : path_(std::move(path)) {
  if (!object.is_object()) refuse_at(path_, "is not an object");
  for (const auto& [name, value] : object.items())
    if (!value.is_null()) values_[name] = &value;
}

const ordered_json* Fields::take(const std::string& name) {
  const auto it = values_.find(name);
  if (it == values_.end()) return nullptr;
  const ordered_json* value = it->second;
  values_.erase(it);
  return value;
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const ordered_json* j = take(name);
  if (j == nullptr) return otherwise;
  if (!j->is_boolean()) refuse_at(path(name), "is not true or false");
  return j->get<bool>();
}

std::string Fields::text(const std::string& name) {
  const ordered_json* j = take(name);
  if (j == nullptr) return "";
  if (!j->is_string()) refuse_at(path(name), "is not a string");
  return j->get<std::string>();
}

std::string Fields::needed_text(const std::string& name) {
  if (!has(name)) refuse_at(path(name), "is missing", "missing_required_parameter");
  std::string value = text(name);
  if (value.empty()) refuse_at(path(name), "is empty");
  return value;
}

void Fields::finish() const {
  if (values_.empty()) return;
  const std::string name = path(values_.begin()->first);
  refuse(fmt::format("the field '{}' is unknown, or not supported by this server; remove it", one_line(name)), name,
         "unsupported_parameter");
}

}  // namespace toy::serve
