// What the config.json of a run holds, and results.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace toy::cli {

/// Every option of a command with its value, given or not: what config.json holds. Numbers are numbers, a flag is true
/// or false, several values are a list.
nlohmann::ordered_json options_json(const CLI::App& app);

/// Writes a result to stdout. Throws Error{failure} when its reader has gone away: nobody would see the rest.
void put_line(const std::string& text);

}  // namespace toy::cli
