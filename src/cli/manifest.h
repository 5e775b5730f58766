// Every command and option as data, from the objects that parse them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace toy::cli {

/// {"name", "summary", "options": [...], "commands": [...]} of a command and those below it. An option has "name",
/// "positional", "required", "takes_value", "help" and "group"; where they apply "letter", "advanced" (only --help-all
/// shows it), "repeatable", "default", "range", "values" (all, or some with "other_values"), "file", "folder".
nlohmann::ordered_json manifest(const CLI::App& app);

}  // namespace toy::cli
