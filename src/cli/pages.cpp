#include "cli/pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
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

namespace {

struct Word {
  std::string_view name, text;
  const Page& page;
};

// What the tables of pages explain.
std::vector<Word> words() {
  constexpr std::string_view kBegin = "\n| **", kBetween = "** | ", kEnd = " |\n";
  std::vector<Word> all;
  for (const Page& page : pages())
    for (size_t at = page.text.find(kBegin); at != page.text.npos; at = page.text.find(kBegin, at + 1)) {
      const size_t begin = at + kBegin.size(), between = page.text.find(kBetween, begin);
      const size_t end = page.text.find(kEnd, begin), text = between + kBetween.size();
      if (between < end)
        all.push_back({page.text.substr(begin, between - begin), page.text.substr(text, end - text), page});
    }
  return all;
}

// In any case.
int64_t count_of(std::string_view part, std::string_view text) {
  int64_t count = 0;
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  for (auto at = text.begin(); (at = std::search(at, text.end(), part.begin(), part.end(), same)) != text.end(); ++at)
    ++count;
  return count;
}

}  // namespace

std::string explain_word(std::string_view word) {
  for (const Word& w : words())
    if (same_letters(word, w.name) || same_letters(word, std::string(w.name) + "s"))
      return fmt::format("{}: {} (toy help {})", w.name, w.text, w.page.name);
  return "";
}

std::string near_topics(std::string_view word) {
  constexpr size_t kMost = 5, kLetters = 3;
  if (word.size() < kLetters) return "";
  std::vector<std::string> near;
  for (const Word& w : words())
    if (count_of(word, w.name) > 0) near.push_back(fmt::format("'{}'", w.name));
  for (const Page& p : pages())
    if (count_of(word, p.name) > 0) near.emplace_back(p.name);
  if (near.size() > kMost) near.resize(kMost);
  if (!near.empty()) return fmt::format("near are {} (toy help pages lists the manual)", fmt::join(near, ", "));
  std::vector<std::pair<int64_t, std::string_view>> mentions;
  for (const Page& p : pages())
    if (const int64_t count = count_of(word, p.text); count > 0) mentions.emplace_back(-count, p.name);
  std::ranges::sort(mentions);
  for (size_t i = 0; i < std::min(mentions.size(), kMost); ++i) near.emplace_back(mentions[i].second);
  return near.empty() ? "" : fmt::format("pages that have it: {} (toy help PAGE)", fmt::join(near, ", "));
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
