#include "toy/data/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "data/row_files.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// What a field is called, the usual name first.
constexpr std::array<std::string_view, 3> kAnchor{"anchor", "query", "question"};
constexpr std::array<std::string_view, 4> kPositive{"positive", "answer", "passage", "document"};
constexpr std::array<std::string_view, 1> kNegative{"negative"};

// Takes the text out of the row; nullopt where there is none of these fields.
std::optional<std::string> take_text(ordered_json& row, std::span<const std::string_view> names,
                                     const std::map<std::string, std::string>& renamed) {
  std::string field;
  if (const auto it = renamed.find(std::string(names[0])); it != renamed.end()) {
    field = it->second;
    check(row.contains(field), "there is no field '{}', which --map names", field);
  }
  for (const std::string_view name : names)
    if (field.empty() && row.contains(name)) field = name;
  if (field.empty()) return std::nullopt;
  const ordered_json& value = row.at(field);
  if (value.is_null()) {  // as tables are exported
    row.erase(field);
    return std::nullopt;
  }
  check(value.is_string(), "'{}' is not a text", field);
  auto text = value.get<std::string>();
  check(is_utf8(text), "'{}' is not UTF-8", field);
  check(text.find_first_not_of(" \t\r\n") != text.npos, "'{}' is empty", field);
  row.erase(field);
  return text;
}

TextPair pair_of(ordered_json row, const PairReading& reading, std::vector<std::string>& unused) {
  check(row.is_object(), "not a JSON object; each row must be one");
  const auto anchor = take_text(row, kAnchor, reading.renamed), positive = take_text(row, kPositive, reading.renamed);
  if (!anchor || !positive) {
    const std::string_view missing = anchor ? kPositive[0] : kAnchor[0];
    std::vector<std::string> texts;
    for (const auto& [name, value] : row.items())
      if (value.is_string()) texts.push_back(one_line(name));
    std::string map = fmt::format("{}=...", missing);
    if (!texts.empty()) map = fmt::format("{}={}", missing, texts[0]);
    if (!anchor && !positive && texts.size() > 1) map += fmt::format(",{}={}", kPositive[0], texts[1]);
    fail("there is no '{}'; a row is {{\"anchor\": ..., \"positive\": ...}}, or name its fields with --map {}", missing,
         map);
  }
  TextPair pair{*anchor, *positive, take_text(row, kNegative, reading.renamed)};
  for (const auto& [name, value] : row.items()) unused.push_back(name);
  return pair;
}

}  // namespace

std::vector<TextPair> read_pairs(const std::vector<TextFile>& files, const PairReading& reading) {
  std::vector<TextPair> pairs;
  for (const TextFile& file : files) {
    RowNotes notes(reading.warn);
    SkippedRows skipped(file.path, reading.warn);
    for_each_row(file, [&](int64_t, const std::string& where, const GetRow& get) {
      try {
        std::vector<std::string> unused;
        pairs.push_back(pair_of(get(), reading, unused));
        if (!unused.empty()) notes.add(where, {unused_note(unused)});
      } catch (const Error& e) {
        std::string text = fmt::format("{}: {}", where, e.what());
        if (const size_t other = text.find(" (plain text is for --corpus)"); other != text.npos)
          text = text.substr(0, other) + ", such as {\"anchor\": ..., \"positive\": ...}";
        check(reading.skip_bad_rows, "{}", text);
        skipped.add(text);
      }
      return true;
    });
    skipped.finish();
  }
  check(!pairs.empty(), "{}: there is no pair of texts", files.empty() ? "data" : files.front().path);
  return pairs;
}

}  // namespace toy
