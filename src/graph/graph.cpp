#include "toy/graph/graph.h"

#include <fmt/format.h>

#include "toy/graph/op_def.h"

namespace toy {

int Graph::declare_rows(std::string name, int64_t max) {
  check(max >= 1, "graph: row count '{}' has maximum {}, expected at least 1", name, max);
  rows_.push_back({std::move(name), max});
  return int(rows_.size()) - 1;
}

TensorType Graph::rows_type(int rows, DType dtype, std::initializer_list<int64_t> inner) const {
  TensorType t{dtype, {rows_[size_t(rows)].max}, rows};
  for (const int64_t d : inner) t.shape.push_back(d);
  return t;
}

Value Graph::add_leaf(Node node) {
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
         .backward = backward_};
  try {
    std::vector<const TensorType*> types;
    for (const Value& v : n.inputs) {
      check(!v || v.graph == this, "{}: an input belongs to another graph", op.name());
      types.push_back(v ? &type(v) : nullptr);
    }
    n.outputs = op.signature.infer(types, n.attrs);
    if (op.infer) op.infer({types, n.attrs}, n.outputs);
  } catch (const Error& e) {
    if (layer_.empty()) throw;
    throw Error(e.code(), layer_ + ": " + e.what());
  }
  nodes_.push_back(std::move(n));
  return nodes_.back().id;
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
  const auto [it, fresh] = names_.try_emplace(name, v);
  check(fresh, "graph: the name '{}' is taken", name);
  nodes_[size_t(v.node)].name = std::move(name);
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
