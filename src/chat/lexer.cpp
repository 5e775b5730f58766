#include "chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "chat/py_text.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::chat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || uint8_t(c) >= 0x80; }

// Line breaks of all systems become \n, and a last one goes.
std::string normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool carriage = source[i] == '\r';
    out += carriage ? '\n' : source[i];
    if (carriage && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(const std::string& source, const std::string& name) : text_(normalized(source)), name_(name) {
    if (!is_utf8(text_)) toy::fail("{}: it is not UTF-8", name_);
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const size_t begin = next_mark();
      data(begin);
      if (begin == text_.npos) break;
      const char kind = text_[begin + 1];
      at_ = begin + 2;
      if (kind == '#')
        comment(begin);
      else if (kind == '%' && is_raw(at_))
        raw(begin);
      else
        code(begin, kind == '{');
    }
    add(Token::end, text_.size(), {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) { fail_at(name_, place(at), what); }

  // Places are asked for in their order, or nearly.
  SourcePlace place(size_t at) {
    if (at < counted_) counted_ = 0, here_ = {};
    for (; counted_ < at; ++counted_) {
      if (text_[counted_] == '\n')
        ++here_.line, here_.column = 1;
      else if ((uint8_t(text_[counted_]) & 0xc0) != 0x80)
        ++here_.column;
    }
    return here_;
  }
  void add(Token::Kind kind, size_t at, std::string value) { tokens_.push_back({kind, place(at), std::move(value)}); }

  size_t next_mark() const {
    for (size_t at = at_; (at = text_.find('{', at)) != text_.npos; ++at)
      if (at + 1 < text_.size() && std::string_view("{%#").find(text_[at + 1]) != std::string_view::npos) return at;
    return text_.npos;
  }

  // The text before a mark, or the rest. What the mark's sign leaves of it: - takes all white space, + none; else a
  // block or comment takes what stands before it on its line, if that is white space.
  void data(size_t mark) {
    std::string_view data = std::string_view(text_).substr(at_, mark == text_.npos ? mark : mark - at_);
    if (mark != text_.npos) {
      const char sign = mark + 2 < text_.size() ? text_[mark + 2] : ' ';
      if (sign == '-') {
        data = strip(data, false, true);
      } else if (sign != '+' && text_[mark + 1] != '{') {
        const size_t line = data.rfind('\n') + 1;  // npos + 1 is 0
        if ((line > 0 || line_starts_) && leading_space(data.substr(line)) == data.size() - line)
          data = data.substr(0, line);
      }
    }
    if (!data.empty()) add(Token::text, at_, std::string(data));
  }

  // After what ends at `end`, with the sign before its mark.
  void go_on(size_t end, char sign, bool trims) {
    at_ = end;
    if (sign == '-')
      at_ += leading_space(std::string_view(text_).substr(at_));
    else if (trims && sign != '+' && at_ < text_.size() && text_[at_] == '\n')
      ++at_;
    line_starts_ = at_ > 0 && text_[at_ - 1] == '\n';
  }

  void comment(size_t begin) {
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos) fail(begin, "the comment has no end; #} is missing");
    go_on(end + 2, end > at_ ? text_[end - 1] : ' ', true);
  }

  size_t skip_space(size_t at) const { return at + leading_space(std::string_view(text_).substr(at)); }
  // The end of `word` in "{%- word", or npos.
  size_t after_word(size_t at, std::string_view word) const {
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    at = skip_space(at);
    return text_.compare(at, word.size(), word) == 0 ? skip_space(at + word.size()) : text_.npos;
  }
  bool is_raw(size_t at) const {
    const size_t end = after_word(at, "raw");
    return end != text_.npos && (text_.compare(end, 2, "%}") == 0 || text_.compare(end, 3, "-%}") == 0);
  }

  void raw(size_t begin) {
    size_t end = after_word(at_, "raw");
    const bool minus = text_[end] == '-';
    go_on(end + (minus ? 3 : 2), minus ? '-' : ' ', false);
    for (size_t mark = at_; (mark = text_.find("{%", mark)) != text_.npos; ++mark) {
      end = after_word(mark + 2, "endraw");
      if (end == text_.npos) continue;
      const char sign = text_[end] == '-' || text_[end] == '+' ? text_[end] : ' ';
      if (sign != ' ') ++end;
      if (text_.compare(end, 2, "%}") != 0) continue;
      data(mark);
      return go_on(end + 2, sign, true);
    }
    fail(begin, "raw has no end; {% endraw %} is missing");
  }

  void code(size_t begin, bool print) {
    add(print ? Token::print_begin : Token::block_begin, begin, {});
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    const std::string_view close = print ? "}}" : "%}";
    std::string open;  // brackets
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= text_.size()) fail(begin, fmt::format("{} is missing", close));
      const char c = text_[at_];
      const bool sign = c == '-' || (c == '+' && !print);
      if (open.empty() && text_.compare(at_ + (sign ? 1 : 0), 2, close) == 0) {
        add(print ? Token::print_end : Token::block_end, at_, {});
        return go_on(at_ + (sign ? 3 : 2), sign ? c : ' ', !print);
      }
      if (is_digit(c))
        number();
      else if (begins_name(c))
        word();
      else if (c == '\'' || c == '"')
        string();
      else
        symbol(open);
    }
  }

  void word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    add(Token::name, begin, text_.substr(begin, at_ - begin));
  }

  // Digits with _ between them.
  void digits(std::string& out) {
    while (at_ < text_.size() &&
           (is_digit(text_[at_]) || (text_[at_] == '_' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))) {
      if (text_[at_] != '_') out += text_[at_];
      ++at_;
    }
  }
  bool is_digit_at(size_t at) const { return at < text_.size() && is_digit(text_[at]); }

  // 0x1F, 0o17, 0b1; false where none stands here.
  bool based_number() {
    constexpr std::string_view kPrefixes = "xob";
    constexpr int kBases[] = {16, 8, 2};
    const size_t kind = at_ + 1 < text_.size() ? kPrefixes.find(char(text_[at_ + 1] | 0x20)) : kPrefixes.npos;
    if (text_[at_] != '0' || kind == kPrefixes.npos) return false;
    const auto is_digit_at = [&](size_t at) {
      const char c = at < text_.size() ? char(text_[at] | 0x20) : ' ';
      const int value = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
      return value < kBases[kind];
    };
    std::string value;
    size_t end = at_ + 2;
    for (; is_digit_at(end) || (text_.compare(end, 1, "_") == 0 && is_digit_at(end + 1)); ++end)
      if (text_[end] != '_') value += text_[end];
    if (value.empty()) return false;
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number, kBases[kind]);
    if (error != std::errc()) fail(at_, "the number is too large");
    add(Token::integer, at_, fmt::format("{}", number));
    at_ = end;
    return true;
  }

  void number() {
    if (based_number()) return;
    const size_t begin = at_;
    std::string value;
    bool real = false;
    digits(value);
    if (text_.compare(at_, 1, ".") == 0 && is_digit_at(at_ + 1)) {
      real = true;
      value += text_[at_++];
      digits(value);
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      const size_t sign = at_ + 1 < text_.size() && (text_[at_ + 1] == '-' || text_[at_ + 1] == '+') ? 1 : 0;
      if (is_digit_at(at_ + 1 + sign)) {
        real = true;
        value += text_.substr(at_, 1 + sign);
        at_ += 1 + sign;
        digits(value);
      }
    }
    if (!real && value[0] == '0' && value.find_first_not_of('0') != value.npos)
      fail(begin, "a whole number does not begin with 0; octal numbers begin with 0o");
    add(real ? Token::real : Token::integer, begin, value);
  }

  void string() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\')
        escape(value);
      else
        value += text_[at_++];
    }
    if (at_ >= text_.size()) fail(begin, fmt::format("the string has no end; {} is missing", quote));
    ++at_;
    add(Token::string, begin, value);
  }

  // A backslash and what follows, as Python reads it.
  void escape(std::string& out) {
    const size_t begin = at_++;
    if (at_ >= text_.size()) return;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "ntr\\'\"abfv", kMeant = "\n\t\r\\'\"\a\b\f\v";
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      out += kMeant[i];
    } else if (c == '\n') {  // the line goes on
    } else if (c >= '0' && c <= '7') {
      size_t end = at_;
      while (end < at_ + 2 && end < text_.size() && text_[end] >= '0' && text_[end] <= '7') ++end;
      code_point(at_ - 1, end, 8, begin, out);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      code_point(at_, at_ + (c == 'x' ? 2 : c == 'u' ? 4 : 8), 16, begin, out);
    } else if (c == 'N') {
      fail(begin,
           "names of characters (\\N{...}) are not supported; write the character itself, or \\u and its number");
    } else {
      out += '\\', out += c;
    }
  }
  void code_point(size_t from, size_t to, int base, size_t begin, std::string& out) {
    uint32_t value = 0;
    const char* end = text_.data() + std::min(to, text_.size());
    const auto [stop, error] = std::from_chars(text_.data() + std::min(from, text_.size()), end, value, base);
    if (error != std::errc() || stop != end || to > text_.size() || value > 0x10ffff ||
        (value >= 0xd800 && value < 0xe000))
      fail(begin, "the escape is no character");
    at_ = to;
    out += utf8_encode(value);
  }

  void symbol(std::string& open) {
    constexpr std::string_view kPairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    const std::string_view rest = std::string_view(text_).substr(at_);
    for (const std::string_view pair : kPairs)
      if (rest.starts_with(pair)) {
        add(Token::symbol, at_, std::string(pair));
        at_ += 2;
        return;
      }
    const char c = rest[0];
    constexpr std::string_view kSingle = "+-*/%~<>=.,:|()[]{};", kOpen = "([{", kClose = ")]}";
    if (kSingle.find(c) == kSingle.npos)
      fail(at_, fmt::format("'{}' has no meaning here",
                            one_line(rest.substr(0, std::max<size_t>(1, utf8_character(rest))))));
    if (kOpen.find(c) != kOpen.npos) open += kClose[kOpen.find(c)];
    if (kClose.find(c) != kClose.npos) {
      if (open.empty()) fail(at_, fmt::format("'{}' closes nothing", c));
      if (open.back() != c) fail(at_, fmt::format("'{}' is here; expected '{}'", c, open.back()));
      open.pop_back();
    }
    add(Token::symbol, at_, std::string(1, c));
    ++at_;
  }

  std::string text_;
  const std::string& name_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool line_starts_ = true;
  size_t counted_ = 0;
  SourcePlace here_;
};

}  // namespace

void fail_at(const std::string& name, SourcePlace place, const std::string& what) {
  toy::fail("{}: line {}, column {}: {}", name, place.line, place.column, what);
}

std::vector<Token> tokenize(const std::string& source, const std::string& name) { return Lexer(source, name).run(); }

std::string shown(const Token& t) {
  constexpr std::string_view kNames[] = {"text", "'{{'", "'}}'", "'{%'", "'%}'", "", "a string", "", "", "", "the end"};
  const std::string_view name = kNames[t.kind];
  return name.empty() ? fmt::format("'{}'", one_line(t.value.substr(0, 40))) : std::string(name);
}

}  // namespace toy::chat
