#include "chat/wrap.h"

#include <algorithm>

#include "chat/py_text.h"
#include "text/unicode.h"

namespace toy::chat {
namespace {

// A line as characters, and where it may be broken.
class Line {
 public:
  explicit Line(std::string_view text) : characters_(characters(text)), dashes_(characters_.size() + 1, 0) {
    for (const std::string_view c : characters_) codes_.push_back(first_code_point(c).value);
    for (size_t i = codes_.size(); i-- > 0;) dashes_[i] = codes_[i] == '-' ? dashes_[i + 1] + 1 : 0;
  }
  size_t size() const { return codes_.size(); }
  uint32_t code(size_t i) const { return codes_[i]; }
  bool is_blank(size_t i) const {
    const uint32_t c = codes_[i];
    return c == ' ' || (c >= '\t' && c <= '\r');
  }
  std::string text(size_t begin, size_t end) const {
    std::string out;
    for (; begin < end; ++begin) out += characters_[begin];
    return out;
  }

  // The end of the piece that begins at `at`: blanks, dashes between words, or a word or a part of one up to a hyphen.
  size_t piece_end(size_t at, bool at_hyphens) const {
    size_t end = at + 1;
    if (is_blank(at)) {
      while (end < size() && is_blank(end)) ++end;
      return end;
    }
    if (at_hyphens && at > 0 && is_long_dash(at) && may_end(at - 1)) return at + dashes_[at];
    for (; end < size() && !is_blank(end); ++end) {
      if (!at_hyphens) continue;
      if (is_hyphen(end)) return end + 1;
      if (is_long_dash(end) && may_end(end - 1)) return end;
    }
    return end;
  }

 private:
  bool is_letter(size_t i) const { return i < size() && is_word(codes_[i]) && !is_decimal(codes_[i]); }
  // May stand before a dash.
  bool may_end(size_t i) const {
    constexpr std::string_view kMarks = "!\"'&.,?";
    return is_word(codes_[i]) || (codes_[i] < 0x80 && kMarks.find(char(codes_[i])) != kMarks.npos);
  }
  // Two or more, and then a word.
  bool is_long_dash(size_t i) const {
    const size_t end = i + dashes_[i];
    return dashes_[i] >= 2 && end < size() && is_word(codes_[end]);
  }
  // Two letters, or a letter, a hyphen and another character, a hyphen, and two letters, perhaps with one between them.
  bool is_hyphen(size_t i) const {
    if (codes_[i] != '-') return false;
    const bool after_letters = i >= 2 && is_letter(i - 1) && is_letter(i - 2);
    const bool after_hyphen = i >= 3 && is_letter(i - 3) && codes_[i - 2] == '-' && may_end(i - 1);
    if (!after_letters && !after_hyphen) return false;
    return is_letter(i + 1) && (is_letter(i + 2) || (i + 2 < size() && codes_[i + 2] == '-' && is_letter(i + 3)));
  }

  std::vector<std::string_view> characters_;
  std::vector<uint32_t> codes_;
  std::vector<size_t> dashes_;  // that follow each other from here on
};

struct Word {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

// How much of a word that is too long stays on a line with `room`.
size_t broken(const Line& line, const Word& word, size_t room, bool at_hyphens) {
  if (!at_hyphens || word.size() <= room) return std::min(room, word.size());
  for (size_t i = word.begin + room; i-- > word.begin + 1;) {
    if (line.code(i) != '-') continue;
    bool only_dashes = true;
    for (size_t k = word.begin; k < i && only_dashes; ++k) only_dashes = line.code(k) == '-';
    return only_dashes ? room : i + 1 - word.begin;
  }
  return room;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, const WrapStyle& style) {
  const Line line(text);
  std::vector<Word> words;
  for (size_t at = 0; at < line.size(); at = words.back().end)
    words.push_back({at, line.piece_end(at, style.breaks_hyphens)});
  const auto is_blank = [&](const Word& p) { return p.size() == 0 || is_space(line.code(p.begin)); };
  std::vector<std::string> out;
  for (size_t next = 0; next < words.size();) {
    if (is_blank(words[next]) && !out.empty()) ++next;
    std::vector<Word> taken;
    size_t length = 0;
    for (; next < words.size() && length + words[next].size() <= style.width; ++next) {
      length += words[next].size();
      taken.push_back(words[next]);
    }
    if (next < words.size() && words[next].size() > style.width) {
      Word& word = words[next];
      if (style.breaks_words) {
        const size_t kept = broken(line, word, style.width - length, style.breaks_hyphens);
        taken.push_back({word.begin, word.begin + kept});
        word.begin += kept;
      } else if (taken.empty()) {
        taken.push_back(word);
        ++next;
      }
    }
    if (!taken.empty() && is_blank(taken.back())) taken.pop_back();
    if (!taken.empty()) out.push_back(line.text(taken.front().begin, taken.back().end));
  }
  return out;
}

}  // namespace toy::chat
