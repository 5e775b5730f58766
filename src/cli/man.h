// Manual pages, from what --help says.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace toy::cli {

/// Writes toy.1 and a page for each command, toy-train-lora.1, into a folder, which is made.
void write_man_pages(const CLI::App& root, const std::string& folder);

}  // namespace toy::cli
