// How layers ask for their weights while a graph is built.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "toy/ops/ops.h"

namespace toy {

/// A view of a model's named tensors, with a prefix. Layers call it with a name and the shape they need; the dtype
/// is the stored one (a file may hold f16).
class Weights {
 public:
  using DTypeOf = std::function<DType(const std::string& name)>;
  /// `dtype_of` says how a tensor is stored; `prefix` begins every name.
  Weights(Graph& graph, DTypeOf dtype_of, std::string prefix = {})
      : graph_(&graph), dtype_of_(std::move(dtype_of)), prefix_(std::move(prefix)) {}

  /// The parameter `prefix + name` as a value of the graph.
  Value operator()(const std::string& name, const Shape& shape) const {
    return graph_->param(prefix_ + name, {dtype_of_(prefix_ + name), shape, 0});
  }
  /// The same with `layer` and a dot after the prefix.
  Weights in(const std::string& layer) const { return {*graph_, dtype_of_, prefix_ + layer + "."}; }
  const std::string& prefix() const { return prefix_; }
  Graph& graph() const { return *graph_; }

 private:
  Graph* graph_;
  DTypeOf dtype_of_;
  std::string prefix_;
};

}  // namespace toy
