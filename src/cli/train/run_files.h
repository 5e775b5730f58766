// The options of a training as its recipe reads them, and as its config.json holds them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "toy/train/recipes.h"

namespace toy::cli {

/// The options of a recipe that the command line has.
std::vector<GivenOption> given_options(const CLI::App& app);

/// Every option of a command with its value, given or not: what config.json holds. Numbers are numbers, a flag is true
/// or false, several values are a list.
nlohmann::ordered_json options_json(const CLI::App& app);

/// Writes a result to stdout. Throws Error{failure} when its reader has gone away: nobody would see the rest.
void put_line(const std::string& text);

}  // namespace toy::cli
