#include "eval/json_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "data/row_files.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy {

using nlohmann::ordered_json;

std::string trimmed(std::string_view text) {
  constexpr const char* kSpaces = " \t\n\r\f\v";
  const auto first = text.find_first_not_of(kSpaces);
  return first == text.npos ? "" : std::string(text.substr(first, text.find_last_not_of(kSpaces) - first + 1));
}

ordered_json parse_row(std::string_view line) {
  auto row = parse_json<ordered_json>(line);
  if (row.is_discarded()) fail("not JSON: {}", json_mistake(line));
  check(row.is_object(), "not a JSON object");
  return row;
}

const std::string& text_of(const ordered_json& row, const char* name) {
  check(row.contains(name), "there is no '{}'", name);
  check(row.at(name).is_string(), "'{}' is not a string", name);
  const auto& text = row.at(name).get_ref<const std::string&>();
  check(is_utf8(text), "'{}' is not UTF-8", name);
  return text;
}

std::vector<std::string> texts_of(const ordered_json& list, const char* name) {
  check(list.is_array(), "'{}' is not a list", name);
  std::vector<std::string> texts;
  for (const ordered_json& t : list) {
    check(t.is_string() && is_utf8(t.get_ref<const std::string&>()), "'{}' has something else than texts", name);
    texts.push_back(t.get<std::string>());
  }
  return texts;
}

void for_each_question(const TextFile& file,
                       const std::function<void(ordered_json row, const std::string& where)>& take) {
  check(!is_plain_text(file), "{0}: a plain text, and no questions in JSON; toy eval MODEL --file {0} scores a text",
        file.path);
  for_each_row(file, [&](int64_t, const std::string& where, const GetRow& get) {
    try {
      ordered_json row = get();
      check(row.is_object(), "not a JSON object");
      take(std::move(row), where);
    } catch (const Error& e) {
      fail("{}: {}", where, e.what());
    }
    return true;
  });
}

MeanError part_of(int64_t right, int64_t n) {
  const double p = double(right) / double(n);
  return {p, n < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(p * (1 - p) / double(n - 1))};
}

}  // namespace toy
