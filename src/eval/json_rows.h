// What files of questions have in common: their rows, and the part of them that is right.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "toy/data/text_files.h"
#include "toy/eval/compare.h"

namespace toy {

/// Without white space at both ends.
std::string trimmed(std::string_view text);
/// The object that a line holds. Throws Error{bad_input}.
nlohmann::ordered_json parse_row(std::string_view line);
/// Hands on each row of a file, as for_each_row() of data/row_files.h, with its place: "questions.jsonl:3". What `take`
/// throws begins with it.
void for_each_question(const TextFile& file,
                       const std::function<void(nlohmann::ordered_json row, const std::string& where)>& take);
/// A text of a row. Throws Error{bad_input} naming the field where it is none.
const std::string& text_of(const nlohmann::ordered_json& row, const char* name);
/// The texts of a list, which messages call `name`.
std::vector<std::string> texts_of(const nlohmann::ordered_json& list, const char* name);
/// The mean p of n answers that are right or wrong, with its standard error sqrt(p (1 - p) / (n - 1)).
MeanError part_of(int64_t right, int64_t n);

}  // namespace toy
