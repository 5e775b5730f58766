// Patterns for names, as a shell has them for files.
#pragma once

#include <fnmatch.h>

#include <string>

namespace toy {

/// Does the whole name fit the pattern? `*` stands for any characters, `?` for one, `[ab]` for one of these.
inline bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace toy
