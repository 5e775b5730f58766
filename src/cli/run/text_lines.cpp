#include "cli/run/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/console.h"
#include "cli/run/prompts.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::cli {

using nlohmann::ordered_json;
using Source = bind::TextToEmbed;

namespace {

// {"text": "..."}, {"ids": [1, 2]}, or any other text.
Source parse_line(const std::string& where, const std::string& line) {
  if (!line.starts_with('{')) return {where, line};
  constexpr const char* kForms = R"(use {"text": "words"} or {"ids": [1, 2]})";
  const auto j = read_json<ordered_json>(where, line);
  if (const auto text = j.find("text"); text != j.end()) {
    check(text->is_string(), "{}: 'text' is not a string; {}", where, kForms);
    return {where, text->get<std::string>()};
  }
  const auto ids = j.find("ids");
  check(ids != j.end() && ids->is_array(), "{}: the object has no 'text' and no 'ids'; {}", where, kForms);
  Source source{where, ""};
  for (const ordered_json& id : *ids) source.ids.push_back(json_number<int64_t>(id, where + ": an id", 0, INT32_MAX));
  check(!source.ids.empty(), "{}: 'ids' is empty", where);
  return source;
}

}  // namespace

std::vector<Source> read_text_lines(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  std::vector<Source> sources;
  const std::string all = read_text(path);
  require_lines(name, all);
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    sources.push_back(parse_line(fmt::format("{}:{}", name, sources.size() + 1), line));
  }
  check(!sources.empty(), "{}: there are no lines; write a text per line", name);
  return sources;
}

void note_cut_texts(const std::vector<bool>& cut, int64_t most) {
  if (const auto n = std::ranges::count(cut, true); n > 0)
    to_stderr(fmt::format("toy: of {} {} longer than {} tokens and cut\n", counted(int64_t(cut.size()), "text"),
                          counted(n, "is", "are"), most));
}

}  // namespace toy::cli
