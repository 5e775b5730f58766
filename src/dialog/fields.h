// The fields of an object, one after the other: each is taken, or refused by its name, or noted as one without an
// effect.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/options.h"

namespace toy::dialog {

/// Something that cannot be accepted, and the field that says it.
class FieldError : public Error {
 public:
  /// `of_field`: a path such as messages[2].content; "": none. `of_code`: OpenAI's word for the kind of error.
  explicit FieldError(const std::string& message, std::string of_field = "", std::string of_code = "")
      : Error(ErrorCode::bad_input, message), field(std::move(of_field)), code(std::move(of_code)) {}
  std::string field, code;
};

/// Throws FieldError.
[[noreturn]] void refuse(const std::string& message, const std::string& param, const char* code = "");
/// Refuses the value at a path of the request, such as input[2].content, with "'PATH' WHAT".
[[noreturn]] void refuse_at(const std::string& path, const std::string& what, const char* code = "");

/// While one lives, the Fields that its thread reads are tolerant: what nobody takes, and what hints.h says cannot
/// change an answer, is noted here. Without one every such field is refused. The innermost one counts.
class IgnoredFields {
 public:
  IgnoredFields();
  ~IgnoredFields();
  IgnoredFields(const IgnoredFields&) = delete;
  IgnoredFields& operator=(const IgnoredFields&) = delete;
  /// Paths without their indices: messages[].annotations. Each once, in the order in which they were found.
  const std::vector<std::string>& names() const { return names_; }
  void add(const std::string& path);
  /// That of this thread; nullptr: there is none.
  static IgnoredFields* current();

 private:
  IgnoredFields* outer_;
  std::vector<std::string> names_;
};

/// Notes a part of a request that has no effect, or refuses it with "'PATH' WHAT" where nothing is ignored.
void ignore_at(const std::string& path, const std::string& what);

/// Reads the fields of an object one after the other; what is left at the end is unknown. null counts as absent. What
/// it refuses is a FieldError that names the field by its path. The object must outlive it.
class Fields {
 public:
  /// `path`: of the object in the request, such as input[2]; "" is the body. Refuses what is no object.
  explicit Fields(const nlohmann::ordered_json& object, std::string path = "");
  /// That of a field: input[2].content
  std::string path(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }
  /// nullptr: absent.
  const nlohmann::ordered_json* take(const std::string& name);
  /// Refuses a field that is absent, and says which one it may have been meant to be.
  const nlohmann::ordered_json& needed(const std::string& name);
  /// Leaves `value` where the field is absent.
  template <class T>
  void number(const std::string& name, T& value, T least, T most) {
    const nlohmann::ordered_json* j = take(name);
    if (j == nullptr) return;
    try {
      if constexpr (std::is_same_v<T, double>)
        value = json_number<double>(*j, path(name), least, most);
      else
        value = T(json_number<int64_t>(*j, path(name), int64_t(least), int64_t(most)));
    } catch (const Error& e) {
      refuse(e.what(), path(name));
    }
  }
  /// The same within limits.
  template <class T>
  void number(const std::string& name, T& value, const Limits& limits) {
    if (!has(name)) return;
    T given = value, least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
    if constexpr (std::is_integral_v<T>) {
      if (limits.least > double(least)) least = T(limits.least);
      if (limits.most < double(most)) most = T(limits.most);
    }
    number<T>(name, given, least, most);
    if (!limits.hold(double(given))) refuse_at(path(name), fmt::format("is {}, expected {}", given, limits.text()));
    value = given;
  }
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name);
  /// Refuses a text that is missing or empty.
  std::string needed_text(const std::string& name);
  bool has(const std::string& name);
  /// Notes a field that has no effect here, whatever it is.
  void ignore(const std::string& name);
  /// The name that means the same as `name` among those that were asked for so far, or "".
  std::string other(const std::string& name) const;
  /// Says that fields with these names stand in an object, which is the field `name`: here they are refused.
  void holds(const std::string& name, const std::set<std::string>& inner);
  /// Takes all that is left.
  std::map<std::string, const nlohmann::ordered_json*> rest() { return std::exchange(values_, {}); }
  /// What was not taken is refused: all of it, or with an IgnoredFields what would change the answer and what looks
  /// like a known name.
  void finish();

 private:
  [[noreturn]] void refuse_unknown(const std::string& name) const;
  // Refuses what has another name or another place here.
  void refuse_moved(const std::string& name) const;
  // A name of `known` that `name` may have been meant to be, or "".
  static std::string meant(const std::string& name, const std::set<std::string>& known);

  std::string path_;
  std::map<std::string, const nlohmann::ordered_json*> values_;
  std::set<std::string> known_;  // names that were asked for
  std::set<std::string> inner_;  // paths of fields in one of them: options.temperature
};

}  // namespace toy::dialog
