// Options as bindings give them: a JSON object, of which each list of options takes what it knows.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/json_text.h"
#include "toy/base/options.h"
#include "toy/tensor/dtype.h"
#include "toy/train/recipes.h"

namespace toy::bind {

/// The options of one call.
class JsonOptions {
 public:
  /// `what` is said to have the options: "generate". Throws Error{bad_input} for a text that is no object, and for a
  /// key that is there twice. A null is as if it was left out.
  JsonOptions(std::string what, std::string_view json);

  /// Sets what is given of Options::fields() and returns the names of these. Throws Error{bad_input} naming an option
  /// with a value that it does not take.
  template <class Options>
  std::vector<std::string_view> read(Options& options) {
    std::vector<std::string_view> names;
    Options::fields(options, [&](const Option& option, auto& value) {
      const nlohmann::ordered_json* given = take(option.name);
      if (given == nullptr) return;
      names.push_back(option.name);
      const std::string wrong = set(option, texts(option.name, *given), value);
      check(wrong.empty(), "{} {}", option.name, wrong);
    });
    return names;
  }
  /// The value of an option that is in no list; nullptr: it is not given.
  const nlohmann::ordered_json* take(std::string_view name);
  /// Throws Error{bad_input} naming an option that nothing has taken, with the nearest that there is.
  void finish() const;

 private:
  template <class T>
  static std::string set(const Option& option, const std::vector<std::string>& texts, T& value) {
    if constexpr (std::is_same_v<T, std::optional<DType>>) {
      const auto type = std::ranges::find(kDTypes, texts.back(), &DTypeInfo::name);
      const std::string bars = "|" + std::string(option.text) + "|";
      if (type == std::end(kDTypes) || bars.find("|" + texts.back() + "|") == bars.npos)
        return "is '" + texts.back() + "'; use one of " + std::string(option.text);
      return value = type->type, "";
    } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, double>>>) {
      value.clear();
      for (const std::string& text : texts) value.push_back(pattern_and_factor(std::string(option.name), text));
      return "";
    } else {
      return read_texts(option, texts, value);
    }
  }
  static std::vector<std::string> texts(std::string_view name, const nlohmann::ordered_json& given);

  std::string what_;
  nlohmann::ordered_json given_;
  std::vector<std::string> known_;  // names that were asked for
};

/// The options of a call that has no others.
template <class Options>
Options read_options(const char* what, std::string_view json) {
  Options o;
  JsonOptions given(what, json);
  given.read(o);
  given.finish();
  return o;
}

}  // namespace toy::bind
