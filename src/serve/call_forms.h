// How families of models write the calls of functions, which their chat templates show.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/messages.h"
#include "toy/grammar/grammar.h"

namespace toy::serve {

/// One such form.
struct CallForm {
  enum Kind {
    json,        ///< {"name": NAME, "arguments": {...}}
    parameters,  ///< <function=NAME> <parameter=KEY> VALUE </parameter> </function>
    named,       ///< NAME[ARGS]{...}
  };
  std::string_view in_template;           ///< what a template of this form contains, besides `open`
  std::string_view not_in_template = {};  ///< what one of another form does
  Kind kind = json;
  std::string_view open, close = {};         ///< around a call, or around a list; `close` may be missing
  bool list = false;                         ///< json: an array of calls
  bool at_start = false;                     ///< json: a call is the complete text; `open` is optional
  std::string_view arguments = "arguments";  ///< json: the key
  bool short_ids = false;                    ///< the template takes ids of nine letters and digits only
  /// What separates two calls that follow each other; without `list` and `at_start`.
  std::string_view between = {};

  /// Texts that the vocabulary may have as control tokens.
  std::vector<std::string_view> markers() const;
  /// What a call begins with in a text.
  std::vector<Trigger> triggers() const;
  /// A grammar in GBNF, without root: `calls` is a call, or with `parallel` one or more in one unit. `rules` name the
  /// arguments of each tool in the grammar.
  std::string gbnf(std::span<const Tool> tools, bool parallel, std::vector<SchemaRule>& rules) const;
  /// The name of the rule that is one call or list.
  static constexpr const char* kUnit = "unit";
  /// The name of the rule for a complete text of calls.
  static constexpr const char* kCalls = "calls";
};

/// The form of a template; nullptr: it knows no tools, or writes calls in a way that is not read here.
const CallForm* call_form_of(const std::string& chat_template);

/// The types that the values of a schema's property may have, by its "type"; empty: any.
std::vector<std::string> types_of(const nlohmann::ordered_json& property);

}  // namespace toy::serve
