#include "dialog/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>

#include "dialog/hints.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostIgnored = 256;

thread_local IgnoredFields* innermost = nullptr;

// Single characters to insert, to remove, to change or to swap with the next one.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      next[k] = std::min({row[k] + 1, next[k - 1] + 1, row[k - 1] + size_t(a[i - 1] != b[k - 1])});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        next[k] = std::min(next[k], before[k - 2] + 1);
    }
    before = row;
    std::swap(row, next);
  }
  return row.back();
}

// Letters and digits, in lower case: maxTokens and max-tokens are max_tokens.
std::string plain(const std::string& name) {
  std::string text;
  for (const unsigned char c : name)
    if (c < 0x80 && std::isalnum(c)) text += char(std::tolower(c));
  return text;
}

}  // namespace

void refuse(const std::string& message, const std::string& param, const char* code) {
  throw FieldError(message, param, code);
}

void refuse_at(const std::string& path, const std::string& what, const char* code) {
  refuse(fmt::format("'{}' {}", one_line(path), what), path, code);
}

IgnoredFields::IgnoredFields() : outer_(innermost) { innermost = this; }

IgnoredFields::~IgnoredFields() { innermost = outer_; }

IgnoredFields* IgnoredFields::current() { return innermost; }

void IgnoredFields::add(const std::string& path) {
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    name += path[i];
    if (path[i] != '[') continue;
    while (i + 1 < path.size() && std::isdigit(static_cast<unsigned char>(path[i + 1]))) ++i;
  }
  if (names_.size() < kMostIgnored && std::ranges::find(names_, name) == names_.end())
    names_.push_back(std::move(name));
}

void ignore_at(const std::string& path, const std::string& what) {
  if (innermost == nullptr) refuse_at(path, what, "unsupported_parameter");
  innermost->add(path);
}

Fields::Fields(const ordered_json& object, std::string path) : path_(std::move(path)) {
  if (!object.is_object()) refuse_at(path_, "is not an object");
  for (const auto& [name, value] : object.items())
    if (!value.is_null()) values_[name] = &value;
}

const ordered_json* Fields::take(const std::string& name) {
  known_.insert(name);
  const auto it = values_.find(name);
  if (it == values_.end()) return nullptr;
  const ordered_json* value = it->second;
  values_.erase(it);
  return value;
}

bool Fields::has(const std::string& name) {
  known_.insert(name);
  return values_.contains(name);
}

const ordered_json& Fields::needed(const std::string& name) {
  if (const ordered_json* value = take(name)) return *value;
  // What others call a text, or several.
  static const std::set<std::string> kTexts = {"content", "text", "prompt", "input", "texts", "prompts", "sentences"};
  constexpr const char* kCode = "missing_required_parameter";
  for (const auto& [other, value] : values_)
    if (!meant(other, {name}).empty() || !other_name(other, {name}).empty() ||
        (kTexts.contains(name) && kTexts.contains(other)))
      refuse(fmt::format("'{}' is missing, and the field '{}' is unknown; did you mean '{}'?", one_line(path(name)),
                         one_line(path(other)), name),
             path(name), kCode);
  for (const auto& [other, value] : values_)
    if (const Hint hint = hint_of(other, *value); std::string_view(hint.word).starts_with("is for "))
      refuse_at(path(name), fmt::format("is missing; '{}' {}", other, hint.word), kCode);
  const std::string_view example = example_of(name);
  refuse_at(path(name), example.empty() ? "is missing" : fmt::format("is missing; send \"{}\": {}", name, example),
            kCode);
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const ordered_json* j = take(name);
  if (j == nullptr) return otherwise;
  if (!j->is_boolean()) refuse_at(path(name), "is not true or false; send one of them without quotes");
  return j->get<bool>();
}

std::string Fields::text(const std::string& name) {
  const ordered_json* j = take(name);
  if (j == nullptr) return "";
  if (!j->is_string()) refuse_at(path(name), "is not a string");
  return j->get<std::string>();
}

std::string Fields::needed_text(const std::string& name) {
  const ordered_json& j = needed(name);
  if (!j.is_string()) refuse_at(path(name), "is not a string");
  if (j.get_ref<const std::string&>().empty()) refuse_at(path(name), "is empty");
  return j.get<std::string>();
}

void Fields::ignore(const std::string& name) {
  if (innermost == nullptr || take(name) == nullptr) return;
  innermost->add(path(name));
}

std::string Fields::meant(const std::string& name, const std::set<std::string>& known) {
  constexpr size_t kLongest = 64;
  const std::string given = plain(name);
  if (given.size() > kLongest) return "";
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string& k : known) {
    const std::string wanted = plain(k);
    const size_t n = edits(given, wanted), allowed = wanted.size() < 4 ? 0 : wanted.size() < 8 ? 1 : 2;
    if (n <= allowed && n < least) least = n, best = k;
  }
  return best;
}

void Fields::refuse_unknown(const std::string& name) const {
  const std::string other = meant(name, known_), where = path(name);
  const std::string advice = other.empty() ? "remove it" : fmt::format("did you mean '{}'?", other);
  refuse(fmt::format("the field '{}' is unknown, or not supported by this server; {}", one_line(where), advice), where,
         "unsupported_parameter");
}

void Fields::holds(const std::string& name, const std::set<std::string>& inner) {
  for (const std::string& field : inner) inner_.insert(name + "." + field);
}

std::string Fields::other(const std::string& name) const { return other_name(name, known_); }

void Fields::refuse_moved(const std::string& name) const {
  for (const std::string& field : inner_) {
    const size_t dot = field.find('.');
    if (field.substr(dot + 1) == name)
      refuse(fmt::format("the field '{0}' belongs in '{1}': \"{1}\": {{\"{0}\": ...}}", name, field.substr(0, dot)),
             path(name), "unsupported_parameter");
  }
  std::set<std::string> all = inner_;
  all.insert(known_.begin(), known_.end());
  if (const std::string other = other_name(name, all); !other.empty())
    refuse(fmt::format("the field '{}' has another name here; use '{}'", one_line(path(name)), path(other)), path(name),
           "unsupported_parameter");
}

void Fields::finish() {
  for (const auto& [name, value] : values_) {
    if (innermost == nullptr) refuse_unknown(name);
    const Hint hint = hint_of(name, *value);
    if (hint.kind != Hint::harmless) refuse_moved(name);
    if (hint.kind == Hint::changes) {
      const std::string_view word = hint.word;
      const bool advises = word.find("; ") != word.npos || word.find(": ") != word.npos;
      refuse(fmt::format("the field '{}' {}{}", one_line(path(name)), word, advises ? "" : "; remove it"), path(name),
             "unsupported_parameter");
    }
    if (hint.kind == Hint::unknown && !meant(name, known_).empty()) refuse_unknown(name);
    innermost->add(path(name));
  }
}

}  // namespace toy::dialog
