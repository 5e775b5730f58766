#include "dialog/fields.h"

#include <fmt/format.h>

#include "toy/base/utf8.h"

namespace toy::dialog {

using nlohmann::ordered_json;

void refuse(const std::string& message, const std::string& param, const char* code) {
  throw FieldError(message, param, code);
}

void refuse_at(const std::string& path, const std::string& what, const char* code) {
  refuse(fmt::format("'{}' {}", one_line(path), what), path, code);
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

}  // namespace toy::dialog
