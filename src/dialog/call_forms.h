// How families of models write the calls of functions, which their chat templates show.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/messages.h"
#include "toy/grammar/grammar.h"
#include "toy/text/tokenizer.h"

namespace toy::dialog {

/// What stands around calls: OPEN^...CALL...^CLOSE^BETWEEN, with a second CALL where a unit has a list of them.
struct CallUnit {
  std::string_view open, close;               ///< marks, of which the second may be missing
  std::string_view before, after;             ///< between `open` and a call, and between a call and `close`
  std::optional<std::string_view> next = {};  ///< between calls of a list
  std::string_view between;                   ///< two units that follow each other
  constexpr CallUnit(const char* text);       // NOLINT(google-explicit-constructor): a text is what it means
};

/// One such form, which is described by texts as the model writes them. Grammar, parser and history follow from them.
/// Words in them stand for what differs:
///   CALL in a unit
///   NAME of the function; ID, which is functions.NAME:NUMBER; a NUMBER of the call
///   OBJECT of the arguments, as JSON; or PAIRS, one for each argument, which have
///   KEY and VALUE, and BOOL: is the value a string?
/// Where a model may write a blank or none there is a `~`, for up to nine a `*`, and after it the blank that history
/// has, if any. The character after `?` may be missing.
struct CallForm {
  enum Kind {
    json,        ///< arguments are an object
    parameters,  ///< pairs, of which strings are written as they are, other values as JSON
    python,      ///< pairs with the literals of Python
    bare,        ///< pairs with those of Gemma, whose strings have their own quotes, and keys none
    channels,    ///< messages with a channel and perhaps a recipient, which is the function
  };
  std::string_view in_template;           ///< what a template of this form contains, besides the mark that opens a unit
  std::string_view not_in_template = {};  ///< what one of another form does
  /// The vocabulary shows `open`, the template need not.
  bool open_in_vocabulary = false;
  /// The template puts `open` together, so its text does not show it.
  bool open_is_composed = false;
  Kind kind = json;
  CallUnit unit;
  std::string_view call = {};                  ///< one of the unit
  std::string_view pair = {}, next_pair = {};  ///< an argument of PAIRS, and what separates two
  std::string_view reader = {};                ///< the prompt ends with `open`, and a text with this NAME is no call
  bool at_start = false;                       ///< a call is the complete text; `open` is optional
  bool one_call = false;                       ///< a message has one call
  bool own_message = false;                    ///< a call is a message, so its marks end messages
  bool short_ids = false;                      ///< the template takes ids of nine letters and digits only
  bool tools_in_system = false;                ///< a template that leaves out tools has them in the system message
  std::span<const std::string_view> inner_marks = {};  ///< texts besides `open` and `close` that may be control tokens

  /// The parts of a description: what stands in front of a name, from there to the arguments, and after them; around
  /// keys and values; and before a list in brackets.
  std::string_view before_name() const, after_name() const, after_arguments() const;
  std::string_view before_key() const, after_key() const, after_value() const;
  /// Of after_value() the part that ends a value, and the blanks after it.
  std::string_view value_end() const { return after_value().substr(0, after_value().rfind('>') + 1); }
  std::string_view value_blanks() const { return after_value().substr(value_end().size()); }
  std::string_view fence() const;
  /// Is the name in the object of the call?
  bool is_object() const { return call.starts_with('{'); }
  /// The keys of the name ("": it is the only key) and of the arguments, where it is.
  std::string_view name_key() const, arguments_key() const;
  /// Are ids functions.NAME:NUMBER?
  bool is_numbered() const { return call.find("ID") != call.npos; }

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
  /// The calls of a message, as history has them.
  std::string written(const nlohmann::ordered_json& calls) const;
};

/// A part of a description.
struct FormPart {
  enum Kind { mark, blank, blanks, optional, name, id, number, object, pairs, key, value, is_string } kind;
  std::string_view text;  ///< of a mark; that history has, of a blank
};
/// The parts of a text of a CallForm.
std::vector<FormPart> parts_of(std::string_view text);

/// What encloses the strings of CallForm::bare.
inline constexpr std::string_view kBareQuote = "<|\"|>";

/// A text as GBNF writes it.
std::string gbnf_literal(std::string_view text);
/// Rules of GBNF for text up to a mark, and the mark, which has its first character once. The first of them is NAME-0;
/// `after`: an expression for what follows the mark.
std::string text_until(std::string_view mark, std::string_view name = "raw", std::string_view after = "");

/// The form of a template; nullptr: it knows no tools, or writes calls in a way that is not read here. `tokenizer`: of
/// the model; without it, only what the template shows counts.
const CallForm* call_form_of(const std::string& chat_template, const Tokenizer* tokenizer = nullptr);

/// The form of Hermes, for templates that know no tools.
const CallForm& general_form();

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
