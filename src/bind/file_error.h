// Errors of paths, as bindings tell them.
#pragma once

#include <filesystem>
#include <string>

#include "toy/base/utf8.h"

namespace toy::bind {

/// "PATH: REASON" of what the file system refuses, such as a name that is too long. It is bad input.
inline std::string file_error_text(const std::filesystem::filesystem_error& e) {
  return one_line(e.path1().string()) + ": " + e.code().message();
}

}  // namespace toy::bind
