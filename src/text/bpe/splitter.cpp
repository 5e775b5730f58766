#include "text/bpe/splitter.h"

#include <algorithm>
#include <bit>

#include "text/unicode.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

/// Matches the rules of one pass against one stretch of text.
class RuleMatcher {
 public:
  /// `open`: more text follows.
  RuleMatcher(SplitPass rules, std::string_view text, bool open) : rules_(rules), text_(text), open_(open) {}

  /// The end of the match that begins at `at`; `at` if there is none.
  size_t match(size_t at) {
    saw_end_ = false;
    for (const SplitRule& rule : rules_) {
      const size_t end = match(rule, at);
      if (end > at || uncertain()) return end;
    }
    return at;
  }
  /// Whether more text could change the answer of match().
  bool uncertain() const { return open_ && saw_end_; }
  size_t character_bytes(size_t at) { return look(at).bytes; }

 private:
  struct Char {
    uint64_t classes = 0;  // 0 at the end of the text
    size_t bytes = 0;
  };

  Char look(size_t at) {
    if (at < text_.size() && uint8_t(text_[at]) < 0x80) return {ascii_[uint8_t(text_[at])], 1};
    const std::string_view rest = text_.substr(std::min(at, text_.size()));
    if (rest.empty() || (open_ && utf8_cut_off(rest))) {
      saw_end_ = true;
      return {};
    }
    const CodePoint c = first_code_point(rest);
    return {table_.of(c.value), c.bytes};
  }

  size_t match(const SplitRule& rule, size_t at) {
    switch (rule.kind) {
      case SplitRule::contraction:
        return contraction(at, rule.any_case);
      case SplitRule::run:
        return run(rule, at);
      case SplitRule::cased_word:
        return cased_word(rule, at);
      case SplitRule::space_to_break: {
        const size_t end = end_of_run(any_of(kSpace), at);
        const size_t last = text_.substr(at, end - at).find_last_of("\r\n");
        return last == std::string_view::npos ? at : at + last + 1;
      }
      case SplitRule::inner_space: {
        const size_t end = end_of_run(any_of(kSpace), at);
        return end == at || end == text_.size() ? end : before_last_character(end);
      }
      case SplitRule::final_space: {
        const size_t end = end_of_run(any_of(kSpace), at);
        return end == text_.size() ? end : at;
      }
      case SplitRule::spaces_by_half:
        return spaces_by_half(at);
      case SplitRule::triple: {
        const size_t left = left_of_run(rule.set, at);
        if (left == 0 || rule.not_before.contains(look(end_of_run(rule.set, at)).classes)) return at;
        return behind(at, (left - 1) % 3 + 1);
      }
      case SplitRule::to_triple:
        return to_triple(rule.set, at);
      case SplitRule::spaced_words:
        return spaced_words(rule.before, at);
    }
    return at;
  }

  size_t before_last_character(size_t end) const {
    do --end;
    while ((uint8_t(text_[end]) & 0xC0) == 0x80);
    return end;
  }

  /// The end of the characters of `set` that begin at `at`. The run found last is remembered, or else a long one that
  /// several rules look at from several places would cost the square of its length.
  size_t end_of_run(ClassSet set, size_t at) {
    if (set == run_.set && at >= run_.begin && at < run_.end) return run_.end;
    size_t end = at;
    for (Char c = look(end); set.contains(c.classes); c = look(end)) end += c.bytes;
    run_ = {set, at, end};
    return end;
  }

  /// The place that many characters on, or the end of the text.
  size_t behind(size_t at, size_t characters) {
    for (; characters > 0; --characters) at += look(at).bytes;
    return at;
  }

  /// The number of characters of `set` from `at` on. Those of the last run are counted once.
  size_t left_of_run(ClassSet set, size_t at) {
    const size_t end = end_of_run(set, at);
    if (left_.set != set || left_.end != end || at < left_.at) {
      left_ = {set, at, end, 0};
      for (size_t i = at; i < end; i += look(i).bytes) ++left_.count;
    }
    for (; left_.at < at; left_.at += look(left_.at).bytes) --left_.count;
    return left_.count;
  }

  // Where the text goes on with something else, the last space belongs to it.
  size_t spaces_by_half(size_t at) {
    const size_t spaces = left_of_run(any_of(kSpace), at);
    if (spaces == 0) return at;
    const bool at_end = end_of_run(any_of(kSpace), at) == text_.size();
    const size_t most = std::max<size_t>(at_end ? spaces : spaces - 1, 1);
    return behind(at, std::min<size_t>(512, std::bit_floor(most)));
  }

  size_t to_triple(ClassSet set, size_t at) {
    for (size_t end = at;;) {
      const size_t bytes = look(end).bytes;
      end += bytes;
      const size_t left = left_of_run(set, end);
      if (bytes == 0 || (left > 0 && left % 3 == 0)) return end;
    }
  }

  size_t spaced_words(ClassSet before, size_t at) {
    const auto is_letter = [this](size_t i) { return any_of(kLetter).contains(look(i).classes); };
    const Char first = look(at);
    size_t end = before.contains(first.classes) ? at + first.bytes : at;
    if (!is_letter(end)) return at;
    for (;;) {
      end = end_of_run(any_of(kMark), end + look(end).bytes);
      if (is_letter(end)) continue;
      const Char c = look(end);
      if (!any_of(kBlank).contains(c.classes) || !is_letter(end + c.bytes)) return end;
      end += c.bytes;
    }
  }

  size_t run(const SplitRule& rule, size_t at) {
    size_t begin = at;
    const Char first = look(at);
    if (rule.before.contains(first.classes) && rule.set.contains(look(at + first.bytes).classes)) {
      begin += first.bytes;
    } else if (rule.before_required || !rule.set.contains(first.classes)) {
      return at;
    }
    size_t end = begin;
    if (rule.most == std::numeric_limits<size_t>::max()) {
      end = end_of_run(rule.set, begin);
    } else {
      size_t n = 0;
      for (; n < rule.most; ++n) {
        const Char c = look(end);
        if (!rule.set.contains(c.classes)) break;
        end += c.bytes;
      }
      if (n < rule.least) return at;
    }
    if (rule.most_after == 1) return rule.after.contains(look(end).classes) ? end + look(end).bytes : end;
    return rule.after == ClassSet{} ? end : end_of_run(rule.after, end);
  }

  // In the order in which a backtracking engine would find them.
  size_t cased_word(const SplitRule& rule, size_t at) {
    const Char first = look(at);
    const size_t behind = rule.before.contains(first.classes) ? at + first.bytes : at;
    size_t end = at;
    const auto found = [&](size_t begin, size_t e) { return e > begin ? (end = e, true) : false; };
    if (!found(behind, upper_lower(rule, behind)) && !found(at, upper_lower(rule, at)) &&
        !found(behind, end_of_run(rule.set, behind)) && !found(at, end_of_run(rule.set, at)))
      return at;
    return rule.with_contraction ? contraction(end, rule.any_case) : end;
  }

  /// S*L+: the run of S gives back what is not in L, if it is not followed by L.
  size_t upper_lower(const SplitRule& rule, size_t begin) {
    size_t end = begin, last_lower = begin;
    for (Char c = look(end); rule.set.contains(c.classes); c = look(end)) {
      end += c.bytes;
      if (rule.lower.contains(c.classes)) last_lower = end;
    }
    const size_t lower_end = end_of_run(rule.lower, end);
    return lower_end > end ? lower_end : last_lower;
  }

  size_t contraction(size_t at, bool any_case) {
    if (at >= text_.size() || text_[at] != '\'') {
      saw_end_ |= at >= text_.size();
      return at;
    }
    struct Letter {
      char letter;
      size_t end;
    };
    const auto letter = [&](size_t from) -> Letter {
      const size_t bytes = look(from).bytes;
      const std::string_view c = text_.substr(std::min(from, text_.size()), bytes);
      if (any_case && c == "\u017F") return {'s', from + bytes};  // long s, which (?i:s) matches
      if (bytes != 1) return {'\0', from};
      return {any_case && c[0] >= 'A' && c[0] <= 'Z' ? char(c[0] + ('a' - 'A')) : c[0], from + 1};
    };
    const Letter first = letter(at + 1);
    switch (first.letter) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return first.end;
      case 'r':
      case 'v':
      case 'l': {
        const Letter second = letter(first.end);
        return second.letter == (first.letter == 'l' ? 'l' : 'e') ? second.end : at;
      }
      default:
        return at;
    }
  }

  SplitPass rules_;
  std::string_view text_;
  bool open_, saw_end_ = false;
  const CharClasses& table_ = CharClasses::table();
  const uint64_t* ascii_ = table_.ascii();
  struct Run {
    ClassSet set;
    size_t begin = 0, end = 0;
  } run_;
  struct Left {
    ClassSet set;
    size_t at = 0, end = 0, count = 0;
  } left_;
};

}  // namespace

Splitter::Splitter(const PreTokenizer& rules) {
  const auto may_begin = [](const SplitRule& rule, uint32_t c) {
    const uint64_t classes = CharClasses::table().of(c);
    switch (rule.kind) {
      case SplitRule::contraction:
        return c == '\'';
      case SplitRule::run:
      case SplitRule::cased_word:
      case SplitRule::triple:
        return rule.before.contains(classes) || rule.set.contains(classes) || rule.lower.contains(classes);
      case SplitRule::spaced_words:
        return rule.before.contains(classes) || any_of(kLetter).contains(classes);
      case SplitRule::to_triple:
        return true;
      default:
        return any_of(kSpace).contains(classes);
    }
  };
  for (const SplitPass& pass : rules.passes) {
    passes_.push_back({pass, {}});
    for (uint32_t c = 0; c < 128; ++c)
      passes_.back().may_begin[c] =
          std::any_of(pass.begin(), pass.end(), [&](const SplitRule& rule) { return may_begin(rule, c); });
  }
}

// Where more text follows, the pass ends at the first match that is not certain. What lies before it without a match is
// certain not to match; more text can only add to its end, so that for the next pass it is text that goes on, too.
size_t Splitter::split(size_t pass, std::string_view text, bool open, const TakeWord& take) const {
  if (pass == passes_.size()) {
    if (open) return 0;
    take(text);
    return text.size();
  }
  RuleMatcher matcher(passes_[pass].rules, text, open);
  size_t at = 0, gap = 0;
  while (at < text.size()) {
    if (const uint8_t byte = uint8_t(text[at]); byte < 128 && !passes_[pass].may_begin[byte]) {
      ++at;
      continue;
    }
    const size_t end = matcher.match(at);
    if (matcher.uncertain()) break;
    if (end == at) {
      at += matcher.character_bytes(at);
      continue;
    }
    if (gap < at) split(pass + 1, text.substr(gap, at - gap), false, take);
    split(pass + 1, text.substr(at, end - at), false, take);
    gap = at = end;
  }
  return gap < at ? gap + split(pass + 1, text.substr(gap, at - gap), open, take) : gap;
}

}  // namespace toy
