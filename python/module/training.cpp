// Recipes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bind/train_run.h"
#include "module.h"

using namespace nb::literals;

namespace {

// What a callback or a signal raises ends the run after its step, with a checkpoint, and is raised then.
class Calls {
 public:
  Calls(std::optional<nb::callable> on_event, std::optional<nb::callable> stop)
      : on_event_(std::move(on_event)), stop_(std::move(stop)) {}

  void event(const std::string& json) {
    if (!on_event_) return;
    guarded([&] { (*on_event_)(json); });
  }
  bool stop() {
    if (!raised_) guarded([] { check_signals(); });
    bool asked = false;
    if (!raised_ && stop_) guarded([&] { asked = nb::cast<bool>((*stop_)()); });
    return raised_ || asked;
  }
  void rethrow() {
    if (raised_) throw nb::python_error(std::move(*raised_));
  }

 private:
  template <class F>
  void guarded(const F& f) {
    nb::gil_scoped_acquire gil;
    try {
      f();
    } catch (nb::python_error& e) {
      if (!raised_) raised_.emplace(std::move(e));
    } catch (const nb::cast_error&) {
      PyErr_SetString(PyExc_TypeError, "stop() must return True or False");
      if (!raised_)
        raised_.emplace();
      else
        PyErr_Clear();
    }
  }

  std::optional<nb::callable> on_event_, stop_;
  std::optional<nb::python_error> raised_;
};

}  // namespace

void add_training(nb::module_& m) {
  m.def(
      "train",
      [](const std::string& recipe, const std::string& options, std::optional<nb::callable> on_event,
         std::optional<nb::callable> stop) {
        Calls calls(std::move(on_event), std::move(stop));
        std::string result;
        {
          nb::gil_scoped_release free;
          result = toy::bind::train(recipe, options,
                                    {.event = [&](const std::string& json) { calls.event(json); },
                                     .preparing = [&](const std::string&) {},
                                     .stop = [&] { return calls.stop(); }});
        }
        calls.rethrow();
        return result;
      },
      "recipe"_a, "options"_a, "on_event"_a.none() = nb::none(), "stop"_a.none() = nb::none());
}
