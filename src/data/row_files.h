// The rows of a file, in the formats in which people keep them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "toy/data/examples.h"

namespace toy {

/// Makes an example of a row. Throws Error{bad_input}.
using MakeRow = std::function<ExampleRow(const ExampleMaker&)>;
/// A row: its line, or its number in a list, from 1; its place for messages, "rows.jsonl:3"; what makes an example of
/// it. False: no more are wanted.
using TakeRow = std::function<bool(int64_t number, const std::string& where, const MakeRow& make)>;

/// Reads JSON Lines, a list of JSON objects, or, of files that end in .csv or .tsv, a table. Throws Error{bad_input}
/// for what is none of them.
void for_each_row(const TextFile& file, const TakeRow& take);

}  // namespace toy
