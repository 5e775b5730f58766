// Fields of rows of texts.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/data/text_files.h"
#include "toy/data/text_rows.h"

namespace toy {

/// Takes a value out of the row, which may have one of these names, the usual one first; nullopt where there is none.
/// Throws Error{bad_input} where `renamed` names a field that is not there.
std::optional<nlohmann::ordered_json> take_field(nlohmann::ordered_json& row, std::span<const std::string_view> names,
                                                 const TextRowReading& reading, std::string& field);
/// The same for a text. Throws Error{bad_input} for another value, and for an empty text.
std::optional<std::string> take_text(nlohmann::ordered_json& row, std::span<const std::string_view> names,
                                     const TextRowReading& reading);
/// Calls take(row, where) for each row, an object, from which it takes what it uses; warns of what is left. `form`
/// shows such a row. Throws Error{bad_input} with file, line and reason, unless such rows are skipped.
void read_text_rows(const std::vector<TextFile>& files, const TextRowReading& reading, const std::string& form,
                    const std::function<void(nlohmann::ordered_json& row, const std::string& where)>& take);

}  // namespace toy
