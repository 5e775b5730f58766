// `toy eval` with models in memory.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/eval_embeddings.h"
#include "bind/evaluate.h"
#include "module.h"

using namespace nb::literals;
using toy::bind::BoundModel;

void add_evaluation(nb::module_& m) {
  m.def(
      "evaluate_choices",
      [](const BoundModel& model, const std::string& file, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_choices(model, file, options, check_signals);
      },
      "model"_a, "file"_a, "options"_a);
  m.def(
      "evaluate_answers",
      [](const BoundModel& model, const std::string& file, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_answers(model, file, options, check_signals);
      },
      "model"_a, "file"_a, "options"_a);
  m.def(
      "evaluate_kl",
      [](const BoundModel& base, const BoundModel& model, const std::string& text, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_kl(base, model, text, options, check_signals);
      },
      "base"_a, "model"_a, "text"_a, "options"_a);
  m.def(
      "evaluate_lmc",
      [](const BoundModel& a, const BoundModel& b, const std::string& text, const std::vector<double>& alphas,
         const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_lmc(a, b, text, alphas, options, check_signals);
      },
      "a"_a, "b"_a, "text"_a, "alphas"_a, "options"_a);
  m.def(
      "evaluate_sts",
      [](BoundModel& model, const std::string& file, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_sts(model, file, options);
      },
      "model"_a, "file"_a, "options"_a);
  m.def(
      "evaluate_retrieval",
      [](BoundModel& model, const std::string& file, const std::string& options) {
        const nb::gil_scoped_release free;
        return toy::bind::evaluate_retrieval(model, file, options);
      },
      "model"_a, "file"_a, "options"_a);
}
