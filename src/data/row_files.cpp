#include "data/row_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/data/examples.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLongest = size_t(256) << 20;    // bytes of a line
constexpr uint64_t kLargest = uint64_t(1) << 30;  // of a list or a table, which are read whole
constexpr std::string_view kBom = "\xef\xbb\xbf";

std::string whole_text(const TextFile& file) {
  check(file.bytes <= kLargest, "{}: a list or table of more than {} bytes is not read; write its rows as JSON Lines",
        file.path, kLargest);
  std::string text;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    text += part;
    return true;
  });
  if (text.starts_with(kBom)) text.erase(0, kBom.size());
  return text;
}

void for_each_line(const TextFile& file, const TakeRow& take) {
  int64_t line = 0;
  std::string pending;
  const auto one = [&](std::string_view text) {
    ++line;
    if (line == 1 && text.starts_with(kBom)) text.remove_prefix(kBom.size());
    if (text.find_first_not_of(" \t\r") == text.npos) return true;
    return take(line, fmt::format("{}:{}", file.path, line), [&] { return row_of_line(text); });
  };
  bool wanted = true;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    for (size_t end; wanted && (end = part.find('\n')) != part.npos; part.remove_prefix(end + 1)) {
      pending += part.substr(0, end);
      wanted = one(pending);
      pending.clear();
    }
    pending += part;
    check(pending.size() <= kLongest, "{}:{}: the line is longer than {} bytes", file.path, line + 1, kLongest);
    return wanted;
  });
  if (wanted && !pending.empty()) one(pending);
}

void for_each_of_list(const TextFile& file, const TakeRow& take) {
  const std::string text = whole_text(file);
  check(is_utf8(text), "{}: not UTF-8", file.path);
  const auto list = parse_json<ordered_json>(text);
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  check(!list.is_discarded() || first.size() == text.size() || parse_json<ordered_json>(first).is_discarded(),
        "{}: its first line is a list by itself; write one list for all rows, or one object a line", file.path);
  check(!list.is_discarded(), "{}: it begins with [ but is no JSON list; write a list of objects, or one object a line",
        file.path);
  int64_t number = 0;
  for (const ordered_json& row : list) {
    ++number;
    const std::string where = fmt::format("{}: row {}", file.path, number);
    if (!take(number, where, [&] { return row; })) return;
  }
}

// A table by RFC 4180: a field in quotes may hold separators, line breaks, and quotes that are doubled.
class Table {
 public:
  Table(std::string_view text, char separator, const std::string& path)
      : text_(text), separator_(separator), path_(path) {}
  bool at_end() const { return at_ >= text_.size(); }
  int64_t line() const { return line_; }
  std::vector<std::string> row() {
    std::vector<std::string> fields;
    do fields.push_back(field());
    while (taken(separator_));
    const bool ended = taken('\r');  // a line may end with it alone
    check(taken('\n') || ended || at_end(),
          "{}:{}: a quote ends within a field; double the quotes inside of quoted fields", path_, line_);
    ++line_;
    return fields;
  }

 private:
  bool taken(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string field() {
    if (!taken('"')) {
      const char ends[] = {separator_, '\n', '\r', '\0'};
      const size_t end = std::min(text_.find_first_of(std::string_view(ends, 3), at_), text_.size());
      std::string plain(text_.substr(at_, end - at_));
      at_ = end;
      return plain;
    }
    std::string quoted;
    const int64_t begin = line_;
    while (true) {
      check(!at_end(), "{}:{}: a quoted field has no end", path_, begin);
      const char c = text_[at_++];
      if (c == '"' && !taken('"')) return quoted;
      line_ += c == '\n';
      quoted += c;
    }
  }

  std::string_view text_;
  const char separator_;
  const std::string& path_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

// Messages, tools, or pairs of a history.
bool is_list_of_rows(const ordered_json& j) {
  if (!j.is_array() || j.empty()) return false;
  return j[0].is_array() || j[0].contains("role") || j[0].contains("from") || j[0].contains("function");
}

void for_each_of_table(const TextFile& file, char separator, const TakeRow& take) {
  const std::string text = whole_text(file);
  check(is_utf8(text), "{}: not UTF-8", file.path);
  Table table(text, separator, file.path);
  const std::vector<std::string> names = table.row();
  for (const char other : {';', '\t', ','})
    check(names.size() > 1 || other == separator || names[0].find(other) == names[0].npos,
          "{}: the columns of the table are separated by {}; write {}", file.path,
          other == '\t' ? "tabs" : fmt::format("'{}'", other), separator == '\t' ? "tabs" : "commas");
  for (size_t i = 0; i < names.size(); ++i)
    check(std::find(names.begin(), names.begin() + int64_t(i), names[i]) == names.begin() + int64_t(i),
          "{}:1: two columns have the name '{}'", file.path, one_line(names[i]));
  while (!table.at_end()) {
    const int64_t line = table.line();
    const std::vector<std::string> fields = table.row();
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    const auto get = [&] {
      check(fields.size() == names.size(), "it has {} fields and the table {} names", fields.size(), names.size());
      ordered_json row = ordered_json::object();
      for (size_t i = 0; i < names.size(); ++i) {
        if (fields[i].empty()) continue;
        ordered_json value = fields[i];
        // Messages, tools and such; any other JSON is a text.
        const ordered_json j = fields[i][0] == '[' ? parse_json<ordered_json>(fields[i]) : ordered_json();
        if (is_list_of_rows(j)) value = j;
        row[names[i]] = std::move(value);
      }
      return row;
    };
    if (!take(line, fmt::format("{}:{}", file.path, line), get)) return;
  }
}

bool begins_list(const TextFile& file) {
  std::string start;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    start = part.substr(0, 4096);
    return false;
  });
  std::string_view text = start;
  if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '[';
}

bool has_ending(std::string path, std::string_view ending) {
  std::ranges::transform(path, path.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return path.ends_with(ending);
}

}  // namespace

bool is_json_list(std::string_view text) {
  const auto skip = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size())); };
  skip();
  if (!text.starts_with('[')) return false;
  text.remove_prefix(1);
  skip();
  return text.starts_with("{\"");
}

bool is_json_lines(std::string_view text) {
  for (int line = 0; line < 2; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos || !text.starts_with("{")) return false;
    try {
      if (!parse_json<ordered_json>(text.substr(0, end)).is_object()) return false;
    } catch (const std::exception&) {
      return false;
    }
    text.remove_prefix(end + 1);
  }
  return true;
}

// Of a line that is not JSON: does an object end before its end, and the next one begin?
static bool has_second_object(std::string_view line) {
  constexpr size_t kLongest = size_t(64) << 10;
  int tries = 16;
  if (line.size() > kLongest) return false;
  for (size_t at = line.find('}'); at != line.npos && tries-- > 0; at = line.find('}', at + 1)) {
    const size_t next = line.find_first_not_of(" \t,;", at + 1);
    if (next != line.npos && line[next] == '{' && parse_json<ordered_json>(line.substr(0, at + 1)).is_object())
      return true;
  }
  return false;
}

ordered_json row_of_line(std::string_view line) {
  check(is_utf8(line), "not UTF-8");
  auto row = parse_json<ordered_json>(line);
  if (row.is_discarded()) {
    check(line.starts_with('{'), "not JSON; each line must be a JSON object");
    const std::string_view end = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    check(!end.ends_with("},"), "a comma follows the object; remove it, or write all objects in a list [ ]");
    check(!has_second_object(end), "another object follows on the same line; write each on a line of its own");
    check(!end.ends_with('{') && !end.ends_with('[') && !end.ends_with(','),
          "the JSON object ends on another line; write each object on one line (JSON Lines), or all in a list [ ]");
    fail("not JSON: {}", json_mistake(line));
  }
  return row;
}

bool is_plain_text(const TextFile& file) {
  if (has_ending(file.path, ".csv") || has_ending(file.path, ".tsv") || begins_list(file)) return false;
  bool begins = true, is_empty = true, has_object = false;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    for (const char c : part) {
      if (c == '\n') begins = true;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || kBom.find(c) != kBom.npos) continue;
      has_object = has_object || (begins && c == '{');
      begins = is_empty = false;
    }
    return !has_object;
  });
  return !is_empty && !has_object;
}

void for_each_row(const TextFile& file, const TakeRow& take) {
  if (has_ending(file.path, ".csv")) return for_each_of_table(file, ',', take);
  if (has_ending(file.path, ".tsv")) return for_each_of_table(file, '\t', take);
  if (begins_list(file)) return for_each_of_list(file, take);
  for_each_line(file, take);
}

void RowNotes::add(const std::string& where, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::string kind;  // without the indices
    for (const char c : note)
      if (c < '0' || c > '9' || kind.empty() || kind.back() != '[') kind += c;
    if (told_.insert(kind).second) warn_(fmt::format("{}: {} (said once for this file)", where, note));
  }
}

void SkippedRows::add(const std::string& why) {
  if (++count_ <= kTold) warn_(why + "; the row is skipped");
}
int64_t SkippedRows::finish() const {
  if (count_ > kTold)
    warn_(fmt::format("{}: {} more {} skipped", path_, count_ - kTold, count_ - kTold == 1 ? "row is" : "rows are"));
  return count_;
}

std::string unused_note(const std::vector<std::string>& fields) {
  const bool several = fields.size() > 1;
  return fmt::format("the field{} {} {} no effect", several ? "s" : "", fmt::join(fields, ", "),
                     several ? "have" : "has");
}

}  // namespace toy
