// Words of command lines that messages show.
#pragma once

#include <string>

namespace toy {

/// As a shell's word that means this text: plain, in quotes, or, where a terminal would act on it or it is not UTF-8,
/// as $'...' of bash, zsh and POSIX 2024.
std::string shell_quoted(const std::string& text);

}  // namespace toy
