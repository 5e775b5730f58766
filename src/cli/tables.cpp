#include "cli/tables.h"

#include <algorithm>
#include <sstream>

#include "toy/base/utf8.h"

namespace toy::cli {

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right, int columns) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], terminal_columns(row[c]));
    }
  size_t shown = 1;
  for (size_t total = widths[0]; shown < widths.size() && total + 2 + widths[shown] <= size_t(columns); ++shown)
    total += 2 + widths[shown];
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < shown; ++c) {
      const std::string pad(widths[c] - terminal_columns(row[c]), ' ');
      line += (c ? "  " : "") + (right[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += std::string(first_columns(line, size_t(columns))) + "\n";
  }
  return out;
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
  const size_t room = std::max(columns, indent + 1) - indent;
  std::string out;
  size_t used = 0;  // of the line
  const auto begin_line = [&] { out += "\n" + std::string(indent, ' '), used = 0; };
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ' '); used += terminal_columns(word)) {
    if (used > 0 && used + 1 + terminal_columns(word) > room)
      begin_line();
    else if (used > 0)
      out += ' ', ++used;
    for (; terminal_columns(word) > room; begin_line()) {  // cut anywhere
      const size_t part = std::max({first_columns(word, room).size(), utf8_character(word), size_t(1)});
      out += word.substr(0, part), word.erase(0, part);
    }
    out += word;
  }
  return out;
}

std::string card(const std::vector<std::pair<std::string, std::string>>& rows, int columns) {
  constexpr size_t kLeast = 12;
  size_t titles = 0;
  for (const auto& [title, value] : rows) titles = std::max(titles, terminal_columns(title));
  const bool below = size_t(columns) < titles + 2 + kLeast;
  const size_t indent = below ? 2 : titles + 2;
  std::string out;
  for (const auto& [title, value] : rows)
    out += (below ? std::string(first_columns(title, size_t(columns))) + "\n  "
                  : title + std::string(indent - terminal_columns(title), ' ')) +
           wrapped(value, size_t(columns), indent) + "\n";
  return out;
}

}  // namespace toy::cli
