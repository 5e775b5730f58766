// The rows of a file, in the formats in which people keep them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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
/// The JSON of a line. Throws Error{bad_input}.
nlohmann::ordered_json row_of_line(std::string_view line);

}  // namespace toy
