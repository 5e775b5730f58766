// The rows of a file, in the formats in which people keep them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "toy/data/text_files.h"

namespace toy {

/// The JSON of a row. Throws Error{bad_input}.
using GetRow = std::function<nlohmann::ordered_json()>;
/// A row: its line, or its number in a list, from 1; its place for messages, "rows.jsonl:3"; what gives it. False: no
/// more are wanted.
using TakeRow = std::function<bool(int64_t number, const std::string& where, const GetRow& get)>;

/// Reads JSON Lines, a list of JSON objects, or, of files that end in .csv or .tsv, a table. Throws Error{bad_input}
/// for what is none of them.
void for_each_row(const TextFile& file, const TakeRow& take);
/// Whether a file has text, and no line in it begins an object: a book, where rows are wanted.
bool is_plain_text(const TextFile& file);
/// The JSON of a line. Throws Error{bad_input}.
nlohmann::ordered_json row_of_line(std::string_view line);

/// What may be wrong with the rows of a file, each kind once.
class RowNotes {
 public:
  explicit RowNotes(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  /// Tells those that no other row had, whichever message they name.
  void add(const std::string& where, const std::vector<std::string>& notes);

 private:
  std::function<void(const std::string&)> warn_;
  std::set<std::string> told_;
};
/// Why rows of a file are skipped: of the first five, and how many more there are.
class SkippedRows {
 public:
  SkippedRows(std::string path, std::function<void(const std::string&)> warn)
      : path_(std::move(path)), warn_(std::move(warn)) {}
  /// `why`: the row's place and what is wrong with it.
  void add(const std::string& why);
  /// Call it after the last row. Returns how many were skipped.
  int64_t finish() const;

 private:
  static constexpr int64_t kTold = 5;
  std::string path_;
  std::function<void(const std::string&)> warn_;
  int64_t count_ = 0;
};
/// "the fields score, source have no effect"
std::string unused_note(const std::vector<std::string>& fields);

}  // namespace toy
