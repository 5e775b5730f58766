// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "toy/backend/devices.h"

namespace toy::cli {

struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;
  void add(CLI::App& app);
  /// Throws Error{bad_input} for a device that is not there or an impossible number of threads.
  std::unique_ptr<Device> make() const;
};

}  // namespace toy::cli
