// How families of models write the calls of functions, which their chat templates show.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/messages.h"
#include "toy/grammar/grammar.h"
#include "toy/text/tokenizer.h"

namespace toy::dialog {

/// What CallForm::parameters writes around the parts of a call, and a line break where there is one.
struct CallTags {
  std::string_view name = "<function=", after_name = ">\n";
  std::string_view key = "<parameter=", after_key = ">\n";  ///< before each key, and up to its value
  /// Where a tag says whether its value is a string: what follows after_key then, and else.
  std::string_view is_string = {}, is_other = {};
  std::string_view after_value = "\n</parameter>\n";
  std::string_view end = "</function>";  ///< may be missing
  std::string_view around = "\n";        ///< between `open` and a call, calls, and a call and `close`

  /// The part of after_value that ends a value, and the blanks after it.
  std::string_view value_end() const { return after_value.substr(0, after_value.rfind('>') + 1); }
  std::string_view value_blanks() const { return after_value.substr(value_end().size()); }
};

/// One such form.
struct CallForm {
  enum Kind {
    json,        ///< {"name": NAME, "arguments": {...}}, with other keys in other families
    parameters,  ///< <function=NAME> <parameter=KEY> VALUE </parameter> </function>, with other tags in other families
    named,       ///< NAME[ARGS]{...}, with other marks in other families
    python,      ///< NAME(KEY=VALUE, ...), with the literals of Python
    bare,        ///< call:NAME{KEY:VALUE,...}, where keys have no quotes and strings have their own
    channels,    ///< messages with a channel and perhaps a recipient, which is the function
  };
  std::string_view in_template;           ///< what a template of this form contains, besides `open`
  std::string_view not_in_template = {};  ///< what one of another form does
  /// The vocabulary shows `open`, the template need not.
  bool open_in_vocabulary = false;
  /// The template puts `open` together, so its text does not show it.
  bool open_is_composed = false;
  Kind kind = json;
  std::string_view open, close = {};         ///< around a call, or around a list; `close` may be missing
  bool list = false;                         ///< several calls in one unit: an array, or one after the other (named)
  bool at_start = false;                     ///< json: a call is the complete text; `open` is optional
  std::string_view name_key = "name";        ///< json; "": the name is the only key, {NAME: {...}}
  std::string_view arguments = "arguments";  ///< json: the key
  std::string_view number = {};              ///< json: a key in front, whose value is a number as a string
  std::string_view fence = {};               ///< json, lists: what stands between `open` and the list
  bool brackets = true;                      ///< json, lists: around calls, with commas; else each has its line
  bool lines = false;                        ///< json, lists: lines and indentation around calls
  bool one_call = false;                     ///< a message has one call
  bool own_message = false;                  ///< a call is a message, so its marks end messages
  bool short_ids = false;                    ///< the template takes ids of nine letters and digits only
  /// What separates two calls that follow each other.
  std::string_view between = {};
  std::string_view begin = {}, before_arguments = {}, end = {};  ///< named: around the name, after the arguments
  /// named: the prompt ends with `open`, and a text with this name is no call, but for the reader.
  std::string_view reader = {};
  CallTags tags = {};            ///< parameters
  bool numbered = false;         ///< named: the name is functions.NAME:NUMBER, and is the id of the call
  bool tools_in_system = false;  ///< a template that leaves out tools has them in the system message
  std::span<const std::string_view> inner_marks = {};  ///< texts besides `open` and `close` that may be control tokens

  /// Texts that the vocabulary may have as control tokens.
  std::vector<std::string_view> markers() const;
  /// What a call of one of these begins with in a text.
  std::vector<Trigger> triggers(std::span<const Tool> tools) const;
  /// May a text have several calls?
  bool parallel() const { return !one_call; }
  /// Does an answer say who it is for, also where there are no tools?
  bool addressed() const { return kind == channels || !reader.empty(); }
  /// A grammar in GBNF, without root: `calls` is a call, or with `several` one or more. `rules` name the
  /// arguments of each tool in the grammar.
  std::string gbnf(std::span<const Tool> tools, bool several, std::vector<SchemaRule>& rules) const;
  /// The rules of gbnf() that do not depend on tools.
  std::string common_rules() const;
  /// The expression of a complete text whose content is `rule`, with common_rules().
  std::string answer(std::string_view rule) const;
  /// The name of the rule that is one call or list.
  static constexpr const char* kUnit = "unit";
  /// The name of the rule for a complete text of calls.
  static constexpr const char* kCalls = "calls";

 private:
  std::string json_call(const std::string& function, const std::string& object) const;
};

/// What encloses the strings of CallForm::bare.
inline constexpr std::string_view kBareQuote = "<|\"|>";

/// The form of a template; nullptr: it knows no tools, or writes calls in a way that is not read here. `tokenizer`: of
/// the model; without it, only what the template shows counts.
const CallForm* call_form_of(const std::string& chat_template, const Tokenizer* tokenizer = nullptr);

/// Does the template write the tools that there are?
bool knows_tools(const std::string& chat_template);

/// The types that the values of a schema's property may have, by its "type"; empty: any.
std::vector<std::string> types_of(const nlohmann::ordered_json& property);
/// The same, also by its references into the complete schema, "const", "enum", "anyOf" and "oneOf".
std::vector<std::string> all_types_of(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& property);
/// The property, or what it refers to in the complete schema.
const nlohmann::ordered_json& referred(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& property);
/// The type of a value.
const char* type_of(const nlohmann::ordered_json& value);

}  // namespace toy::dialog
