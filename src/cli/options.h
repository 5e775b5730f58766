// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "toy/backend/devices.h"

namespace toy::cli {

struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;
  void add(CLI::App& app);
  /// Throws Error{bad_input} for a device that is not there or an impossible number of threads.
  std::unique_ptr<Device> make() const;
};

/// One line each on stderr: what a user should know about the file that was opened.
void print_warnings(const std::string& path, const std::vector<std::string>& warnings);

/// An option whose value is any text: it may be empty, or look like an option itself.
CLI::Option* add_text_option(CLI::App& app, const char* name, std::string& value, const char* help);
/// The same for an option that may be given several times, each time with one text.
CLI::Option* add_text_list_option(CLI::App& app, const char* name, std::vector<std::string>& values, const char* help);
/// The words of the command line, the values of text options marked so that the parser cannot mistake them.
std::vector<std::string> protect_texts(int argc, char** argv);

}  // namespace toy::cli
