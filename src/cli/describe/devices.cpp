// toy devices: the devices of this build, and which of them this machine can use.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "backend/gpu/gpu_device.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/tables.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy::cli {
namespace {

// A kind of devices on this machine.
struct Found {
  std::string title, why;  // what it is; why this machine cannot use it, "" if it can
  Device::Memory memory;
};
Found look_for(const DeviceKind& kind) {
  Found f{std::string(kind.title), {}, {}};
  try {
    const auto device = kind.make({.threads = 1});
    f.memory = device->memory();
    if (const std::string title = gpu::title_of(*device); !title.empty()) f.title = title;
  } catch (const Error& e) {
    f.why = e.what();
  }
  return f;
}

struct Devices : Command {
  bool json = false;

  void add(CLI::App& app) {
    app.add_flag("--json", json, "Print a JSON array");
    app.footer("Their names are the words of --device. The first one is the default.");
  }

  void run() const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::vector<std::vector<std::string>> rows{{"name", "available", "memory", "title"}};
    for (const DeviceKind& kind : devices()) {
      const Found f = look_for(kind);
      const bool available = f.why.empty();
      list.push_back({{"name", kind.name}, {"available", available}, {"title", f.title}, {"why", f.why}});
      if (available) list.back()["memory"] = {{"total", f.memory.total}, {"free", f.memory.free}};
      rows.push_back({std::string(kind.name), available ? "yes" : "no", available ? format_bytes(f.memory.total) : "",
                      available ? f.title : f.why});
    }
    if (json) return print_json(list);
    const int columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 1 << 16;
    fmt::print("{}", table(rows, {false, false, true, false}, columns));
  }
};

}  // namespace

void add_devices(CLI::App& app) {
  add_subcommand<Devices>(app, "devices", "List the devices that compute, and which this machine has");
}

}  // namespace toy::cli
