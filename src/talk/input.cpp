#include "talk/input.h"

#include <utility>

namespace toy::talk {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

std::optional<std::string> MessageLines::add(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!pending() && line.starts_with(kQuotes)) {
    quoted_ = true;
    line.remove_prefix(kQuotes.size());
    if (line.empty()) return std::nullopt;
  }
  if (quoted_) {
    const bool ends = line.ends_with(kQuotes);
    if (ends) line.remove_suffix(kQuotes.size());
    text_ += line;
    if (ends) return take();
    text_ += '\n';
    return std::nullopt;
  }
  continued_ = line.ends_with('\\');
  if (continued_) line.remove_suffix(1);
  text_ += line;
  if (!continued_) return take();
  text_ += '\n';
  return std::nullopt;
}

std::string MessageLines::take() {
  quoted_ = continued_ = false;
  return std::exchange(text_, {});
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : std::string(text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin));
}

std::optional<CommandLine> parse_command(std::string_view message) {
  if (!message.starts_with('/') || message.starts_with("//")) return std::nullopt;
  const size_t end = message.find_first_of(" \t\r\n");
  if (end == message.npos) return CommandLine{std::string(message.substr(1)), {}};
  return CommandLine{std::string(message.substr(1, end - 1)), trimmed(message.substr(end))};
}

std::string plain_message(const std::string& message) {
  return message.starts_with("//") ? message.substr(1) : message;
}

}  // namespace toy::talk
