// Options as data. A struct lists what people may set in fields(o, f), which calls f(Option, member) for each:
//
//   struct SamplerOptions {
//     double top_p = 1;
//     static void fields(auto& o, auto&& f) {
//       f({"top_p", "Choose among the likeliest tokens of this total probability", from_to(0, 1)}, o.top_p);
//     }
//   };
//
// Checks, command lines, fields of requests, settings in brackets, configurations and tables follow from that list.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy {

/// Numbers that an option takes; all of them where nothing else is said.
struct Limits {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above = false;    ///< without `least`
  bool below = false;    ///< without `most`
  bool or_zero = false;  ///< 0 as well
  /// Is it one of them? Infinity and NaN are not.
  bool hold(double value) const;
  /// "0 to 1", "above 0 to 1", "0 or more", "a number above 0"; "" where there are none.
  std::string text() const;
};
constexpr Limits at_least(double least) { return {.least = least}; }                            ///< "0 or more"
constexpr Limits from_to(double least, double most) { return {.least = least, .most = most}; }  ///< "0 to 1"
constexpr Limits above(double bound) { return {.least = bound, .above = true}; }                ///< "a number above 0"
/// Without `end`.
constexpr Limits from_to_below(double least, double end) { return {.least = least, .most = end, .below = true}; }
/// Without `begin`.
constexpr Limits above_to(double begin, double most) { return {.least = begin, .most = most, .above = true}; }
/// Or 0.
constexpr Limits from_to_or_0(double least, double most) { return {.least = least, .most = most, .or_zero = true}; }

/// What people may set.
struct Option {
  std::string_view name;  ///< as in JSON: "top_p"
  std::string_view help;  ///< a line without a full stop
  Limits limits = {};
  std::string_view group = "";    ///< heading in the help of command lines; "": they have no such option
  std::string_view of = "";       ///< in brackets: words that may have it, such as "adamw lion"
  std::string_view setting = "";  ///< its name there; "": as `name`
  std::string_view flags = "";    ///< on command lines; "": --top-p
  /// What a value is, where its type does not say: FILE, FOLDER, SIZE (bytes, as "4G"), TIME (seconds, as "90s"), words
  /// between bars that it may be (among others, if one has a colon), or what the help shows.
  std::string_view text = "";
  std::string_view excludes = "";  ///< the name of an option that cannot be given with it
  bool required = false;
  bool derived = false;  ///< its default follows from other options

  /// Its first name on command lines.
  std::string flag() const;
  /// May it be set in the brackets of this word?
  bool belongs_to(std::string_view word) const;
  std::string_view name_in_brackets() const { return setting.empty() ? name : setting; }
};

/// An option with `text`, or one that excludes another.
constexpr Option text_option(std::string_view name, std::string_view help, std::string_view group,
                             std::string_view text, std::string_view excludes = "", const Limits& limits = {}) {
  return {.name = name, .help = help, .limits = limits, .group = group, .text = text, .excludes = excludes};
}

/// The names of the values of an enum, as pairs in `list`: specialize it.
template <class E>
struct NamesOf;
template <class E>
concept Named = std::is_enum_v<E> && requires {
  NamesOf<E>::list;
};
/// The name of a value, or "".
template <Named E>
constexpr const char* name_in_list(E value) {
  for (const auto& [name, e] : NamesOf<E>::list)
    if (e == value) return name;
  return "";
}

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& words);

/// What an option of type T takes: "0 to 1", "true or false".
template <class T>
std::string takes(const Limits& limits) {
  std::string text;
  if constexpr (Named<T>) {
    std::vector<std::string> words;
    for (const auto& [name, e] : NamesOf<T>::list) words.emplace_back(name);
    text = alternatives(words);
  } else {
    text = std::is_same_v<T, bool> ? "true or false" : limits.text();
  }
  return text;
}

/// What a text that is no number within the limits violates, as "is 5; use 0 to 1". Else "", and `value` is the number.
/// T: int, int64_t, uint64_t, float or double.
template <class T>
std::string read_number(std::string_view text, const Limits& limits, T& value);
/// As read_number(), also for true or false and for the names of an enum.
template <class T>
std::string read_value(std::string_view text, const Limits& limits, T& value) {
  if constexpr (Named<T>) {
    for (const auto& [name, e] : NamesOf<T>::list)
      if (text == name) return value = e, "";
    return "is '" + std::string(text) + "'; use " + takes<T>(limits);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return "is '" + std::string(text) + "'; use true or false";
    return value = text == "true", "";
  } else {
    return read_number(text, limits, value);
  }
}

/// Seconds of "90s", "10m" or "1.5h"; 0 for another text.
double parse_duration(std::string_view text);
/// Sets an option to what people wrote: of a vector all texts, else the last. Returns as read_value().
template <class T>
std::string read_texts(const Option& option, const std::vector<std::string>& texts, T& value) {
  if constexpr (requires { value.push_back({}); } && !std::is_same_v<T, std::string>) {
    value.clear();
    std::string wrong;
    for (const std::string& text : texts)
      if (wrong.empty()) wrong = read_texts(option, {text}, value.emplace_back());
    return wrong;
  } else if constexpr (requires { value.value(); }) {
    return read_texts(option, texts, value.emplace());
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (texts.back().empty() && (option.text == "FILE" || option.text == "FOLDER"))
      return "is empty; use the name of a " + std::string(option.text == "FILE" ? "file" : "folder");
    return value = texts.back(), "";
  } else if constexpr (std::is_same_v<T, double>) {
    if (option.text != "TIME") return read_value(texts.back(), option.limits, value);
    value = parse_duration(texts.back());
    return value > 0 ? "" : "is '" + texts.back() + "'; use a positive number with s, m or h, such as 90s, 10m or 2h";
  } else {
    if constexpr (std::is_same_v<T, size_t>)
      if (option.text == "SIZE") return value = parse_bytes(option.name, texts.back()), "";
    return read_value(texts.back(), option.limits, value);
  }
}

/// A type that stands in brackets: a number, true or false, or a name.
template <class T>
inline constexpr bool is_plain_value = std::is_arithmetic_v<T> || Named<T>;

/// Throws Error{bad_input} naming an option that is outside its limits, with the value and what would do.
void check_limits(const Option& option, double value);
/// The same for all of a list.
template <class Options>
void check_limits(const Options& options) {
  Options::fields(options, [](const Option& option, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) check_limits(option, double(value));
  });
}

/// A word of a list such as "gdn*3,attn(window=128)" or "top_k(40);xtc(threshold=0.1)", and what its brackets say.
struct ListedWord {
  std::string word;
  std::vector<std::pair<std::string, std::string>> settings;  ///< in their order; of a value alone the key is the word
  int64_t times = 1;
};
/// How a list is written.
struct ListForm {
  char between;                    ///< stands between words; '\0': there is one word
  std::vector<std::string> words;  ///< that there are
  int64_t most_times = 0;          ///< that may follow a "*"; 0: nothing may
};
/// Reads such a list. `what` begins errors: "layers 'gdm': there is no 'gdm'; did you mean 'gdn'?". Throws
/// Error{bad_input} for a text that is no list of these words.
std::vector<ListedWord> read_list(std::string_view what, std::string_view text, const ListForm& form);
/// What a whole number is probably meant by as other programs read it: "2M", "1MB", "1_000", "1,000", "1e3", "16.0"; ""
/// if none.
std::string whole_number_of(std::string_view text);

namespace detail {
/// What read_value() reads.
std::string value_text(double value);
/// The same.
inline std::string value_text(bool value) { return value ? "true" : "false"; }
/// The same.
template <class T>
std::string value_text(const T& value) {
  if constexpr (Named<T>)
    return name_in_list(value);
  else
    return std::to_string(value);
}
/// Throws Error{bad_input} naming what the word has instead: names, and what they take.
[[noreturn]] void refuse_setting(std::string_view what, const std::string& word, const std::string& key,
                                 const std::vector<std::pair<std::string, std::string>>& known);
}  // namespace detail

/// Sets what the word's brackets say. Returns the names of the options that were set. Throws Error{bad_input} naming a
/// setting that the word does not have, with those that it has, and a value that it does not take.
template <class Options>
std::vector<std::string_view> set_listed(Options& options, const ListedWord& listed, std::string_view what) {
  std::vector<std::string_view> names;
  for (const auto& [key, text] : listed.settings) {
    std::vector<std::pair<std::string, std::string>> known;  // and what they take
    std::string_view found;
    Options::fields(options, [&, &wanted = key, &given = text](const Option& option, auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (is_plain_value<T>) {
        if (!option.belongs_to(listed.word)) return;
        known.emplace_back(option.name_in_brackets(), takes<T>(option.limits));
        if (option.name_in_brackets() != wanted) return;
        const std::string wrong = read_value(given, option.limits, value);
        check(wrong.empty(), "{}: {}{}{} {}", what, listed.word, wanted == listed.word ? "" : "'s ",
              wanted == listed.word ? "" : wanted, wrong);
        found = option.name;
      }
    });
    if (found.empty()) detail::refuse_setting(what, listed.word, key, known);
    names.push_back(found);
  }
  return names;
}

/// What set_listed() reads: "muon(momentum=0.95, nesterov=true)" of the options that may stand there.
template <class Options>
std::string listed_text(const Options& options, std::string_view word) {
  std::string text;
  Options::fields(options, [&](const Option& option, const auto& value) {
    if constexpr (is_plain_value<std::decay_t<decltype(value)>>)
      if (option.belongs_to(word))
        text += (text.empty() ? "" : ", ") + std::string(option.name_in_brackets()) + "=" + detail::value_text(value);
  });
  return std::string(word) + (text.empty() ? "" : "(" + text + ")");
}

}  // namespace toy
