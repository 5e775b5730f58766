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

/// As a shell's word that means this text: plain, in quotes, or, where a terminal would act on it or it is not UTF-8,
/// as $'...' of bash, zsh and POSIX 2024.
std::string shell_quoted(const std::string& text);

}  // namespace toy::cli
