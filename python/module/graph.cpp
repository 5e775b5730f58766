// Graphs, ops, sessions.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>

#include "arrays.h"
#include "bind/bound_graph.h"
#include "toy/graph/cost.h"
#include "toy/graph/op_def.h"
#include "toy/graph/print.h"
#include "toy/nn/losses.h"
#include "toy/runs/drawings.h"
#include "toy/tensor/convert.h"

using namespace nb::literals;
using toy::bind::BoundGraph;
using toy::bind::BoundModel;
using toy::bind::BoundSession;
using toy::bind::BoundValue;
using GraphPtr = std::shared_ptr<BoundGraph>;
using SessionPtr = std::shared_ptr<BoundSession>;
using Array = nb::ndarray<nb::ro>;

namespace {

toy::TensorType type_of(const std::vector<int64_t>& shape, const std::string& dtype) {
  toy::check(dtype == "f32" || dtype == "i32", "dtype is '{}'; use \"f32\" or \"i32\"", dtype);
  return {dtype == "f32" ? toy::DType::f32 : toy::DType::i32, toy::Shape(std::span(shape)), 0};
}

BoundValue constant(const GraphPtr& g, const Array& array) {
  const toy::View view = view_of("constant", array);
  std::vector<double> values;
  for (int64_t i = 0; i < view.count(); ++i) values.push_back(toy::element(view, i));
  return {g, g->graph.constant({view.dtype, view.shape, 0}, std::move(values))};
}

// Drawn as far as something uses it, or nothing does yet.
std::string svg(const BoundGraph& g) {
  std::vector<char> used(g.graph.nodes().size(), 0);
  for (const toy::Node& n : g.graph.nodes())
    for (const toy::Value v : n.inputs)
      if (v) used[size_t(v.node)] = 1;
  std::vector<toy::Value> ends;
  for (const toy::Node& n : g.graph.nodes())
    if (!used[size_t(n.id)]) ends.push_back({const_cast<toy::Graph*>(&g.graph), n.id, 0});
  return toy::to_svg(g.graph, toy::cost_of(g.graph, ends), "graph");
}

// ---- ops

template <auto F>
void one(nb::module_& m, const char* name, const char* help) {
  m.def(
      name,
      [](const BoundValue& x) {
        return BoundValue{x.graph, F(x.value)};
      },
      "x"_a, help);
}
template <auto F>
void two(nb::module_& m, const char* name, const char* help, const char* a = "a", const char* b = "b") {
  m.def(
      name,
      [](const BoundValue& x, const BoundValue& y) {
        return BoundValue{x.graph, F(x.value, y.value)};
      },
      nb::arg(a), nb::arg(b), help);
}
template <auto F>
void along(nb::module_& m, const char* name, const char* help) {
  m.def(
      name,
      [](const BoundValue& x, int axis) {
        return BoundValue{x.graph, F(x.value, axis)};
      },
      "x"_a, "axis"_a, help);
}
toy::Value of(const std::optional<BoundValue>& v) { return v ? v->value : toy::Value{}; }

void add_elementwise(nb::module_& m) {
  one<toy::exp>(m, "exp", "e^x");
  one<toy::log>(m, "log", "the natural logarithm");
  one<toy::sqrt>(m, "sqrt", "the square root");
  one<toy::rsqrt>(m, "rsqrt", "1 / sqrt(x)");
  one<toy::sin>(m, "sin", "the sine");
  one<toy::cos>(m, "cos", "the cosine");
  one<toy::tanh>(m, "tanh", "the hyperbolic tangent");
  one<toy::erf>(m, "erf", "2/sqrt(pi) times the integral of e^(-t^2) from 0 to x");
  one<toy::sigmoid>(m, "sigmoid", "1 / (1 + e^-x)");
  one<toy::softplus>(m, "softplus", "log(1 + e^x)");
  one<toy::relu>(m, "relu", "max(x, 0)");
  one<toy::silu>(m, "silu", "x sigmoid(x)");
  one<toy::gelu_erf>(m, "gelu", "x Phi(x) with the normal distribution Phi");
  one<toy::gelu_tanh>(m, "gelu_tanh", "gelu with tanh, as GPT-2 has it");
  one<toy::abs>(m, "abs", "the magnitude");
  one<toy::sign>(m, "sign", "-1, 0 or 1; its gradient is 0");
  one<toy::sqr>(m, "sqr", "x^2");
  one<toy::stop_gradient>(m, "stop_gradient", "x, through which no gradient flows");
  two<toy::maximum>(m, "maximum", "the larger of two");
  two<toy::minimum>(m, "minimum", "the smaller of two");
  two<toy::greater>(m, "greater", "i32 1 where a > b, else 0; for where()");
  two<toy::equal>(m, "equal", "i32 1 where a = b, else 0; for where()");
  m.def(
      "where",
      [](const BoundValue& c, const BoundValue& a, const BoundValue& b) {
        return BoundValue{c.graph, toy::where(c.value, a.value, b.value)};
      },
      "cond"_a, "a"_a, "b"_a, "a where cond (i32) is not 0, else b");
  m.def(
      "clamp",
      [](const BoundValue& x, float lo, float hi) {
        return BoundValue{x.graph, toy::clamp(x.value, lo, hi)};
      },
      "x"_a, "lo"_a, "hi"_a, "x limited to [lo, hi]");
}

void add_shapes(nb::module_& m) {
  m.def(
      "reshape",
      [](const BoundValue& x, const std::vector<int64_t>& shape) {
        return BoundValue{x.graph, toy::reshape(x.value, toy::Shape(std::span(shape)))};
      },
      "x"_a, "shape"_a, "the same elements in another shape");
  m.def(
      "permute",
      [](const BoundValue& x, const std::vector<int64_t>& order) {
        return BoundValue{x.graph, toy::permute(x.value, toy::Shape(std::span(order)))};
      },
      "x"_a, "order"_a, "output dimension i is input dimension order[i]");
  m.def(
      "slice",
      [](const BoundValue& x, int axis, int64_t begin, int64_t count) {
        return BoundValue{x.graph, toy::slice(x.value, axis, begin, count)};
      },
      "x"_a, "axis"_a, "begin"_a, "count"_a, "elements begin to begin + count of an axis");
  m.def(
      "concat",
      [](const std::vector<BoundValue>& xs, int axis) {
        toy::check(!xs.empty(), "concat: there are no values; give at least one");
        std::vector<toy::Value> values;
        for (const BoundValue& x : xs) values.push_back(x.value);
        return BoundValue{xs[0].graph, toy::concat(values, axis)};
      },
      "xs"_a, "axis"_a, "values joined along an axis");
  m.def(
      "broadcast_to",
      [](const BoundValue& x, const std::vector<int64_t>& shape) {
        return BoundValue{x.graph, toy::broadcast_to(x.value, toy::Shape(std::span(shape)))};
      },
      "x"_a, "shape"_a, "dimensions of size 1 repeated up to a shape");
  along<toy::sum>(m, "sum", "the sum over an axis, which stays with size 1");
  along<toy::mean>(m, "mean", "the mean over an axis, which stays with size 1");
  along<toy::max>(m, "max", "the largest of an axis, which stays with size 1");
  m.def(
      "cumsum",
      [](const BoundValue& x, int axis, bool reverse) {
        return BoundValue{x.graph, toy::cumsum(x.value, axis, reverse)};
      },
      "x"_a, "axis"_a, "reverse"_a = false, "sums up to each element of an axis; reverse: from each on");
  one<toy::sum_all>(m, "sum_all", "the sum of all elements, a scalar");
  m.def(
      "mean_all",
      [](const BoundValue& x) {
        return BoundValue{x.graph, toy::sum_all(x.value) / double(x.value.type().count())};
      },
      "x"_a, "the mean of all elements, a scalar");
  one<toy::softmax>(m, "softmax", "exp(x) / sum exp(x) over the last dimension");
}

void add_layers(nb::module_& m) {
  m.def(
      "matmul",
      [](const BoundValue& a, const BoundValue& b, bool transpose_a, bool transpose_b) {
        return BoundValue{a.graph, toy::matmul(a.value, b.value, {transpose_a, transpose_b})};
      },
      "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false, "a b, of the last two dimensions");
  m.def(
      "linear",
      [](const BoundValue& x, const BoundValue& w, const std::optional<BoundValue>& bias) {
        return BoundValue{x.graph, toy::linear(x.value, w.value, of(bias))};
      },
      "x"_a, "w"_a, "bias"_a.none() = nb::none(), "x w^T + bias: x [N,I], w [O,I], bias [O]");
  two<toy::embedding>(m, "embedding", "rows of a table [V,D] at ids (i32 [N])", "table", "ids");
  m.def(
      "one_hot",
      [](const BoundValue& ids, int64_t classes) {
        return BoundValue{ids.graph, toy::one_hot(ids.value, classes)};
      },
      "ids"_a, "classes"_a, "a row with a 1 at each id");
  m.def(
      "rms_norm",
      [](const BoundValue& x, const BoundValue& w, float eps) {
        return BoundValue{x.graph, toy::rms_norm(x.value, w.value, eps)};
      },
      "x"_a, "w"_a, "eps"_a = 1e-5f, "w x / sqrt(mean(x^2) + eps) over the last dimension");
  m.def(
      "layer_norm",
      [](const BoundValue& x, const BoundValue& w, const std::optional<BoundValue>& b, float eps) {
        return BoundValue{x.graph, toy::layer_norm(x.value, w.value, of(b), eps)};
      },
      "x"_a, "w"_a, "bias"_a.none() = nb::none(), "eps"_a = 1e-5f,
      "w (x - mean(x)) / sqrt(var(x) + eps) + bias over the last dimension");
  two<toy::nn::cross_entropy>(m, "cross_entropy", "the mean of -log softmax(logits)[target], a scalar", "logits",
                              "targets");
  two<toy::nn::mse>(m, "mse", "the mean of (prediction - target)^2, a scalar", "prediction", "target");
}

template <class F>
auto binary(F f) {
  return [f](const BoundValue& a, const BoundValue& b) { return BoundValue{a.graph, f(a.value, b.value)}; };
}
template <class F>
auto by_number(F f) {
  return [f](const BoundValue& a, double b) { return BoundValue{a.graph, f(a.value, b)}; };
}

void add_values(nb::module_& m) {
  using toy::Value;
  nb::class_<BoundValue>(m, "Value", "A value of a graph: the result of an op, an input, a parameter or a constant.")
      .def_prop_ro("shape", [](const BoundValue& v) { return nb::tuple(nb::cast(shape_of(v.value.shape()))); })
      .def_prop_ro("dtype", [](const BoundValue& v) { return std::string(toy::name_of(v.value.type().dtype)); })
      .def_prop_ro("name", [](const BoundValue& v) { return v.graph->graph.node(v.value).name; })
      .def("__add__", binary([](Value a, Value b) { return a + b; }), nb::is_operator())
      .def("__sub__", binary([](Value a, Value b) { return a - b; }), nb::is_operator())
      .def("__mul__", binary([](Value a, Value b) { return a * b; }), nb::is_operator())
      .def("__truediv__", binary([](Value a, Value b) { return a / b; }), nb::is_operator())
      .def("__add__", by_number([](Value a, double b) { return a + b; }), nb::is_operator())
      .def("__radd__", by_number([](Value a, double b) { return b + a; }), nb::is_operator())
      .def("__sub__", by_number([](Value a, double b) { return a - b; }), nb::is_operator())
      .def("__rsub__", by_number([](Value a, double b) { return b - a; }), nb::is_operator())
      .def("__mul__", by_number([](Value a, double b) { return a * b; }), nb::is_operator())
      .def("__rmul__", by_number([](Value a, double b) { return b * a; }), nb::is_operator())
      .def("__truediv__", by_number([](Value a, double b) { return a / b; }), nb::is_operator())
      .def("__rtruediv__", by_number([](Value a, double b) { return b / a; }), nb::is_operator())
      .def("__neg__",
           [](const BoundValue& v) {
             return BoundValue{v.graph, toy::neg(v.value)};
           })
      .def("__repr__", [](const BoundValue& v) {
        const toy::Node& n = v.graph->graph.node(v.value);
        const std::string what = !n.name.empty() ? "'" + n.name + "'" : n.op ? n.op->name() : "constant";
        return "Value(" + what + " : " + v.value.type().str() + ")";
      });
  nb::class_<BoundGraph>(m, "Graph", "A graph of values. Ops (toy.ops) add to it; a Session computes it.")
      .def("__init__", [](BoundGraph* g) { new (g) BoundGraph(); })
      .def(
          "input",
          [](const GraphPtr& g, const std::string& name, const std::vector<int64_t>& shape, const std::string& dtype,
             int64_t bound) {
            return BoundValue{g, g->graph.input(name, type_of(shape, dtype), bound)};
          },
          "name"_a, "shape"_a, "dtype"_a = "f32", "bound"_a = 0,
          "What each run is given. bound: values of an i32 input are from 0 to bound - 1.")
      .def(
          "param",
          [](const GraphPtr& g, const std::string& name, const std::vector<int64_t>& shape) {
            return BoundValue{g, g->graph.param(name, type_of(shape, "f32"))};
          },
          "name"_a, "shape"_a, "A parameter, which lives between runs; the same name is the same parameter.")
      .def("constant", &constant, "array"_a, "A value that is known now.")
      .def("__str__", [](const BoundGraph& g) { return toy::to_text(g.graph); })
      .def("__repr__",
           [](const BoundGraph& g) { return "Graph(" + std::to_string(g.graph.nodes().size()) + " nodes)"; })
      .def("_repr_html_", &svg);
}

// ---- sessions

SessionPtr make_session(const std::vector<BoundValue>& outputs, bool train, const nb::dict& arrays,
                        const std::shared_ptr<BoundModel>& model, const SessionPtr& session,
                        const std::string& options) {
  toy::check(!outputs.empty(), "session: there are no outputs; give at least one value, such as a loss");
  BoundSession::Sources sources{.arrays = {}, .model = model, .session = session};
  for (const auto& [key, value] : arrays) {
    std::string name;
    Array array;
    toy::check(nb::try_cast(key, name), "params: a key is no name; use those of the graph's parameters");
    toy::check(nb::try_cast(value, array), "'{}' is no array; give one of numpy or of a library that speaks DLPack",
               name);
    auto* kept = new Array(std::move(array));
    const std::shared_ptr<const void> keep_alive(static_cast<const void*>(kept), [](const void* p) {
      const nb::gil_scoped_acquire gil;
      delete static_cast<const Array*>(p);
    });
    sources.arrays.push_back({name, view_of(name, *kept), keep_alive});
  }
  const nb::gil_scoped_release free;
  // Graphs grow with the GIL held.
  return std::make_shared<BoundSession>(outputs[0].graph, outputs, train, std::move(sources), options,
                                        [](const std::function<void()>& compile) {
                                          const nb::gil_scoped_acquire gil;
                                          compile();
                                        });
}

// Nobody waits for a turn with the GIL held: who has the turn may need the GIL.
nb::list run_session(BoundSession& s) {
  std::vector<std::vector<float>> values(s.outputs());
  std::vector<std::vector<int32_t>> ids(s.outputs());
  const auto is_i32 = [&](size_t i) { return s.output_type(i).dtype == toy::DType::i32; };
  {
    const nb::gil_scoped_release free;
    s.run(values, ids);
  }
  nb::list results;
  for (size_t i = 0; i < s.outputs(); ++i) {
    const std::vector<size_t> shape = shape_of(s.output_type(i).shape);
    results.append(is_i32(i) ? array_of(std::move(ids[i]), shape) : array_of(std::move(values[i]), shape));
  }
  return results;
}

}  // namespace

void add_graphs(nb::module_& m) {
  add_values(m);
  nb::module_ ops = m.def_submodule("ops", "Ops on values of a graph. Elementwise ops broadcast as numpy does.");
  add_elementwise(ops);
  add_shapes(ops);
  add_layers(ops);
  m.def(
      "minimize",
      [](const BoundValue& loss, const std::vector<BoundValue>& params, const std::string& options) {
        toy::bind::minimize(loss, params, options);
        return BoundValue{loss.graph, loss.graph->step->norm};
      },
      "loss"_a, "params"_a, "options"_a);
  m.def(
      "gradients",
      [](const BoundValue& loss, const std::vector<BoundValue>& wrt) {
        std::vector<toy::Value> values;
        for (const BoundValue& v : wrt) values.push_back(v.value);
        std::vector<BoundValue> all;
        for (const toy::Value g : toy::gradients(loss.value, values)) all.push_back({loss.graph, g});
        return all;
      },
      "loss"_a, "wrt"_a, "The gradients of a scalar in some values, which become values of its graph.");
  nb::class_<BoundSession>(m, "Session")
      .def("set",
           [](BoundSession& s, const std::string& name, const Array& array) {
             const toy::View view = view_of(name, array);
             const nb::gil_scoped_release free;
             s.set(name, view);
           })
      .def("run", &run_session)
      .def("write",
           [](BoundSession& s, const std::string& name, const Array& array) {
             const toy::View view = view_of(name, array);
             const nb::gil_scoped_release free;
             s.write(name, view);
           })
      .def("array",
           [](const SessionPtr& s, const std::string& name) {
             bool may_write = false;
             std::optional<toy::HostTensor> tensor;
             {
               const nb::gil_scoped_release free;
               tensor = s->param(name, may_write);
             }
             return look_at(s, std::move(*tensor), name, may_write);
           })
      .def("dtype", [](const BoundSession& s,
                       const std::string& name) { return s.dtype(name) == toy::DType::i32 ? "int32" : "float32"; })
      .def_prop_ro("names", &BoundSession::names);
  m.def("session", &make_session, "outputs"_a, "train"_a, "arrays"_a, "model"_a.none(), "session"_a.none(),
        "options"_a);
}
