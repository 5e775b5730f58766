#include "data/text_fields.h"

#include "data/row_files.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {

using nlohmann::ordered_json;

std::optional<ordered_json> take_field(ordered_json& row, std::span<const std::string_view> names,
                                       const TextRowReading& reading, std::string& field) {
  if (const auto it = reading.renamed.find(std::string(names[0])); it != reading.renamed.end()) {
    field = it->second;
    check(row.contains(field), "there is no field '{}', which --map names", field);
  }
  for (const std::string_view name : names)
    if (field.empty() && row.contains(name)) field = name;
  if (field.empty()) return std::nullopt;
  ordered_json value = row.at(field);
  row.erase(field);
  if (value.is_null()) return std::nullopt;  // as tables are exported
  return value;
}

std::optional<std::string> take_text(ordered_json& row, std::span<const std::string_view> names,
                                     const TextRowReading& reading) {
  std::string field;
  const std::optional<ordered_json> value = take_field(row, names, reading, field);
  if (!value) return std::nullopt;
  check(value->is_string(), "'{}' is not a text", field);
  auto text = value->get<std::string>();
  check(is_utf8(text), "'{}' is not UTF-8", field);
  check(text.find_first_not_of(" \t\r\n") != text.npos, "'{}' is empty", field);
  return text;
}

void read_text_rows(const std::vector<TextFile>& files, const TextRowReading& reading, const std::string& form,
                    const std::function<void(ordered_json& row, const std::string& where)>& take) {
  for (const TextFile& file : files) {
    check(!is_plain_text(file), "{}: a plain text, and no rows of JSON, such as {}", file.path, form);
    RowNotes notes(reading.warn);
    SkippedRows skipped(file.path, reading.warn);
    for_each_row(file, [&](int64_t, const std::string& where, const GetRow& get) {
      try {
        ordered_json row = get();
        check(row.is_object(), "not a JSON object; each row must be one");
        take(row, where);
        std::vector<std::string> unused;
        for (const auto& [name, value] : row.items()) unused.push_back(name);
        if (!unused.empty()) notes.add(where, {unused_note(unused)});
      } catch (const Error& e) {
        const std::string text = fmt::format("{}: {}", where, e.what());
        check(reading.skip_bad_rows, "{}", text);
        skipped.add(text);
      }
      return true;
    });
    skipped.finish();
  }
}

}  // namespace toy
