// toy data check: can all rows of files be used?
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "toy/train/data.h"

namespace toy::cli {

struct DataCheck : Command {
  std::vector<std::string> paths;
  std::string model;
  DataOptions data;
  bool json = false;

  void add(CLI::App& app);
  /// Throws Error{bad_input} after it has printed what it found, if a row cannot be used.
  void run() const;
};

}  // namespace toy::cli
