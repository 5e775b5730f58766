#include "toy/models/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "toy/base/error.h"

namespace toy {
namespace {

// The value as a number; nullopt: it is none.
template <class... Kinds>
std::optional<double> number(const std::variant<Kinds...>& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>)
          return double(v);
        else
          return std::nullopt;
      },
      value);
}

// The elements of an array of numbers or flags; nullopt: it is something else.
std::optional<std::vector<double>> numbers(const gguf::Value& value) {
  const auto* array = std::get_if<gguf::Array>(&value);
  if (!array) return std::nullopt;
  return std::visit(
      [](const auto& list) -> std::optional<std::vector<double>> {
        if constexpr (std::is_same_v<std::decay_t<decltype(list)>, std::vector<std::string>>)
          return std::nullopt;
        else
          return std::vector<double>(list.begin(), list.end());
      },
      *array);
}

}  // namespace

Metadata::Metadata(gguf::File file, std::string architecture)
    : file_(std::move(file)), prefix_(std::move(architecture) + ".") {}

std::string Metadata::asked(std::string_view name) { return *asked_.insert(key(name)).first; }

const gguf::Value* Metadata::find(const std::string& key) const {
  const auto it = file_.metadata().find(key);
  return it == file_.metadata().end() ? nullptr : &it->second;
}

int64_t Metadata::u32(std::string_view name) { return int64_t(file_.get_u32(asked(name))); }
int64_t Metadata::u32(std::string_view name, int64_t otherwise) { return has(name) ? u32(name) : otherwise; }
float Metadata::f32(std::string_view name) { return file_.get_f32(asked(name)); }
float Metadata::f32(std::string_view name, float otherwise) { return has(name) ? f32(name) : otherwise; }
bool Metadata::flag(std::string_view name, bool otherwise) { return file_.get_bool(asked(name), otherwise); }
std::string Metadata::text(std::string_view name, std::string_view otherwise) {
  return file_.get_string(asked(name), otherwise);
}

std::vector<int64_t> Metadata::u32s(std::string_view name, size_t n) {
  const gguf::Value* value = find(asked(name));
  if (!value || !std::holds_alternative<gguf::Array>(*value)) return std::vector<int64_t>(n, u32(name));
  const auto list = numbers(*value);
  check(list && list->size() == n, "{}: metadata key '{}': expected a number, or one for each of {} layers",
        file_.path(), key(name), n);
  std::vector<int64_t> out;
  for (const double v : *list) {
    check(v == std::floor(v) && v >= 0 && v <= double(std::numeric_limits<uint32_t>::max()),
          "{}: metadata key '{}': {} does not fit into u32", file_.path(), key(name), v);
    out.push_back(int64_t(v));
  }
  return out;
}

std::vector<int64_t> Metadata::u32s(std::string_view name, const std::vector<int64_t>& otherwise) {
  return has(name) ? u32s(name, otherwise.size()) : otherwise;
}

std::vector<bool> Metadata::pattern(std::string_view name, size_t n, int64_t otherwise) {
  const gguf::Value* value = find(asked(name));
  std::vector<bool> out;
  if (value && std::holds_alternative<gguf::Array>(*value)) {
    for (const int64_t v : u32s(name, n)) out.push_back(v != 0);
    return out;
  }
  const int64_t every = u32(name, otherwise);
  for (size_t i = 0; i < n; ++i) out.push_back(every == 0 || (int64_t(i) + 1) % every != 0);
  return out;
}

void Metadata::require(std::string_view name, int64_t only) {
  const int64_t v = u32(name, only);
  check(v == only, "{}: {} is {}; only {} is supported here", file_.path(), key(name), v, only);
}

void Metadata::ignore(std::string_view name, double computed_with) {
  const gguf::Value* value = find(asked(name));
  const auto v = value ? number(*value) : computed_with;
  if (!v || std::abs(*v - computed_with) > 1e-6 * std::abs(computed_with))
    warn(fmt::format("metadata key {} has no effect, as in llama.cpp: {:g} is used", key(name), computed_with));
}

std::vector<std::string> Metadata::unknown() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : file_.metadata())
    if (key.starts_with(prefix_) && !asked_.contains(key)) out.push_back(key);
  return out;
}

void Metadata::refuse_unknown() const {
  const std::vector<std::string> left = unknown();
  if (!left.empty())
    fail("{}: metadata key {} is not known in the architecture {}, and what it asks for would not be done",
         file_.path(), left.front(), prefix_.substr(0, prefix_.size() - 1));
}

std::vector<std::string> Metadata::warnings() const {
  std::vector<std::string> out = warnings_;
  for (const std::string& key : unknown())
    out.push_back(fmt::format("metadata key {} is not known and has no effect", key));
  return out;
}

void MetadataWriter::u32s(std::string_view name, const std::vector<int64_t>& values) {
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end())
    u32(name, values.front());
  else
    set(name, gguf::Array(std::vector<uint32_t>(values.begin(), values.end())));
}

void MetadataWriter::pattern(std::string_view name, const std::vector<bool>& values) {
  const auto is_every = [&](size_t k) {
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != ((i + 1) % k != 0)) return false;
    return true;
  };
  for (size_t k = 1; k <= values.size(); ++k)
    if (is_every(k)) return u32(name, int64_t(k));
  set(name, gguf::Array(values));
}

}  // namespace toy
