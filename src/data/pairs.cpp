#include "toy/data/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "data/text_fields.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// What a field is called, the usual name first.
constexpr std::array<std::string_view, 3> kAnchor{"anchor", "query", "question"};
constexpr std::array<std::string_view, 4> kPositive{"positive", "answer", "passage", "document"};
constexpr std::array<std::string_view, 1> kNegative{"negative"};

constexpr const char* kForm = R"({"anchor": ..., "positive": ...})";

TextPair pair_of(ordered_json& row, const TextRowReading& reading) {
  const auto anchor = take_text(row, kAnchor, reading), positive = take_text(row, kPositive, reading);
  if (!anchor || !positive) {
    const std::string_view missing = anchor ? kPositive[0] : kAnchor[0];
    std::vector<std::string> texts;
    for (const auto& [name, value] : row.items())
      if (value.is_string()) texts.push_back(one_line(name));
    std::vector<std::string> fields;
    for (const auto& [name, value] : row.items()) fields.push_back(one_line(name));
    const std::string has = fields.empty() ? ""
                                           : fmt::format(", and the row has the {}fields {}",
                                                         anchor || positive ? "other " : "", fmt::join(fields, ", "));
    check(!texts.empty(), "there is no '{}'{}; a row is {}", missing, has, kForm);
    std::string map = fmt::format("{}={}", missing, texts[0]);
    if (!anchor && !positive && texts.size() > 1) map += fmt::format(",{}={}", kPositive[0], texts[1]);
    fail("there is no '{}'; a row is {}, or name its fields with --map {}", missing, kForm, map);
  }
  return {*anchor, *positive, take_text(row, kNegative, reading)};
}

}  // namespace

std::vector<TextPair> read_pairs(const std::vector<TextFile>& files, const TextRowReading& reading) {
  std::vector<TextPair> pairs;
  read_text_rows(files, reading, kForm,
                 [&](ordered_json& row, const std::string&) { pairs.push_back(pair_of(row, reading)); });
  check(!pairs.empty(), "{}: there is no pair of texts", files.empty() ? "data" : files.front().path);
  return pairs;
}

}  // namespace toy
