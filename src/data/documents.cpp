#include "toy/data/documents.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr std::string_view kSeparator = "separator:";
constexpr std::string_view kNames[] = {"none", "files", "blank-lines"};  // by kind
constexpr std::string_view kBlank = " \t\r\n";
constexpr const char* kForms = "none, files, blank-lines, separator:TEXT";

std::string unescaped(std::string_view text, const std::string& whole) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char next = ++i < text.size() ? text[i] : '\0';
    check(next == 'n' || next == 't' || next == '\\', "documents is '{}': after \\ use n, t or \\", whole);
    out += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
  }
  return out;
}

}  // namespace

DocumentRule parse_documents(const std::string& text) {
  for (size_t kind = 0; kind < std::size(kNames); ++kind)
    if (text == kNames[kind]) return {DocumentRule::Kind(kind), {}};
  check(text.starts_with(kSeparator), "documents is '{}', expected one of {}", text, kForms);
  DocumentRule rule{DocumentRule::separator, unescaped(std::string_view(text).substr(kSeparator.size()), text)};
  check(!rule.text.empty(), "documents is '{}': the separator is empty; expected separator:TEXT", text);
  return rule;
}

std::string DocumentRule::str() const {
  if (kind != separator) return std::string(kNames[kind]);
  std::string out(kSeparator);
  for (const char c : text) out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}

DocumentCutter::DocumentCutter(const DocumentRule& rule, bool keep, Text text, End end)
    : rule_(rule), keep_(keep), text_(std::move(text)), end_(std::move(end)) {}

void DocumentCutter::give(std::string_view part, uint64_t offset) {
  if (part.empty()) return;
  open_ = true;
  text_(part, offset);
}

void DocumentCutter::push(std::string_view part) {
  if (rule_.kind == DocumentRule::blank_lines) return push_lines(part);
  if (rule_.kind == DocumentRule::separator) return push_separated(part);
  give(part, position_);
  position_ += part.size();
}

// Everything blank behind the last character of a line is held until something else comes: then it is known whether
// there were blank lines in it.
void DocumentCutter::push_lines(std::string_view part) {
  while (!part.empty()) {
    if (line_begins_) {
      const size_t blank = std::min(part.find_first_not_of(kBlank), part.size());
      held_ += part.substr(0, blank);
      position_ += blank;
      part.remove_prefix(blank);
      if (part.empty()) return;
      begin_line();
    }
    const size_t line = std::min(part.find('\n'), part.size());
    give(part.substr(0, line), position_);
    position_ += line;
    part.remove_prefix(line);
    line_begins_ = !part.empty();
  }
}

// What is held stands between two lines with something in them, or in front of the first.
void DocumentCutter::begin_line() {
  const uint64_t offset = position_ - held_.size();
  const std::string_view held = held_;
  const size_t own = held.rfind('\n') == held.npos ? 0 : held.rfind('\n') + 1;  // the line's own first blanks
  if (!open_) {
    give(keep_ ? held : held.substr(own), keep_ ? offset : offset + own);
  } else if (std::count(held.begin(), held.end(), '\n') < 2) {
    give(held, offset);
  } else {
    if (keep_) give(held.substr(0, own), offset);
    open_ = false;
    end_();
    give(held.substr(own), offset + own);
  }
  held_.clear();
  open_ = true;
  line_begins_ = false;
}

void DocumentCutter::push_separated(std::string_view part) {
  held_ += part;
  position_ += part.size();
  std::string_view rest = held_;
  for (size_t at; (at = rest.find(rule_.text)) != rest.npos;) {
    const size_t behind = at + rule_.text.size();
    give(rest.substr(0, keep_ ? behind : at), position_ - rest.size());
    end_();
    open_ = false;
    rest.remove_prefix(behind);
  }
  const size_t perhaps = std::min(rest.size(), rule_.text.size() - 1);  // the beginning of a separator?
  give(rest.substr(0, rest.size() - perhaps), position_ - rest.size());
  held_ = std::string(rest.substr(rest.size() - perhaps));
}

void DocumentCutter::finish() {
  if (rule_.kind == DocumentRule::separator || (keep_ && open_)) give(held_, position_ - held_.size());
  end_();
  held_.clear();
  position_ = 0;
  open_ = false;
  line_begins_ = true;
}

}  // namespace toy
