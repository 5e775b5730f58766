#include "toy/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>

#include "toy/base/shell_word.h"

namespace toy {

namespace {

// Letters that are missing, too many or wrong, and pairs that are swapped.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), before, last;  // of the beginning of `a`, and of those one and two shorter
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    last = std::exchange(before, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// The candidate that is most like `word`, at a distance below `least`.
std::string nearest_below(std::string_view word, size_t least, const std::vector<std::string>& candidates) {
  std::string best;
  for (const std::string& c : candidates) {
    if (std::max(c.size(), word.size()) - std::min(c.size(), word.size()) >= least) continue;  // may be long, of a file
    if (const size_t d = distance(word, c); d < least) least = d, best = c;
  }
  return best;
}

char first_letter(std::string_view word) {
  const size_t at = word.find_first_not_of('-');
  return at == word.npos ? '\0' : char(std::tolower(uint8_t(word[at])));
}

// A third of the letters wrong is a typing mistake, and one more where the first letter is right. More is another word.
std::string nearest_of(std::string_view word, size_t letters, const std::vector<std::string>& candidates) {
  std::string near = nearest_below(word, std::max<size_t>(letters / 3, 1) + 1, candidates);
  if (!near.empty()) return near;
  std::vector<std::string> alike;
  std::ranges::copy_if(candidates, std::back_inserter(alike),
                       [&](const std::string& c) { return first_letter(c) == first_letter(word); });
  return nearest_below(word, letters / 3 + 2, alike);
}

}  // namespace

std::string misspelt(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest_below(word, 2, candidates);
  return near.empty() || word.starts_with(near) ? "" : near;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return nearest_of(word, word.size() - std::min(word.find_first_not_of('-'), word.size()), candidates);
}

std::string meant_choice(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLeast = 3;
  if (const std::string near = nearest(word, candidates); !near.empty()) return near;
  if (word.find(' ') != word.npos) return {};
  std::string best;
  for (const std::string& c : candidates)
    if (c.size() >= kLeast && c.size() > best.size() && word.starts_with(c)) best = c;
  for (const std::string& c : candidates) {
    size_t found = 0;  // letters of it, in their order
    for (const char letter : word) found += found < c.size() && c[found] == letter ? 1 : 0;
    const bool abbreviates = c.size() >= kLeast && found == c.size() && c.front() == word.front();
    if (best.empty() && abbreviates) best = c;
  }
  return best;
}

std::string nearest_path(const std::string& path, const std::vector<std::string>& candidates) {
  const size_t letters = std::filesystem::path(path).stem().string().size();
  return nearest_of(path, letters, candidates);
}

// OWNER/REPO
static bool looks_like_repository(std::string_view path) {
  return std::ranges::count(path, '/') == 1 && path.find('.') == path.npos && path.front() != '/' && path.back() != '/';
}

std::string why_no_path(const std::string& path) {
  if (path.find("://") != path.npos)
    return "it is an address; download it first, such as with curl -O, and give the file";
  if (path.starts_with("~/"))
    return "no such file; the shell replaces ~ only where a word begins with it, without quotes";
  if (path.find('*') != path.npos)
    return "no such file; the shell replaces * only in a word of its own, without quotes, where files fit";
  if (path.size() > 2 && std::isalpha(uint8_t(path[0])) && path[1] == ':' && (path[2] == '\\' || path[2] == '/')) {
    std::string here = std::string("/mnt/") + char(std::tolower(uint8_t(path[0]))) + path.substr(2);
    std::ranges::replace(here, '\\', '/');
    return fmt::format("no such file; it is a path of Windows, and WSL has it as {}", shell_quoted(here));
  }
  return {};
}

std::string no_such_file(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path wanted(path);
  std::error_code error;
  if (const std::string why = why_no_path(path); !why.empty()) return fmt::format("{}: {}", path, why);
  fs::path there;  // how far the path exists
  for (const fs::path& part : wanted.parent_path()) {
    if (!fs::is_directory(there / part, error))
      return fmt::format("{}: no such file; there is no folder '{}'{}", path, (there / part).string(),
                         looks_like_repository(path)
                             ? " (files of Hugging Face have to be downloaded first: hf download OWNER/NAME, with "
                               "--repo-type dataset for rows)"
                             : "");
    there /= part;
  }
  std::vector<std::string> names;
  for (fs::directory_iterator i(there.empty() ? "." : there, error), end; !error && i != end; i.increment(error))
    names.push_back(i->path().filename().string());
  std::ranges::sort(names);  // folders list in any order
  std::string near = nearest_path(wanted.filename().string(), names);
  for (const std::string& name : names)
    if (!wanted.has_extension() && fs::path(name).stem() == wanted.filename()) near = name;
  return fmt::format("{}: no such file; {}", path,
                     near.empty() ? "check the path" : fmt::format("did you mean '{}'?", (there / near).string()));
}

}  // namespace toy
