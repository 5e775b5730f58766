// toy list: the models on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/tables.h"
#include "find/catalog.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Those of the runs below this folder follow.
std::vector<catalog::Entry> with_runs(std::vector<catalog::Entry> all) {
  std::error_code error;
  for (const std::string& folder : runs::find_runs("."))
    if (const std::string path = runs::newest_model(folder).file; !path.empty())
      all.push_back({folder, path, "run", fs::file_size(path, error)});
  return all;
}

struct List : Command {
  bool json = false;

  void add(CLI::App& app) {
    app.add_flag("--json", json, "Print a JSON array");
    app.footer(
        "Looks in the caches of Hugging Face (HF_HUB_CACHE, HF_HOME), Ollama (OLLAMA_MODELS) and LM Studio, in the "
        "folder data, and for runs below this folder. Every command that takes a model also takes a name from this "
        "list. "
        "See toy help files.md.");
  }

  void run() const {
    ordered_json list = ordered_json::array();
    std::vector<std::vector<std::string>> rows{{"name", "family", "type", "size", "source"}};
    for (const catalog::Entry& e : with_runs(catalog::list(catalog::default_places()))) {
      std::string family, type, error;
      try {
        if (e.folder) {
          family = catalog::family_of_folder(e.path), type = "safetensors";
        } else if (e.missing > 0) {
          type = "incomplete";
          error = fmt::format("{}: {} of the parts of this model {} missing; fetch it again", e.path, e.missing,
                              e.missing == 1 ? "is" : "are");
        } else {
          const gguf::File file = gguf::File::open(e.path);
          family = file.get_string("general.architecture", ""), type = catalog::quantization_of(file);
        }
      } catch (const Error& broken) {
        error = broken.what(), type = "?";
      }
      if (!error.empty()) to_stderr(fmt::format("toy: {}\n", one_line(error)));
      list.push_back({{"name", e.name},
                      {"path", e.path},
                      {"source", e.source},
                      {"family", family},
                      {"type", error.empty() ? type : ""},
                      {"bytes", e.bytes}});
      if (!error.empty()) list.back()["error"] = error;
      rows.push_back({one_line(e.name), one_line(error.empty() ? family : "?"), type, format_bytes(e.bytes), e.source});
    }
    if (json) return print_json(list);
    if (rows.size() == 1)
      return to_stderr("no models found; get one with `toy fetch OWNER/REPO`, or make one with `toy train`\n");
    const int columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 1 << 16;
    fmt::print("{}", table(rows, {false, false, false, true, false}, columns));
  }
};

}  // namespace

void add_list(CLI::App& app) { add_subcommand<List>(app, "list", "List the models on this machine"); }

}  // namespace toy::cli
