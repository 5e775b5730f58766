#include "toy/data/labelled.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "data/text_fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// What a field is called, the usual name first.
constexpr std::array<std::string_view, 4> kText{"text", "sentence", "content", "prompt"};
constexpr std::array<std::string_view, 4> kLabel{"label", "class", "category", "label_text"};

constexpr const char* kForm = R"({"text": ..., "label": ...})";

std::string label_of(const ordered_json& value, const std::string& field) {
  check(value.is_string() || value.is_number_integer() || value.is_boolean(),
        "'{}' is {}; a label is a text or a whole number", field, json_text(value));
  if (!value.is_string()) return json_text(value);
  auto label = value.get<std::string>();
  check(is_utf8(label), "'{}' is not UTF-8", field);
  check(label.find_first_not_of(" \t\r\n") != label.npos, "'{}' is empty", field);
  return label;
}

// Of a whole number, as JSON writes it.
bool read_whole(const std::string& text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
}

}  // namespace

std::vector<LabelledText> read_labelled(const std::vector<TextFile>& files, const TextRowReading& reading) {
  std::vector<LabelledText> texts;
  read_text_rows(files, reading, kForm, [&](ordered_json& row, const std::string& where) {
    std::string field;
    std::vector<std::string> names;
    for (const auto& [name, value] : row.items()) names.push_back(one_line(name));
    const auto text = take_text(row, kText, reading);
    const auto label = take_field(row, kLabel, reading, field);
    const bool is_table = where.find(".csv:") != where.npos || where.find(".tsv:") != where.npos;
    check(text || label || !is_table,
          "there is no 'text' and no 'label': the first line of a table names its columns, and here it is {}; name two "
          "of them with --map text=...,label=..., or put text,label in front",
          fmt::join(names, ","));
    const auto name = [&](size_t i) { return names.size() == 2 ? names[i] : "..."; };
    check(text && label, "there is no '{}'; a row is {}, or name its fields with --map text={},label={}",
          text ? kLabel[0] : kText[0], kForm, name(0), name(1));
    texts.push_back({*text, label_of(*label, field), where});
  });
  check(!texts.empty(), "{}: there is no text with a label", files.empty() ? "data" : files.front().path);
  return texts;
}

std::vector<std::string> classes_of(const std::vector<LabelledText>& texts) {
  std::set<std::string> names;
  for (const LabelledText& t : texts) names.insert(t.label);
  std::vector<std::string> classes(names.begin(), names.end());
  int64_t a = 0, b = 0;
  if (std::ranges::all_of(classes, [&](const std::string& c) { return read_whole(c, a); }))
    std::ranges::sort(classes, [&](const std::string& x, const std::string& y) {
      return read_whole(x, a) && read_whole(y, b) && a < b;
    });
  return classes;
}

std::string listed_classes(const std::vector<std::string>& classes) {
  constexpr size_t kShown = 10;
  const size_t n = std::min(classes.size(), kShown);
  return fmt::format("{}{}", fmt::join(classes.begin(), classes.begin() + int64_t(n), ", "),
                     n < classes.size() ? ", ..." : "");
}

}  // namespace toy
