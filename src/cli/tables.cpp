#include "cli/tables.h"

#include <algorithm>

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

std::string card(const std::vector<std::pair<std::string, std::string>>& rows, int columns) {
  constexpr size_t kLeast = 12;
  size_t titles = 0;
  for (const auto& [title, value] : rows) titles = std::max(titles, terminal_columns(title));
  const bool below = size_t(columns) < titles + 2 + kLeast;
  const size_t indent = below ? 2 : titles + 2, room = std::max(size_t(columns), indent + 1) - indent;
  std::string out;
  for (const auto& [title, value] : rows) {
    out += below ? std::string(first_columns(title, size_t(columns))) + "\n"
                 : title + std::string(indent - terminal_columns(title), ' ');
    if (below) out += std::string(indent, ' ');
    size_t used = 0, begin = out.size();  // of the line
    for (std::string_view rest = value; !rest.empty();) {
      const size_t bytes = std::max<size_t>(utf8_character(rest), 1), wide = terminal_columns(rest.substr(0, bytes));
      if (used > 0 && used + wide > room) {
        const size_t word = out.find_last_of(" \n") + 1;  // the last word moves, if it is not all of the line
        const std::string moved = word > begin && rest[0] != ' ' ? out.substr(word) : "";
        out.resize(out.size() - moved.size());
        out += "\n" + std::string(indent, ' ');
        begin = out.size();
        out += moved;
        used = terminal_columns(moved);
        if (rest[0] == ' ') {
          rest.remove_prefix(1);
          continue;
        }
      }
      used += wide;
      out += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
    }
    out += "\n";
  }
  return out;
}

}  // namespace toy::cli
