// The pattern language in which the stories are written, and its interpreter.
//
//   text          told as it is
//   [a|3:b|c]     one of the alternatives, which are patterns; "3:" is a weight (default 1)
//   <list>        a fresh word of a word list
//   {slot=list}   the same, remembered as `slot`; {slot=list.field} tells another field of the word
//   {slot}        the remembered word; {slot.field} another field of it; {slot.Field} with a capital letter
//   @name         a named pattern
//
// A story takes no word of a list twice, except to recall it: a word names one thing in a story.
// The head of an alternative is its text up to its first choice. Heads at a choice point must not be prefixes
// of one another: then the text alone tells which alternative was taken (an LL(1) grammar whose tokens are
// the heads).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "synth/chooser.h"

namespace toy {

/// Words with named fields, such as a name with its pronouns.
struct WordList {
  std::vector<std::string_view> fields;             ///< the first is the list's name, and the word itself
  std::vector<std::vector<std::string_view>> rows;  ///< one value for each field
};
/// All word lists of the stories (words.cpp).
std::span<const WordList> word_lists();

/// A named pattern.
struct Phrase {
  std::string_view name, pattern;
};
/// All of them (grammar.cpp).
std::span<const Phrase> story_phrases();

/// One of several patterns.
struct Alternative {
  std::string_view pattern;
  double weight = 1;
};

/// Tells one story through a chooser. Remembers what the story has said so far.
class Teller {
 public:
  explicit Teller(Chooser& chooser) : chooser_(chooser) {}

  void say(std::string_view pattern);
  /// Says one of the patterns and returns which.
  size_t say_one(std::span<const Alternative> alternatives);
  /// Says a fresh word, `reference` being "list" or "list.field", and remembers it as `slot`, if there is a name. Rows
  /// of the list have `weights`, or are all alike.
  void draw(std::string_view reference, std::string_view slot, std::span<const double> weights = {});
  /// The row of the word that `slot` remembers.
  size_t row(std::string_view slot) const { return slots_.at(slot).row; }
  bool knows(std::string_view slot) const { return slots_.contains(slot); }

 private:
  struct Word {
    const WordList* list;
    size_t row;
  };

  std::string recall(std::string_view reference) const;
  /// Appends the text that the pattern surely begins with; false when it stopped at a choice.
  bool head(std::string_view pattern, std::string& out) const;

  Chooser& chooser_;
  std::map<std::string_view, Word> slots_;
  std::multimap<const WordList*, size_t> told_;  // rows that the story has taken
};

/// Tells one story, the empty line at its end included (grammar.cpp).
void tell_story(Chooser& chooser);

}  // namespace toy
