#include "bind/files.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "bind/adapters.h"
#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/formats/imatrix.h"
#include "toy/formats/requantize.h"
#include "toy/models/adapter.h"
#include "toy/models/save_as.h"
#include "toy/runs/report.h"
#include "toy/runs/run.h"

namespace toy::bind {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

void require_new(const std::string& option, const std::string& out, bool overwrite, std::string_view how) {
  std::error_code error;
  check(overwrite || !fs::is_regular_file(out, error) || fs::file_size(out, error) == 0,
        "{}: '{}' is there and would be lost; use another name, or {}", option, out, how);
}

void require_free(const std::string& out, const std::string& model, bool overwrite) {
  std::error_code error;
  check(!out.empty(), "out is empty; give the name of a file");
  check(!fs::equivalent(out, model, error), "out is '{}', which is the model; choose another name", out);
  if (!fs::is_regular_file(out, error) || fs::file_size(out, error) == 0) return;
  std::array<char, 4> begin{};
  std::ifstream(out, std::ios::binary).read(begin.data(), begin.size());
  check(std::string_view(begin.data(), begin.size()) == "GGUF",
        "out: '{}' exists and is no model; use another name, or remove it", out);
  require_new("out", out, overwrite, "overwrite=True");
}

std::string quantize(const std::string& model, const std::string& out, std::string_view json, const Between& between) {
  const auto given = read_options<QuantizeOptions>("quantize", json);
  check(!given.type.empty(), "type is missing; use e.g. \"Q4_K_M\"");
  const std::string in = ModelFinder().model(model);
  require_free(out, in, given.overwrite);
  gguf::RequantizeOptions o{.mix = given.type, .pure = given.pure, .types = {}, .threads = given.threads};
  for (const std::string& t : given.tensor) o.types.push_back(gguf::parse_type_rule(t));
  std::optional<gguf::Imatrix> importance;
  if (!given.imatrix.empty()) importance = gguf::read_imatrix(given.imatrix), o.imatrix = &*importance;
  ordered_json list = ordered_json::array();
  gguf::requantize(gguf::File::open(in), out, o, [&](const gguf::RequantizedTensor& t) {
    list.push_back({{"name", t.name},
                    {"from", name_of(t.from)},
                    {"to", name_of(t.to)},
                    {"error", t.rms > 0 ? t.rmse / t.rms : 0.0}});
    between();
  });
  return json_text(list);
}

void merge(const std::string& model, const std::string& out, std::string_view json) {
  const auto o = read_options<MergeOptions>("merge", json);
  check(!o.lora.empty(), "merge: there is nothing to merge; give lora");
  const ModelFinder finder;
  const std::string in = finder.model(model);
  require_free(out, in, o.overwrite);
  std::vector<GivenAdapter> adapters;
  for (const std::string& text : o.lora) {
    adapters.push_back(parse_adapter(text, false, finder));
    require_free(out, adapters.back().path, o.overwrite);
  }
  const StoredAs stored = parse_stored_as("type", o.type);
  const auto device = SharedDevice::get(o);
  const Turn turn(*device);
  Model m = load_model(in, device->device(), LoadMode::trainable);
  apply_adapters(m, adapters);
  merge_adapters(m);
  save_model(m, out, stored);
}

BoundRun read_run(const std::string& what) {
  const std::vector<std::string> roots{"."};
  const std::string path = runs::find_log(what, roots);
  const runs::Log log = runs::read_events(path);
  BoundRun run{.folder = fs::path(path).parent_path().string(), .summary = {}, .events = {}, .warnings = log.warnings};
  run.summary = json_text(runs::to_json(runs::summarize(log, run.folder, runs::is_being_written(path))));
  for (const runs::Event& e : log.events) run.events.push_back(runs::to_json_line(e));
  return run;
}

std::string runs_svg(std::span<const std::string> whats, const std::string& metric) {
  const std::vector<std::string> roots{"."};
  std::vector<runs::Log> logs;
  std::vector<runs::Summary> summaries;
  for (const std::string& what : whats) {
    const std::string path = runs::find_log(what, roots);
    logs.push_back(runs::read_events(path));
    summaries.push_back(runs::summarize(logs.back(), fs::path(path).parent_path().string(), false));
  }
  runs::name_apart(summaries);
  const std::vector<std::string> names = runs::short_names(summaries);
  return runs::to_svg(runs::compare_chart(metric, logs, names), {});
}

}  // namespace toy::bind
