// Pre-tokenizers: how a text is cut into words before the merges of byte-level BPE begin, which never reach across. The
// fact behind each is a list of regular expressions (tokenizer.json of the model; llama.cpp, llama-vocab.cpp names them
// in tokenizer.ggml.pre). Here they are rules of a few kinds, which splitter.h applies in time linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/char_classes.h"

namespace toy {

/// One alternative of a regular expression, tried at a place of the text.
struct SplitRule {
  enum Kind : uint8_t {
    contraction,     // 's|'t|'re|'ve|'m|'ll|'d
    run,             // B?S+A*, B being `before`, S `set`, A `after`; or BS+, S{least,most}, S+A?
    cased_word,      // B?S*L+ or else B?S+L*, L being `lower`; with_contraction: and then perhaps a contraction
    space_to_break,  // \s*[\r\n]+
    inner_space,     // \s+(?!\S): all of a run but the last character, which belongs to the word behind it
    final_space,     // \s+$
    spaces_by_half,  // \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
    triple,          // of a run of S that no `not_before` follows, 1 to 3 that leave a multiple of 3
    to_triple,       // up to where a multiple of 3 of S is left: what (?=(S{3})+(?!S)) cuts
    spaced_words,    // B?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
  } kind = run;
  ClassSet set = {}, before = {}, after = {}, lower = {}, not_before = {};
  bool before_required = false, any_case = false, with_contraction = false;
  size_t least = 1, most = std::numeric_limits<size_t>::max(), most_after = std::numeric_limits<size_t>::max();

  friend constexpr bool operator==(const SplitRule&, const SplitRule&) = default;
  constexpr SplitRule maybe_after(ClassSet s) const {
    SplitRule rule = *this;
    rule.before = s;
    return rule;
  }
  /// Of a cased_word: no characters of these classes in it.
  constexpr SplitRule without(uint64_t classes) const {
    SplitRule rule = *this;
    rule.set.none |= classes, rule.lower.none |= classes;
    return rule;
  }
  constexpr SplitRule always_after(ClassSet s) const {
    SplitRule rule = maybe_after(s);
    rule.before_required = true;
    return rule;
  }
  constexpr SplitRule then_any(ClassSet s) const {
    SplitRule rule = *this;
    rule.after = s;
    return rule;
  }
  constexpr SplitRule then_maybe(ClassSet s) const {
    SplitRule rule = then_any(s);
    rule.most_after = 1;
    return rule;
  }
  constexpr SplitRule times(size_t from, size_t to) const {
    SplitRule rule = *this;
    rule.least = from, rule.most = to;
    return rule;
  }
};

/// The alternatives of one regular expression, the first that matches counting.
using SplitPass = std::span<const SplitRule>;

/// A row of the table: what tokenizer.ggml.pre stands for. Each pass cuts what the one before left, into its matches
/// and what lies between them.
struct PreTokenizer {
  std::string_view names;  ///< separated by spaces
  std::span<const SplitPass> passes;
  enum Flags : uint8_t {
    kIgnoreMerges = 1,  ///< a word that is a token is not merged
    kAddsBos = 2,       ///< unless tokenizer.ggml.add_bos_token says otherwise
  };
  uint8_t flags = 0;
};

/// nullptr for an unknown name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
/// The one that cuts a text with these regular expressions of a tokenizer.json, one after the other. `ignore_merges`: a
/// word that is a token is not merged. nullptr where none does.
const PreTokenizer* find_pre_tokenizer(std::span<const std::string> regexes, bool ignore_merges);
/// The regular expressions of one; empty where they are not known as text.
std::vector<std::string> regexes_of(const PreTokenizer& pre_tokenizer);
/// The first of its names.
std::string first_name(const PreTokenizer& pre_tokenizer);
/// All names, for messages: "default, gpt-2, ...".
std::string pre_tokenizer_names();

}  // namespace toy
