// What the files of the module share.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

/// Adds the class Model and load().
void add_model(nb::module_& m);
/// Adds Graph, Value, Session and the module ops.
void add_graphs(nb::module_& m);
/// Adds quantize(), merge(), convert(), read_run() and runs_svg().
void add_files(nb::module_& m);
/// Adds evaluate_choices() and others of `toy eval`.
void add_evaluation(nb::module_& m);
/// Adds train().
void add_training(nb::module_& m);

/// Throws what a signal has raised, such as KeyboardInterrupt. Takes the GIL.
inline void check_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}
