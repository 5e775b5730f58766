// Texts of scripts and projects that the program writes.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

namespace toy::cli {

/// `text` with each @KEY@ replaced.
std::string fill_in(std::string text, std::initializer_list<std::pair<std::string, std::string>> values);

/// This very program, for scripts that find no other.
std::string own_path();

}  // namespace toy::cli
