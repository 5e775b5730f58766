// toy devices: the devices of this build, and which of them this machine can use.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/tables.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

// Why this machine cannot use it; empty if it can.
std::string what_lacks(const DeviceKind& kind) {
  try {
    kind.make({.threads = 1});
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

struct Devices : Command {
  bool json = false;

  void add(CLI::App& app) {
    app.add_flag("--json", json, "Print a JSON array");
    app.footer("Their names are the words of --device. The first one is the default.");
  }

  void run() const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::vector<std::vector<std::string>> rows{{"name", "available", "title"}};
    for (const DeviceKind& kind : devices()) {
      const std::string why = what_lacks(kind);
      list.push_back({{"name", kind.name}, {"available", why.empty()}, {"title", kind.title}, {"why", why}});
      rows.push_back({std::string(kind.name), why.empty() ? "yes" : "no", why.empty() ? std::string(kind.title) : why});
    }
    if (json) return print_json(list);
    const int columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 1 << 16;
    fmt::print("{}", table(rows, {false, false, false}, columns));
  }
};

}  // namespace

void add_devices(CLI::App& app) {
  add_subcommand<Devices>(app, "devices", "List the devices that compute, and which this machine has");
}

}  // namespace toy::cli
