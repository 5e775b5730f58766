// Counts in texts for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace toy {

/// "1 row", "3 rows", or with `many`: counted(n, "file is", "files are").
inline std::string counted(int64_t count, std::string_view one, std::string_view many = "") {
  return std::to_string(count) + " " +
         (count == 1     ? std::string(one)
          : many.empty() ? std::string(one) + "s"
                         : std::string(many));
}

}  // namespace toy
