// Do all ranks run the same command?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "toy/base/communicator.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"

namespace toy {
namespace {

using Words = std::vector<std::string>;

// Each ends with a byte 0, which no word has.
std::vector<std::byte> packed(const Words& words) {
  std::vector<std::byte> bytes;
  for (const std::string& w : words)
    for (const char* c = w.c_str(); c <= w.c_str() + w.size(); ++c) bytes.push_back(std::byte(*c));
  return bytes;
}

Words unpacked(std::span<const std::byte> bytes) {
  Words words;
  std::string word;
  for (const std::byte b : bytes)
    if (b == std::byte(0))
      words.push_back(std::exchange(word, {}));
    else
      word += char(b);
  return words;
}

// "--lr 9e-3": the words that are left where others begin and end in the same way.
std::string quoted(const Words& words, size_t before, size_t after) {
  Words shown;
  for (size_t i = before; i + after < words.size(); ++i) shown.push_back(shell_quoted(words[i]));
  return shown.empty() ? "nothing" : fmt::format("{}", fmt::join(shown, " "));
}

}  // namespace

void require_same_command(Communicator& ranks, std::string_view version, std::span<const std::string> words) {
  Words mine{std::string(version)};
  mine.insert(mine.end(), words.begin(), words.end());
  if (ranks.rank() > 0) return ranks.send(0, packed(mine));
  std::vector<Words> all{mine};
  for (int r = 1; r < ranks.size(); ++r) all.push_back(unpacked(ranks.receive(r)));
  for (int r = 1; r < ranks.size(); ++r) {
    const Words& other = all[size_t(r)];
    const std::string& its_version = other.empty() ? std::string() : other.front();
    check(its_version == version,
          "rank {} (host {}) is toy {}, rank 0 (host {}) is toy {}; install one version everywhere", r, ranks.host(r),
          its_version, ranks.host(0), version);
    const auto [here, there] = std::ranges::mismatch(mine, other);
    if (here == mine.end() && there == other.end()) continue;
    auto before = size_t(here - mine.begin());
    size_t after = 0;
    while (after + before < std::min(mine.size(), other.size()) &&
           mine[mine.size() - 1 - after] == other[other.size() - 1 - after])
      ++after;
    if (mine[before - 1].starts_with('-')) --before;  // the option whose value it may be; the version is before all
    fail("rank {} (host {}) was started with {} where rank 0 was started with {}; start all ranks with one command", r,
         ranks.host(r), quoted(other, before, after), quoted(mine, before, after));
  }
}

}  // namespace toy
