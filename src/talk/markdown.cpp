#include "talk/markdown.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "toy/base/utf8.h"

namespace toy::talk {
namespace {

constexpr std::string_view kReset = "\x1b[0m", kDim = "\x1b[2m", kBold = "\x1b[1m", kItalic = "\x1b[3m",
                           kCode = "\x1b[36m", kUnderline = "\x1b[4m";
constexpr size_t kLongestSpan = 400;  // what is longer is no span, but a lone mark

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<signed char>(c) < 0;
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

size_t run_length(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(text[at], at), text.size()) - at;
}

// Begins a text with a span?
enum class Found { yes, no, perhaps };
struct Span {
  Found found = Found::no;
  size_t mark = 0, end = 0;  // the length of its marks; where it ends, with them
};

// The run of `count` marks that ends the span which begins at 0. `whole`: nothing follows the text.
Span find_end(std::string_view text, size_t count, bool whole, bool is_code) {
  const char mark = text[0];
  for (size_t i = count; i < text.size();) {
    if (!is_code && text[i] == '`') {  // marks inside of code do not count
      const Span code = find_end(text.substr(i), run_length(text, i), whole, true);
      if (code.found == Found::perhaps) return code;
      i += code.found == Found::yes ? code.end : run_length(text, i);
      continue;
    }
    if (text[i] != mark) {
      ++i;
      continue;
    }
    const size_t n = run_length(text, i), end = i + n;
    if (end == text.size() && !whole) return {Found::perhaps};
    const bool closes =
        is_code || (!is_blank(text[i - 1]) && (mark == '*' || end == text.size() || !is_word(text[end])));
    if (n == count && closes) return {Found::yes, count, end};
    i = end;
  }
  return {whole || text.size() > kLongestSpan ? Found::no : Found::perhaps};
}

// `before` is the character in front of the text, which begins with a mark.
Span find_span(std::string_view text, char before, bool whole) {
  const size_t n = run_length(text, 0);
  if (n == text.size() && !whole) return {Found::perhaps};
  if (text[0] == '`') return find_end(text, n, whole, true);
  if (n > 3 || n == text.size() || is_blank(text[n]) || (text[0] == '_' && is_word(before))) return {};
  return find_end(text, n, whole, false);
}

// A text without line breaks: what can be shown of it, and how many bytes of it that is. `style` is that around it.
size_t render(std::string_view text, char before, bool whole, const std::string& style, std::string& out) {
  size_t at = 0;
  const auto previous = [&] { return at == 0 ? before : text[at - 1]; };
  while (at < text.size()) {
    const size_t next = std::min(text.find_first_of("*_`\\", at), text.size());
    out += text.substr(at, next - at);
    if ((at = next) == text.size()) break;
    if (text[at] == '\\') {
      if (at + 1 == text.size() && !whole) break;
      const bool escapes = at + 1 < text.size() && std::string_view("*_`#\\").find(text[at + 1]) != text.npos;
      out += text[at + escapes];
      at += 1 + escapes;
      continue;
    }
    const Span span = find_span(text.substr(at), previous(), whole);
    if (span.found == Found::perhaps) break;
    if (span.found == Found::no) {
      const size_t n = run_length(text, at);
      out += text.substr(at, n);
      at += n;
      continue;
    }
    const std::string_view inner = text.substr(at + span.mark, span.end - 2 * span.mark);
    std::string own;
    if (text[at] == '`') own = kCode;
    if (text[at] != '`' && span.mark >= 2) own += kBold;
    if (text[at] != '`' && span.mark != 2) own += kItalic;
    out += own;
    if (text[at] == '`')
      out += inner;
    else
      render(inner, text[at], true, style + own, out);
    out += std::string(kReset) + style;
    at += span.end;
  }
  return at;
}

// A rule: three or more of - * _ and nothing else.
bool is_rule(std::string_view line) {
  while (line.ends_with(' ')) line.remove_suffix(1);
  return line.size() >= 3 && std::string_view("-*_").find(line[0]) != line.npos && run_length(line, 0) == line.size();
}

// May what was read of a line (after its blanks) still become any kind of line?
bool is_open(std::string_view line) {
  if (line.empty()) return true;
  const size_t run = run_length(line, 0);
  if (std::string_view("#-*_+`~").find(line[0]) != line.npos) return run == line.size() && run < 80;
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return line == ">" || (digits > 0 && digits < 9 && line.size() <= digits + 1 &&
                         (line.size() == digits || line[digits] == '.' || line[digits] == ')'));
}

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  while (count-- > 0) out += text;
  return out;
}

}  // namespace

std::string dimmed(std::string_view text) { return std::string(kDim) + std::string(text) + std::string(kReset); }

// Shows how the line begins. False: that is not known yet.
bool Markdown::begin_line(std::string& out, bool whole) {
  const size_t indent = std::min(line_.find_first_not_of(' '), line_.size());
  const std::string_view rest = std::string_view(line_).substr(indent);
  if (!whole && is_open(rest)) return false;
  const char first = rest.empty() ? ' ' : rest[0];
  const size_t run = rest.empty() ? 0 : run_length(rest, 0);
  before_ = ' ';
  begun_ = true;
  if ((first == '`' || first == '~') && run >= 3 && (fence_.empty() || rest.starts_with(fence_))) {
    is_fence_ = true;
    fence_ = fence_.empty() ? std::string(run, first) : "";
    out += kDim;
    return true;
  }
  if (!fence_.empty()) {
    out += kCode;
    return true;
  }
  const auto replace = [&](size_t bytes, const std::string& text) {
    out += std::string(indent, ' ') + text;
    line_.erase(0, indent + bytes);
  };
  if (first == '#' && run <= 6 && run < rest.size() && rest[run] == ' ') {
    heading_ = true;
    replace(run + 1, std::string(kBold) + (run <= 2 ? std::string(kUnderline) : ""));
  } else if (whole && is_rule(rest)) {
    replace(rest.size(), dimmed(repeated(unicode_ ? "\u2500" : "-", 20)));
  } else if ((first == '-' || first == '*' || first == '+') && run == 1 && rest.size() > 1 && rest[1] == ' ') {
    replace(1, unicode_ ? "\u2022" : "-");
  } else if (first == '>') {
    replace(1, dimmed(unicode_ ? "\u2502" : ">"));
  }
  return true;
}

void Markdown::drain(std::string& out, bool whole) {
  if (!begun_ && !begin_line(out, whole)) return;
  size_t shown = line_.size();
  if (is_fence_ || !fence_.empty())
    out += line_;
  else
    shown = render(line_, before_, whole, heading_ ? std::string(kBold) : "", out);
  if (shown > 0) before_ = line_[shown - 1];
  line_.erase(0, shown);
}

void Markdown::end_line(std::string& out) {
  drain(out, true);
  if (heading_ || is_fence_ || !fence_.empty()) out += kReset;
  begun_ = heading_ = is_fence_ = false;
}

std::string Markdown::push(std::string_view text) {
  std::string out;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    line_ += text.substr(0, end);
    end_line(out);
    out += '\n';
  }
  line_ += text;
  if (!line_.empty()) drain(out, false);
  return out;
}

std::string Markdown::finish() {
  std::string out;
  end_line(out);
  fence_.clear();
  return out;
}

void WordWrap::begin_line() {
  at_ = blanks_ = indent_ = 0;
  first_ = true;
  if (start_ == "```" || start_ == "~~~") fence_ = !fence_;
  start_.clear();
  as_it_is_ = fence_;
}

void WordWrap::end_word(std::string& out) {
  if (word_.empty()) return;
  std::string plain;
  for (size_t i = 0; i < word_.size(); ++i)
    if (word_[i] == '\x1b')
      i = std::min(word_.find('m', i), word_.size());
    else
      plain += word_[i];
  const size_t columns = terminal_columns(plain);
  if (first_ && !plain.empty()) {
    const bool marks =
        plain == "-" || plain == "\u2022" || plain == "\u2502" || plain == ">" ||
        (plain.size() < 5 && (plain.ends_with('.') || plain.ends_with(')')) && plain[0] >= '0' && plain[0] <= '9');
    indent_ = std::min(blanks_ + (marks ? columns + 1 : 0), columns_ / 2);
    first_ = false;
  } else if (columns > 0 && at_ + blanks_ + columns > columns_) {
    out += '\n' + std::string(indent_, ' ');
    at_ = indent_;
    blanks_ = 0;
  }
  out += std::string(blanks_, ' ') + word_;
  at_ += blanks_ + columns;
  blanks_ = 0;
  word_.clear();
}

void WordWrap::take(std::string_view c, std::string& out) {
  const bool is_shown = c[0] != '\x1b' && c != "\n";
  if (is_shown && start_.size() < 3 && (c != " " || !start_.empty())) start_ += c;
  if (start_ == "|") as_it_is_ = true;  // of a table
  if (c == "\n" || as_it_is_) {
    end_word(out);
    out += std::string(blanks_, ' ');
    out += c;
    blanks_ = 0;
    if (c == "\n") begin_line();
  } else if (c == " ") {
    end_word(out);
    ++blanks_;
  } else {
    const bool is_wide = is_shown && terminal_columns(c) > 1;  // texts of these have no blanks
    if (is_wide) end_word(out);
    word_ += c;
    if (is_wide || word_.size() > 4 * columns_) end_word(out);  // no word
  }
}

std::string WordWrap::push(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    const bool continues = (byte & 0xC0) == 0x80, in_escape = sequence_.starts_with('\x1b');
    if (!in_escape && !continues && !sequence_.empty()) take(std::exchange(sequence_, {}), out);
    sequence_ += byte;
    if (in_escape ? byte == 'm' : byte >= 0 && byte != '\x1b') take(std::exchange(sequence_, {}), out);
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  if (!sequence_.empty()) take(std::exchange(sequence_, {}), out);
  end_word(out);
  begin_line();
  return out;
}

// Of a thought and the answer after it the blank lines at the border become one.
std::string AnswerView::styled(const std::vector<dialog::ThoughtPart>& parts) {
  std::string out;
  for (const dialog::ThoughtPart& part : parts) {
    std::string_view text = part.text;
    if (part.thought != thinking_) {
      if (thinking_) out += "\n\n";
      thinking_ = part.thought;
      any_ = false;
    }
    if (!any_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    if (text.empty()) continue;
    any_ = true;
    out += thinking_ ? dimmed(text) : markdown_.push(text);
  }
  return out;
}

std::string AnswerView::push(std::string_view text, bool thought) {
  const std::string clean = printable(text);
  if (!color_ && thought == thinking_) return clean;
  if (!color_) return (std::exchange(thinking_, thought) ? "\n</think>\n\n" : "<think>\n") + clean;
  return styled(thought ? std::vector<dialog::ThoughtPart>{{clean, true}} : thoughts_.push(clean));
}

std::string AnswerView::finish() {
  if (!color_) return {};
  std::string out = styled(thoughts_.finish());
  return out += markdown_.finish();
}

}  // namespace toy::talk
