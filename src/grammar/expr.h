// Rules of a grammar before they are compiled: regular expressions on code points that may refer to rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toy::grammar {

/// Code points lo to hi.
struct CharRange {
  uint32_t lo = 0, hi = 0;
  bool operator==(const CharRange&) const = default;
};
/// Sorted, disjoint, and not adjacent.
using CharSet = std::vector<CharRange>;

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

CharSet normalized(CharSet set);
CharSet complement(const CharSet& set);
CharSet intersection(const CharSet& a, const CharSet& b);

struct CharAutomaton;

/// An expression. A sequence without parts is the empty text; alternatives without parts are no text at all.
struct Expr {
  enum Kind {
    chars,
    texts,
    sequence,
    alternatives,
    repeat,
    rule,
    json_string_of,
    text_begin,  ///< this and the following take no code point; for char_automaton() only
    text_end,
    word_edge,
    no_word_edge
  };
  Kind kind = sequence;
  CharSet set = {};              ///< chars: one of these
  std::vector<Expr> parts = {};  ///< of repeat: one
  int64_t least = 0, most = -1;  ///< repeat: how often; json_string_of: code points; most -1: any number
  int32_t rule_index = -1;
  std::shared_ptr<const CharAutomaton> automaton = {};  ///< json_string_of: the texts as they stand in a JSON string
  std::shared_ptr<const std::vector<std::string>> list = {};  ///< texts: one of these, which are UTF-8
};

inline Expr chars(CharSet set) { return {.kind = Expr::chars, .set = normalized(std::move(set))}; }
/// The text itself; it has to be UTF-8.
Expr literal(std::string_view text);
/// One of these texts. They share their beginnings, so any number of them is read in one way.
Expr one_of(std::vector<std::string> texts);
inline Expr sequence(std::vector<Expr> parts) { return {.kind = Expr::sequence, .parts = std::move(parts)}; }
inline Expr alternatives(std::vector<Expr> parts) { return {.kind = Expr::alternatives, .parts = std::move(parts)}; }
inline Expr repeat(Expr part, int64_t least, int64_t most) {
  Expr e{.kind = Expr::repeat, .least = least, .most = most};
  e.parts.push_back(std::move(part));
  return e;
}
inline Expr optional(Expr part) { return repeat(std::move(part), 0, 1); }
inline Expr rule(int32_t index) { return {.kind = Expr::rule, .rule_index = index}; }

/// A rule. The first of a grammar is the complete text.
struct Rule {
  std::string name;  ///< for messages
  Expr expr;
};

/// Code points of a text that is UTF-8; throws Error{bad_input} naming `what` where it is not.
std::vector<uint32_t> code_points(std::string_view text, std::string_view what);

}  // namespace toy::grammar
