#include "cli/train/runs_stop.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/train/run_files.h"
#include "toy/base/error.h"
#include "toy/base/folder_lock.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

struct Stop : Command {
  std::string name;
  bool no_wait = false, json = false;

  void add(CLI::App& app) {
    add_option(app, "run", name, "A run's folder, its events.jsonl, or the start of its id", file_name())->required();
    app.add_flag("--no-wait", no_wait, "Ask only, and do not wait until it has ended");
    app.add_flag("--json", json, "Print a JSON object");
    app.footer(
        "The run finishes its step and saves a checkpoint, as after Ctrl-C, on one machine or under mpirun and\n"
        "srun. Use it where the process that holds the folder runs: under a launcher that is rank 0's machine.\n\n"
        "Example:\n  toy runs stop out/book\n  toy train --resume --out out/book");
  }

  void run() const {
    const std::string log = runs::find_log(name, kRunRoots);
    const std::string folder = std::filesystem::absolute(log).lexically_normal().parent_path().string();
    const size_t events_before = runs::read_events(log).events.size();  // of no run: refused
    const std::optional<int> process = lock_holder(folder);
    check(process.has_value(), "{}: this run has ended; toy runs show {} tells how", one_line(name),
          shell_quoted(name));
    check(request_stop(*process), "{}: process {} belongs to another user; use kill as that one", one_line(name),
          *process);
    nlohmann::ordered_json j{{"run", folder}, {"process", *process}, {"ended", !no_wait}};
    std::string text = fmt::format("{}: process {} stops after its step", one_line(name), *process);
    if (!no_wait) {
      while (lock_holder(folder) == process) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const runs::Log events = runs::read_events(log);
      const bool is_new = events.events.size() != events_before;  // else an earlier run's, before this one's first
      const auto* end = is_new && !events.events.empty() ? events.events.back().as<runs::RunEnd>() : nullptr;
      j["reason"] = end ? end->reason : "killed", j["step"] = nullptr, j["checkpoint"] = nullptr;
      text = fmt::format("{}: ended ({})", one_line(name), end ? end->reason : "killed");
      if (end && events.events.back().step) {
        j["step"] = *events.events.back().step;
        text += fmt::format(" at step {}", *events.events.back().step);
      }
      if (end && end->checkpoint) {
        const std::string saved =
            folder + "/checkpoints/" + std::filesystem::path(*end->checkpoint).filename().string();
        j["checkpoint"] = saved;
        text += fmt::format("; saved in {}", one_line(saved));
      }
    }
    if (json) return print_json(j);
    put_line(text + "\n");
  }
};

}  // namespace

void add_runs_stop(CLI::App& runs) {
  add_subcommand<Stop>(runs, "stop", "Stop a run that is training, with a checkpoint");
}

}  // namespace toy::cli
