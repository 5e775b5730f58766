// A list of options as the table that docs have of it.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "toy/base/options.h"

namespace toy::testing {

/// A setting of each word, its option and its name elsewhere, what it takes, its usual value and its meaning.
/// `usual(word)` gives the options that a word begins with.
template <class Usual>
std::string table_of_settings(const std::vector<std::string>& words, const Usual& usual) {
  std::string table =
      "| in brackets | option | field | range | default | meaning |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const std::string& word : words) {
    const auto options = usual(word);
    std::decay_t<decltype(options)>::fields(options, [&](const Option& o, const auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (is_plain_value<T>)
        if (o.belongs_to(word))
          table += fmt::format("| `{}({})` | {} | `{}` | {} | {} | {} |\n", word,
                               o.name_in_brackets() == word ? "X" : fmt::format("{}=X", o.name_in_brackets()),
                               o.group.empty() ? "" : fmt::format("`{}`", o.flag()), o.name, takes<T>(o.limits),
                               detail::value_text(value), o.help);
    });
  }
  return table;
}

/// A page of docs/.
inline std::string page(const std::string& name) {
  std::ifstream file(std::string(TOY_SOURCE_DIR) + "/docs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace toy::testing
