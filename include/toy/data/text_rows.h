// Rows of texts in JSON Lines, lists and tables.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace toy {

/// What they are read with.
struct TextRowReading {
  std::map<std::string, std::string> renamed = {};  ///< as parse_field_map() gives it
  bool skip_bad_rows = false;                       ///< else the first one is an error
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

}  // namespace toy
