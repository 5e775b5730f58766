// Markdown of an answer for a terminal, as it comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialog/thoughts.h"

namespace toy::talk {

/// Styles bold, italic and code, code blocks, headings, lists, quotes and rules with escape sequences (ECMA-48).
/// Everything else stays as it is. A span is held back until it ends, so a lone asterisk is shown as one. The result
/// does not depend on how the text is split.
class Markdown {
 public:
  /// `unicode`: bullets and lines may be drawn with characters beyond ASCII.
  explicit Markdown(bool unicode) : unicode_(unicode) {}
  /// What can be shown after this part of the text.
  std::string push(std::string_view text);
  /// The remainder at the end of the text; styles are reset.
  std::string finish();

 private:
  void end_line(std::string& out);
  bool begin_line(std::string& out, bool whole);
  void drain(std::string& out, bool whole);

  bool unicode_;
  std::string line_;    // what was not shown of the line
  bool begun_ = false;  // the kind of the line is known
  bool heading_ = false;
  std::string fence_;      // of the code block that has begun
  bool is_fence_ = false;  // the line begins or ends a code block
  char before_ = ' ';      // the character before line_
};

/// An answer for a terminal: thoughts dim, the rest as Markdown; without colors as it is. Control characters become ?.
class AnswerView {
 public:
  AnswerView(bool color, bool unicode) : color_(color), markdown_(unicode) {}
  /// `thought`: it is known to be one.
  std::string push(std::string_view text, bool thought);
  std::string finish();

 private:
  std::string styled(const std::vector<dialog::ThoughtPart>& parts);
  bool color_;
  dialog::ThoughtSplitter thoughts_;
  Markdown markdown_;
  bool thinking_ = false, any_ = false;
};

/// Breaks lines between words for a terminal of so many columns, as a text comes. A word is held back until it ends
/// or fills lines by itself,
/// and what continues an item of a list is indented like it. Escape sequences take no columns. Lines of code blocks and
/// tables are left to the terminal. The result does not depend on how the text is split.
class WordWrap {
 public:
  explicit WordWrap(size_t columns) : columns_(columns) {}
  std::string push(std::string_view text);
  std::string finish();

 private:
  void take(std::string_view character, std::string& out);
  void end_word(std::string& out);
  void begin_line();

  size_t columns_;
  std::string word_, sequence_;              // what was not shown: a word, and a character of it
  std::string start_;                        // the first three characters of the line
  size_t at_ = 0, blanks_ = 0, indent_ = 0;  // columns shown; blanks before the word; of lines that continue
  bool first_ = true;                        // the word begins its line
  bool fence_ = false, as_it_is_ = false;    // in a code block; a line of one, or of a table
};

/// The text dimmed, for a terminal with colors.
std::string dimmed(std::string_view text);

}  // namespace toy::talk
