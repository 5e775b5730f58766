#include "toy/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/graph/op_def.h"

namespace toy {

int Graph::declare_rows(std::string name, int64_t max) {
  check(max >= 1, "graph: row count '{}' has maximum {}, expected at least 1", name, max);
  for (const Rows& r : rows_) check(r.name != name, "graph: the row count '{}' is declared twice", name);
  rows_.push_back({std::move(name), max});
  return int(rows_.size()) - 1;
}

TensorType Graph::rows_type(int rows, DType dtype, std::initializer_list<int64_t> inner) const {
  check(rows > 0 && size_t(rows) < rows_.size(), "graph: no row count number {} is declared", rows);
  TensorType t{dtype, {rows_[size_t(rows)].max}, rows};
  for (const int64_t d : inner) t.shape.push_back(d);
  return t;
}

const Node& Graph::node(int id) const {
  check(id >= 0 && size_t(id) < nodes_.size(), "graph: node {} of {}", id, nodes_.size());
  return nodes_[size_t(id)];
}

const TensorType& Graph::type(Value v) const {
  const Node& n = node(v);
  check(v.out >= 0 && size_t(v.out) < n.outputs.size(), "graph: output {} of node {}, which has {}", v.out, v.node,
        n.outputs.size());
  return n.outputs[size_t(v.out)];
}

const TensorType& Value::type() const {
  check(graph, "graph: an empty value has no type; was an operand left out?");
  return graph->type(*this);
}

// Bytes, and differences of offsets, are to be counted in 64 bits.
void Graph::check_type(const TensorType& t, std::string_view maker) const {
  check(t.rows >= 0 && size_t(t.rows) < rows_.size(), "{}: no row count number {} is declared", maker, t.rows);
  double bytes = double(info_of(t.dtype).bytes) / info_of(t.dtype).block;
  bool negative = false;
  for (const int64_t d : t.shape) {
    negative |= d < 0;
    bytes *= double(d);
  }
  if (!negative && bytes < 0x1p60) return;  // before the text of the message: every tensor of a model comes here
  fail("{}: a tensor of {} {}", maker, t.str(), negative ? "has a negative dimension" : "is larger than any memory");
}

Value Graph::add_leaf(Node node) {
  const TensorType& type = node.outputs[0];
  check_rows(type.dtype, type.shape, node.name.empty() ? "graph: a constant" : "graph: tensor '" + node.name + "'");
  check_type(type, "graph");
  node.id = int(nodes_.size());
  node.layer = layer_;
  const Value v{this, node.id, 0};
  if (!node.name.empty()) {
    const auto [it, fresh] = names_.try_emplace(node.name, v);
    check(fresh, "graph: the name '{}' is taken", node.name);
  }
  nodes_.push_back(std::move(node));
  return v;
}

Value Graph::input(std::string name, const TensorType& type, int64_t index_bound) {
  return add_leaf({.kind = NodeKind::input, .outputs = {type}, .name = std::move(name), .index_bound = index_bound});
}

Value Graph::param(const std::string& name, const TensorType& type) {
  if (const auto it = names_.find(name); it != names_.end()) {
    const Node& n = node(it->second);
    check(n.kind == NodeKind::param && n.outputs[0] == type, "graph: parameter '{}' is {}, asked for {}", name,
          n.outputs[0].str(), type.str());
    return it->second;
  }
  return add_leaf({.kind = NodeKind::param, .outputs = {type}, .name = name});
}

Value Graph::constant(const TensorType& type, std::vector<double> data, std::string name) {
  check_type(type, "graph");
  check(int64_t(data.size()) == type.count(), "graph: a constant of type {} was given {} values", type.str(),
        data.size());
  return add_leaf({.kind = NodeKind::constant,
                   .outputs = {type},
                   .name = std::move(name),
                   .constant = std::make_shared<const std::vector<double>>(std::move(data))});
}

int Graph::apply(const OpDef& op, std::vector<Value> inputs, Attrs attrs) {
  Node n{.id = int(nodes_.size()),
         .kind = NodeKind::op,
         .op = &op,
         .attrs = std::move(attrs),
         .inputs = std::move(inputs),
         .layer = layer_,
         .phase = phase_};
  try {
    std::vector<const TensorType*> types;
    for (const Value& v : n.inputs) {
      check(!v || v.graph == this, "{}: an input belongs to another graph", op.name());
      types.push_back(v ? &type(v) : nullptr);
      if (v && n.phase == Phase::forward && node(v).phase != Phase::forward) n.phase = Phase::update;
    }
    n.outputs = op.signature.infer(types, n.attrs);
    if (op.infer) op.infer({types, n.attrs, op.name()}, n.outputs);
    for (const TensorType& t : n.outputs) check_type(t, op.name());
  } catch (const Error& e) {
    throw Error(e.code(), layer_.prefix() + e.what());
  }
  nodes_.push_back(std::move(n));
  return nodes_.back().id;
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

Layer Graph::inner(const std::string& name) const {
  Layer l = layer_;
  if (l.path.empty()) l.outer_length = name.size();
  if (!name.empty()) l.path += (l.path.empty() ? "" : ".") + name;
  return l;
}

Graph::Scope Graph::scope(const std::string& name) { return Scope(*this, inner(name), phase_); }

Graph::Scope Graph::update_scope(const std::string& name) { return Scope(*this, inner(name), Phase::update); }

Graph::Scope Graph::block(int index) {
  Layer layer = inner("blk." + std::to_string(index));
  layer.block = index;
  return Scope(*this, std::move(layer), phase_);
}

int Graph::append_copy(const Node& node, std::vector<Value> inputs) {
  Node n = node;
  n.id = int(nodes_.size());
  n.inputs = std::move(inputs);
  if (!n.name.empty()) names_.try_emplace(n.name, Value{this, n.id, 0});
  nodes_.push_back(std::move(n));
  return nodes_.back().id;
}

void Graph::set_name(Value v, std::string name) {
  check(v.graph == this, "graph: the name '{}' was given to a value that is not of this graph", name);
  type(v);  // throws if there is no such value
  const Node& n = node(v);
  check(n.kind != NodeKind::input && n.kind != NodeKind::param,
        "graph: '{}' is {}, which is found by its name and cannot become '{}'; name what is computed from it", n.name,
        n.kind == NodeKind::input ? "an input" : "a parameter", name);
  const auto [it, fresh] = names_.try_emplace(name, v);
  check(fresh, "graph: the name '{}' is taken", name);
  nodes_[size_t(v.node)].name = std::move(name);
}

Value apply(const OpDef& op, std::vector<Value> inputs, Attrs attrs) {
  const auto given = std::find_if(inputs.begin(), inputs.end(), [](const Value& v) { return bool(v); });
  check(given != inputs.end(), "{}: no operand is there", op.name());
  Graph& graph = *given->graph;
  return {&graph, graph.apply(op, std::move(inputs), std::move(attrs)), 0};
}

std::optional<Value> Graph::find(std::string_view name) const {
  const auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  return it->second;
}

Cost OpDef::cost_of(const CostQuery& q) const {
  Cost c = cost ? cost(q) : Cost{};
  if (view) return c;
  if (c.bytes == 0) {
    for (const TensorType* t : q.in)
      if (t) c.bytes += double(t->bytes());
    for (const TensorType& t : q.out) c.bytes += double(t.bytes());
  }
  if (!cost && !q.out.empty()) c.flops = double(q.out[0].count());
  return c;
}

}  // namespace toy
