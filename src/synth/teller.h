// The pattern language in which the stories are written, and its interpreter, which asks a chooser at each choice
// point. A chooser draws (to write a story) or matches a text (to score it).
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

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/philox.h"

namespace toy {

/// One way to continue.
struct Weighted {
  std::string_view head;  ///< the text that surely comes next if this option is taken
  double weight;          ///< its share of the probability; 0: impossible here
};

/// The story teller asks choose() and then tells the text of the chosen option, head included, by literal().
class Chooser {
 public:
  virtual ~Chooser() = default;

  /// Index of the option taken; adds -log of its probability to nats().
  size_t choose(std::span<const Weighted> options);
  virtual void literal(std::string_view text) = 0;

  double nats() const { return nats_; }

 protected:
  virtual size_t select(std::span<const Weighted> options, double total) = 0;

 private:
  double nats_ = 0;
};

/// Draws with Philox and writes the story to `out`. The draws depend on (seed, story) alone.
class DrawingChooser : public Chooser {
 public:
  DrawingChooser(uint64_t seed, uint64_t story, std::string& out);
  void literal(std::string_view text) override { out_ += text; }

 protected:
  size_t select(std::span<const Weighted> options, double total) override;

 private:
  Philox random_;
  uint64_t next_;
  std::string& out_;
};

/// Recovers the choices from a text. Exactly one option's head must match at each choice point: no match is
/// the caller's Error, two matches would be an ambiguous grammar and are an internal one. So a text that was
/// scored is proven to have a single derivation.
class MatchingChooser : public Chooser {
 public:
  MatchingChooser(std::string_view text, size_t offset) : text_(text), offset_(offset) {}
  void literal(std::string_view text) override;
  size_t offset() const { return offset_; }

 protected:
  size_t select(std::span<const Weighted> options, double total) override;

 private:
  std::string_view text_;
  size_t offset_;
};

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
