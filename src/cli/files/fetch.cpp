// toy fetch: models from the Hugging Face hub.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "fetch/fetch.h"
#include "fetch/http.h"
#include "find/catalog.h"
#include "toy/base/clock.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Fetch : Command {
  fetch::FetchOptions o;
  bool json = false;

  void add(CLI::App& app) {
    add_option(app, "repo", o.repo, "Repository on the Hugging Face hub, OWNER/REPO", not_empty())->required();
    add_option(app, "file", o.file, "File or pattern such as '*Q4_K_M*' (default: the only GGUF file)", not_empty());
    add_option(app, "--revision", o.revision, "Branch, tag or commit", not_empty());
    app.add_flag("--json", json, "Print a JSON array");
    app.footer(
        "Files go to the cache of Hugging Face's tools, where `toy list` finds them. An interrupted download resumes. "
        "Size and SHA-256 are checked. Environment: HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, https_proxy.\n\n"
        "Example:\n  toy fetch ggml-org/models 'tinyllamas/stories260K.gguf'");
  }

  void run() {
    o.cache = catalog::default_places().hugging_face;
    o.token = variable("HF_TOKEN");
    if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) o.endpoint = endpoint;
    std::optional<Progress> progress(std::in_place);
    progress->waiting("asking " + o.endpoint);
    Interrupt interrupt;
    const double begin = steady_seconds();
    std::optional<uint64_t> at_begin;
    o.stop = [&] { return interrupt.signal() != 0; };
    o.retrying = [said = std::string()](const std::string& why) mutable {  // each reason once
      if (why != said) to_stderr(fmt::format("toy: {}; trying again\n", one_line(why)));
      said = why;
    };
    o.progress = [&](uint64_t done, uint64_t total) {
      constexpr uint64_t kMiB = 1 << 20;
      if (!at_begin) at_begin = done;
      ProgressState state{.label = "MiB", .brief = "", .done = int64_t(done / kMiB), .total = int64_t(total / kMiB)};
      if (done > *at_begin)
        state.seconds_left = (steady_seconds() - begin) / double(done - *at_begin) * double(total - done);
      progress->show(state);
    };
    try {
      const std::vector<fetch::Fetched> files = fetch::fetch(o);
      progress.reset();
      print(files);
    } catch (const fetch::Stopped&) {
      progress.reset();
      to_stderr("toy: interrupted; run the command again to resume\n");
      interrupt.end_by_signal();
    }
  }

  void print(const std::vector<fetch::Fetched>& files) const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const fetch::Fetched& f : files) {
      if (f.was_there) to_stderr(fmt::format("{}: already there\n", one_line(f.file.path)));
      list.push_back({{"file", f.file.path}, {"path", f.path}, {"bytes", f.file.bytes}, {"downloaded", !f.was_there}});
      if (!json) fmt::print("{}\n", f.path);
    }
    if (json) print_json(list);
  }
};

}  // namespace

void add_fetch(CLI::App& app) { add_subcommand<Fetch>(app, "fetch", "Download a model from the Hugging Face hub"); }

}  // namespace toy::cli
