#include "bind/bound_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/nearest.h"
#include "toy/tensor/convert.h"
#include "toy/train/fit.h"

namespace toy::bind {
namespace {

// What a message calls an array.
std::string type_of(const View& v) { return TensorType{v.dtype, v.shape, 0}.str(); }

void require_type(const std::string& name, const View& given, const TensorType& type) {
  check(given.dtype == type.dtype && given.shape == type.shape, "'{}' is {}, and takes {}", name, type_of(given),
        type.str());
  check(given.contiguous(), "'{}' is a strided view; give a contiguous array", name);
}

std::string near_text(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

}  // namespace

void minimize(const BoundValue& loss, const std::vector<BoundValue>& params, std::string_view json) {
  JsonOptions given("minimize", json);
  OptimizerOptions o;
  if (const nlohmann::ordered_json* kind = given.take("optimizer")) {
    check(kind->is_string(), "optimizer is {}; use a name such as \"adamw\"", json_text(*kind));
    o = parse_optimizer(kind->get<std::string>());
  }
  given.read(o);
  given.finish();
  BoundGraph& g = *loss.graph;
  check(!g.step, "minimize: the graph has a minimize() already; make another graph");
  std::vector<Value> list;
  for (const BoundValue& p : params) list.push_back(p.value);
  const size_t before = g.graph.nodes().size();
  g.step = toy::minimize(loss.value, list, o);
  g.optimizer = o, g.own_nodes = before;
}

BoundSession::BoundSession(std::shared_ptr<BoundGraph> graph, const std::vector<BoundValue>& outputs, bool train,
                           Sources sources, std::string_view json, const WithGraph& with_graph)
    : graph_(std::move(graph)), sources_(std::move(sources)), train_(train) {
  if (sources_.session) sources_.model = sources_.session->sources_.model;
  SessionOptions o;
  JsonOptions given("Session", json);
  given.read(o);
  given.finish();
  device_ = sources_.model     ? sources_.model->device().shared_from_this()
            : sources_.session ? sources_.session->device()
                               : SharedDevice::get(o);
  const Turn turn(*device_);
  with_graph([&] { compile_graph(outputs, o); });
  const ParamStore* model = sources_.model ? sources_.model->model().params.get() : own_.get();
  session_ =
      std::make_unique<Session>(device_->device(), plan_, std::initializer_list<const ParamStore*>{own_.get(), model});
  session_->check_finite(o.check_finite);
}

void BoundSession::compile_graph(const std::vector<BoundValue>& outputs, const SessionOptions& o) {
  check(!train_ || graph_->step, "session: there is nothing to train; call minimize() first");
  std::vector<Value> values;
  for (const BoundValue& v : outputs) {
    check(v.graph == graph_, "session: the outputs are of different graphs; give those of one");
    values.push_back(v.value), types_.push_back(v.value.type());
  }
  plan_ = std::make_shared<const Plan>(
      compile(graph_->graph, values, train_ ? std::span<const Value>(graph_->step->updates) : std::span<const Value>(),
              device_->device(), {.fuse = !o.check_finite}));
  require_memory(device_->device(),
                 plan_->arena_bytes + plan_->input_bytes(device_->device()) + plan_->param_bytes(device_->device()),
                 "this session");
  add_params_of_plan(o.seed);
}

void BoundSession::add_params_of_plan(uint64_t seed) {
  const ParamStore* model = sources_.model ? sources_.model->model().params.get() : nullptr;
  own_ = sources_.session ? sources_.session->own_ : std::make_shared<ParamStore>(device_->device());
  for (const SharedArray& a : sources_.arrays) {
    const auto p = std::ranges::find(plan_->params, a.name, &PlanLeaf::name);
    check(p != plan_->params.end(), "no parameter of the graph that a run needs is called '{}'{}", a.name,
          near_text(a.name, names()));
    require_type(a.name, a.view, p->type);
    check(!p->updated, "'{}' would be changed by this session, and is shared; set it with session['{}'] = values",
          a.name, a.name);
    own_->bind(a.name, a.view, a.keep_alive);
  }
  for (const PlanLeaf& p : plan_->params) {
    if (own_->has(p.name) || (model && model->has(p.name))) continue;
    const Value v = *graph_->graph.find(p.name);
    if (graph_->step && size_t(v.node) >= graph_->own_nodes)
      own_->add(p.name, p.type);
    else
      add_params(*own_, std::vector{v}, seed);
  }
}

const ParamStore& BoundSession::store_of(const std::string& name) const {
  check(std::ranges::find(plan_->params, name, &PlanLeaf::name) != plan_->params.end(),
        "the session has no parameter '{}'{}", name, near_text(name, names()));
  return own_->has(name) ? *own_ : *sources_.model->model().params;
}

DType BoundSession::dtype(std::string_view name) const {
  const std::optional<Value> v = graph_->graph.find(name);
  return v ? v->type().dtype : DType::f32;
}

void BoundSession::set(const std::string& input, const View& values) {
  const auto of_name = std::ranges::find(plan_->inputs, input, &PlanLeaf::name);
  if (of_name == plan_->inputs.end()) {
    std::vector<std::string> names;
    for (const PlanLeaf& p : plan_->inputs) names.push_back(p.name);
    check(std::ranges::find(plan_->unused_inputs, input) != plan_->unused_inputs.end(), "the graph has no input '{}'{}",
          input, near_text(input, names));
    return;
  }
  require_type(input, values, of_name->type);
  const Turn turn(*device_);
  if (train_ && input == "lr") {
    lr_ = double(*values.as<float>()), lr_is_given_ = true;
    check(std::isfinite(lr_) && lr_ >= 0, "lr is {}; use a number from 0 on", lr_);
  } else if (values.dtype == DType::i32) {
    session_->set(input, std::span<const int32_t>(values.as<int32_t>(), size_t(values.count())));
  } else {
    session_->set(input, std::span<const float>(values.as<float>(), size_t(values.count())));
  }
}

void BoundSession::run(std::vector<std::vector<float>>& values, std::vector<std::vector<int32_t>>& ids) {
  const Turn turn(*device_);
  if (train_) {
    check(lr_is_given_, "the learning rate is missing; give one, such as run(lr=1e-3)");
    feed_optimizer(*session_, graph_->optimizer, steps_, lr_);
  }
  session_->run();
  steps_ += train_;
  for (size_t i = 0; i < types_.size(); ++i) {
    if (types_[i].dtype != DType::i32) {
      values[i] = session_->values(i);
      continue;
    }
    const HostTensor tensor = session_->output(i);
    for (int64_t at = 0; at < tensor.view().count(); ++at) ids[i].push_back(int32_t(element(tensor.view(), at)));
  }
}

std::vector<std::string> BoundSession::names() const {
  std::vector<std::string> names;
  for (const PlanLeaf& p : plan_->params) names.push_back(p.name);
  return names;
}

HostTensor BoundSession::param(const std::string& name, bool& may_write) const {
  const Turn turn(*device_);
  const ParamStore& store = store_of(name);
  may_write = !store.frozen(name) && &store == own_.get();
  return store.host(name);
}

void BoundSession::write(const std::string& name, const View& values) {
  const Turn turn(*device_);
  const ParamStore& store = store_of(name);
  require_type(name, values, store.type(name));
  check(&store == own_.get() && !store.frozen(name), "'{}' is memory of another, which is only read", name);
  own_->write(name, values);
}

}  // namespace toy::bind
