// The module toy._toy: the library as Python calls it. Options come as JSON; python/toy has the names that people use.
#include "module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/describe_options.h"
#include "bind/file_error.h"
#include "bind/version.h"
#include "toy/base/error.h"

using namespace nb::literals;

namespace {

// A class of exceptions toy.NAME.
nb::object new_exception(nb::module_& m, const char* name, const nb::object& bases, const char* doc) {
  const nb::object type =
      nb::steal(PyErr_NewExceptionWithDoc((std::string("toy.") + name).c_str(), doc, bases.ptr(), nullptr));
  if (!type.is_valid()) throw nb::python_error();
  m.attr(name) = type;
  return type;
}

struct Exceptions {
  nb::handle error, bad_input, disk_full;
};

void translate(const std::exception_ptr& thrown, void* payload) {
  const auto& types = *static_cast<const Exceptions*>(payload);
  try {
    std::rethrow_exception(thrown);
  } catch (const toy::DiskFull& e) {
    PyErr_SetString(types.disk_full.ptr(), e.what());
  } catch (const toy::Error& e) {
    PyErr_SetString(e.code() == toy::ErrorCode::bad_input ? types.bad_input.ptr() : types.error.ptr(), e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    PyErr_SetString(types.bad_input.ptr(), toy::bind::file_error_text(e).c_str());
  }
}

}  // namespace

NB_MODULE(_toy, m) {
  const nb::object error = new_exception(m, "Error", nb::borrow(PyExc_RuntimeError),
                                         "Something failed: the machine, a file that is damaged, the library.");
  const nb::object bad_input = new_exception(m, "BadInput", nb::make_tuple(error, nb::handle(PyExc_ValueError)),
                                             "What the caller can change: a path, an option, an array.");
  const nb::object disk_full = new_exception(m, "DiskFull", nb::make_tuple(bad_input, nb::handle(PyExc_OSError)),
                                             "No space is left where a file has to be written.");
  static Exceptions types;  // the module holds them
  types = {error, bad_input, disk_full};
  nb::register_exception_translator(translate, &types);
  m.attr("version") = toy::bind::version();
  m.def(
      "options", [](const std::string& call) { return toy::bind::options_json(call); }, "call"_a);
  m.def("recipes", &toy::bind::recipe_names);
  add_model(m);
  add_graphs(m);
  add_files(m);
  add_evaluation(m);
  add_training(m);
}
