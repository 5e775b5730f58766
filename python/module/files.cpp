// Files that become others, and logs of runs.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.h"
#include "bind/files.h"
#include "module.h"

using namespace nb::literals;

void add_files(nb::module_& m) {
  m.def(
      "quantize",
      [](const std::string& model, const std::string& out, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::quantize(model, out, options, check_signals);
      },
      "model"_a, "out"_a, "options"_a);
  m.def(
      "merge",
      [](const std::string& model, const std::string& out, const std::string& options) {
        const nb::gil_scoped_release free;
        toy::bind::merge(model, out, options);
      },
      "model"_a, "out"_a, "options"_a);
  m.def(
      "convert",
      [](const std::string& model, const std::string& out, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::convert(model, out, options, check_signals);
      },
      "model"_a, "out"_a, "options"_a);
  // (folder, summary, events, warnings)
  m.def(
      "read_run",
      [](const std::string& what) {
        const toy::bind::BoundRun run = toy::bind::read_run(what);
        return nb::make_tuple(run.folder, run.summary, run.events, run.warnings);
      },
      "what"_a);
  m.def(
      "runs_svg",
      [](const std::vector<std::string>& whats, const std::string& metric) {
        return toy::bind::runs_svg(whats, metric);
      },
      "whats"_a, "metric"_a);
}
