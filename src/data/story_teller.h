// The pattern language in which the stories are written, and its interpreter.
//
//   text              told as it is
//   [a|3:b|c]         one of the alternatives; "3:" is a weight (default 1); alternatives may hold patterns
//   <list>            a fresh word of a word list; <list.field> tells another field of the word
//   {slot=list}       the same, and the word is remembered as `slot`; {slot=list.field} tells another field
//   of it {slot}            the remembered word; {slot.field} another field of it; {slot.Field} with a
//   capital letter
//   @name             a named pattern, see kPhrases
//
// A story takes no word of a list twice, except to recall it: a word names one thing in a story.
// The head of an alternative is its text up to its first choice. Heads at a choice point must not be prefixes
// of one another: then the text alone tells which alternative was taken (an LL(1) grammar whose tokens are
// the heads).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/story_chooser.h"

namespace toy {

/// Words with named fields, such as a name with its pronouns.
struct WordList {
  std::string_view name;
  std::vector<std::string_view> fields;             ///< the first is the word itself
  std::vector<std::vector<std::string_view>> rows;  ///< one value for each field

  size_t field(std::string_view field_name) const;
};

/// All word lists of the stories (story_words.cpp).
std::span<const WordList> word_lists();

struct Phrase {
  std::string_view name, pattern;
};
/// Named patterns (story_grammar.cpp).
std::span<const Phrase> story_phrases();

/// Tells one story through a chooser. Remembers what the story has said so far.
class Teller {
 public:
  explicit Teller(Chooser& chooser);

  void say(std::string_view pattern);
  /// Says one of the patterns and returns which. `weights` is empty (all alike) or one for each pattern.
  size_t say_one(std::span<const std::string_view> patterns, std::span<const double> weights = {});
  /// The row of the word that `slot` remembers.
  size_t row(std::string_view slot) const;
  bool knows(std::string_view slot) const;
  /// Sets the weights of a list's words for the rest of the story. `weights` must outlive the teller.
  void weigh(std::string_view list, std::span<const double> weights);

 private:
  struct Slot {
    std::string_view name;
    size_t list, row;
  };

  const Slot& slot(std::string_view name) const;
  std::string recall(std::string_view reference) const;
  void draw(std::string_view reference, std::string_view slot_name);
  /// Appends the text that the pattern surely begins with; false when it stopped at a choice.
  bool head(std::string_view pattern, std::string& out) const;

  Chooser& chooser_;
  std::vector<Slot> slots_;
  std::vector<std::vector<bool>> told_;           // by list and row: told in this story
  std::vector<std::span<const double>> weights_;  // by list; empty: all alike
};

/// Tells one story, the empty line at its end included (story_grammar.cpp).
void tell_story(Chooser& chooser);

}  // namespace toy
