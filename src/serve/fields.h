// The fields of a request, one after the other: each is taken, or refused by its name.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/api.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::serve {

/// Throws ApiError with status 400.
[[noreturn]] void refuse(const std::string& message, const std::string& param, const char* code = "");

/// The object that a body is. Throws ApiError for anything else, and for an object of too many keys.
nlohmann::ordered_json parse_body(const std::string& body);

/// Reads the fields of an object one after the other; what is left at the end is unknown. null counts as absent. What
/// it refuses is an ApiError that names the field. The object must outlive it.
class Fields {
 public:
  explicit Fields(const nlohmann::ordered_json& object);
  /// nullptr: absent.
  const nlohmann::ordered_json* take(const std::string& name);
  /// Leaves `value` where the field is absent.
  template <class T>
  void number(const std::string& name, T& value, T least, T most) {
    const nlohmann::ordered_json* j = take(name);
    if (j == nullptr) return;
    try {
      if constexpr (std::is_same_v<T, double>)
        value = json_number<double>(*j, name, least, most);
      else
        value = T(json_number<int64_t>(*j, name, int64_t(least), int64_t(most)));
    } catch (const Error& e) {
      refuse(e.what(), name);
    }
  }
  bool flag(const std::string& name, bool otherwise);
  std::string text(const std::string& name);
  bool has(const std::string& name) const { return values_.contains(name); }
  /// Refuses what was not taken.
  void finish() const;

 private:
  std::map<std::string, const nlohmann::ordered_json*> values_;
};

}  // namespace toy::serve
