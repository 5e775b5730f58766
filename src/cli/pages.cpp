#include "cli/pages.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cli/console.h"
#include "cli/tables.h"

namespace toy::cli {
namespace {

// For a terminal: paragraphs and items of lists wrapped. Tables, code and headings keep their lines.
std::string wrapped_page(std::string_view text, size_t columns) {
  std::string out;
  bool code = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("```")) code = !code;
    const size_t mark = line.find_first_not_of(' ');
    if (code || line.empty() || line.starts_with("    ") || line.starts_with("|") || line.starts_with("#")) {
      out.append(line);
    } else {
      const bool item = line.substr(mark).starts_with("- ");
      const size_t indent = mark + (item ? 2 : 0);
      out.append(line.substr(0, indent)).append(wrapped(line.substr(indent), columns, indent));
    }
    out += '\n';
  }
  return out;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Whether a pager took the text.
bool paged(const std::string& text) {
  const char* pager = std::getenv("PAGER");
  std::signal(SIGPIPE, SIG_IGN);  // the reader may leave early
  FILE* out = popen(pager && *pager ? pager : "less -FRX 2> /dev/null", "w");
  if (!out) return false;
  std::fwrite(text.data(), 1, text.size(), out);
  const int status = pclose(out);
  return WIFEXITED(status) && WEXITSTATUS(status) < 126;  // 126, 127: there is no such command
}

}  // namespace

const Page* find_page(std::string_view name) {
  if (name.starts_with("docs/")) name.remove_prefix(5);
  if (name.ends_with(".md")) name.remove_suffix(3);
  for (const Page& p : pages())
    if (p.name.substr(0, p.name.size() - 3) == name) return &p;
  return nullptr;
}

std::string explain_word(std::string_view word) {
  constexpr std::string_view kBegin = "\n| **", kBetween = "** | ", kEnd = " |\n";
  for (const Page& page : pages())
    for (size_t at = page.text.find(kBegin); at != page.text.npos; at = page.text.find(kBegin, at + 1)) {
      const size_t begin = at + kBegin.size(), between = page.text.find(kBetween, begin);
      const size_t end = page.text.find(kEnd, begin);
      if (between >= end) continue;
      const std::string name(page.text.substr(begin, between - begin));
      if (!same_letters(word, name) && !same_letters(word, name + "s")) continue;
      const size_t text = between + kBetween.size();
      return fmt::format("{}: {} (toy help {})", name, page.text.substr(text, end - text), page.name);
    }
  return "";
}

void show(const Page& page) {
  if (!is_terminal(STDOUT_FILENO)) {
    fmt::print("{}", page.text);
    return;
  }
  const std::string text = wrapped_page(page.text, size_t(terminal_width(STDOUT_FILENO)));
  if (!paged(text)) fmt::print("{}", text);
}

void list_pages() {
  constexpr size_t kTitles = 36;  // their column
  fmt::print("Pages (toy help PAGE):\n");
  for (const Page& p : pages())
    fmt::print("  {:<{}}{}\n", p.name, kTitles - 2, wrapped(p.title(), size_t(terminal_width(STDOUT_FILENO)), kTitles));
}

}  // namespace toy::cli
