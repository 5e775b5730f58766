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
#include "toy/hf/convert.h"
#include "toy/models/adapter.h"
#include "toy/models/save_as.h"
#include "toy/runs/report.h"
#include "toy/runs/run.h"

namespace toy::bind {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Only models are replaced, and those only if asked.
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

}  // namespace

void require_new(const std::string& option, const std::string& out, bool overwrite, std::string_view how) {
  std::error_code error;
  check(overwrite || !fs::is_regular_file(out, error) || fs::file_size(out, error) == 0,
        "{}: '{}' is another model and would be lost; use another name, or {}", option, out, how);
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

std::string model_to_convert(const ModelFinder& finder, const std::string& what) {
  std::string in = what;
  if (const std::string listed = finder.listed(in, true); !listed.empty()) in = listed;
  const std::string run = finder.run(in);
  const std::string model = run.empty() ? "" : runs::newest_model(run).file;
  return model.empty() ? in : model;
}

std::vector<std::string> convert(const std::string& what, const std::string& out, std::string_view json,
                                 const Between& between) {
  const auto given = read_options<ConvertFileOptions>("convert", json);
  hf::ConvertOptions o{.type = std::nullopt, .tokenizer = given.tokenizer};
  o.progress = [&](size_t, size_t) { between(); };
  if (!given.type.empty()) {
    const StoredAs stored = parse_stored_as("type", given.type);
    check(stored.mix.empty(), "type is '{}'; use f32, f16 or bf16, or quantize()", given.type);
    o.type = stored.plain;
  }
  const ModelFinder finder;
  const std::string model = model_to_convert(finder, what);
  if (hf::is_model_folder(model)) {
    require_free(out, model, given.overwrite);
    check(out.ends_with(".gguf"), "out is '{}'; a folder becomes a GGUF, so use a name that ends with .gguf", out);
    return hf::convert_folder(model, out, o).warnings;
  }
  check(!out.ends_with(".gguf"),
        "out is '{}'; a GGUF becomes a folder of Hugging Face. For another type use quantize()", out);
  return hf::convert_gguf(gguf::File::open(finder.model(model)), out, o).warnings;
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
