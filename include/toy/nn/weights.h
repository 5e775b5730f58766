// How layers ask for their weights while a graph is built.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "toy/nn/tensor_spec.h"
#include "toy/ops/ops.h"

namespace toy {

/// A view of a model's named tensors, with a prefix. Layers declare each tensor that they need and get it as a value of
/// the graph; its dtype is the stored one (a file may hold f16).
class Weights {
 public:
  using DTypeOf = std::function<DType(const std::string& name)>;
  using ValuesOf = std::function<std::vector<float>(const std::string& name)>;
  /// `dtype_of` says how a tensor is stored, `values_of` what it holds; it is absent where nobody knows yet.
  Weights(Graph& graph, DTypeOf dtype_of, ValuesOf values_of = {})
      : graph_(&graph), dtype_of_(std::move(dtype_of)), values_of_(std::move(values_of)) {}

  /// The parameter of this tensor, whose names get the prefix.
  Value operator()(TensorSpec tensor) const {
    tensor.name = full_name(tensor.name);
    if (!tensor.file_name.empty()) tensor.file_name = prefix_ + tensor.file_name;
    tensor.part = part_, tensor.block = block_;
    const Value v = graph_->param(tensor.name, {dtype_of_(tensor.name), tensor.shape, 0});
    declared_->push_back(std::move(tensor));
    return v;
  }
  /// What that parameter holds, which is looked at while the graph is built; empty if nobody knows.
  std::vector<float> values(const std::string& name) const {
    return values_of_ ? values_of_(full_name(name)) : std::vector<float>{};
  }
  /// The same for tensors of block `index`, whose names begin with "<blocks><index>.".
  Weights block(int index, const std::string& blocks) const {
    Weights inner = *this;
    inner.prefix_ += blocks + std::to_string(index) + ".";
    inner.block_ = index;
    return inner;
  }
  /// The same for tensors of a part of the model.
  Weights of(ModelPart part) const {
    Weights inner = *this;
    inner.part_ = part;
    return inner;
  }
  /// The same with adapters of linear maps, which must outlive it. `random`: i32[3] of their dropout, or absent.
  Weights with(const std::vector<AdapterSpec>& adapters, Value random) const {
    Weights inner = *this;
    inner.adapters_ = adapters, inner.random_ = random;
    return inner;
  }
  /// The same where rows have factors of their own for each adapter.
  Weights with_factors(std::vector<Value> factors) const {
    Weights inner = *this;
    inner.factors_ = std::move(factors);
    return inner;
  }
  /// [N,1] for an adapter, or absent.
  Value factors(size_t adapter) const { return adapter < factors_.size() ? factors_[adapter] : Value{}; }
  /// Those adapters.
  std::span<const AdapterSpec> adapters() const { return adapters_; }
  Value random() const { return random_; }  ///< of their dropout
  Graph& graph() const { return *graph_; }
  /// The same where tensors have other names: pairs of the usual one and the other, without ".weight" and ".bias". Must
  /// outlive it.
  Weights renamed(std::span<const std::pair<std::string, std::string>> names) const {
    Weights inner = *this;
    inner.names_ = names;
    return inner;
  }
  /// The name in full.
  std::string full_name(const std::string& name) const {
    const std::string stem = name.substr(0, name.find('.'));
    for (const auto& [usual, other] : names_)
      if (stem == usual) return prefix_ + other + name.substr(stem.size());
    return prefix_ + name;
  }
  /// All tensors that were asked for through this and the views of it, in their order.
  const std::vector<TensorSpec>& declared() const { return *declared_; }

 private:
  Graph* graph_;
  DTypeOf dtype_of_;
  ValuesOf values_of_;
  std::string prefix_;
  std::span<const std::pair<std::string, std::string>> names_;
  ModelPart part_ = ModelPart::output;
  int block_ = -1;
  std::span<const AdapterSpec> adapters_;
  Value random_;
  std::vector<Value> factors_;
  std::shared_ptr<std::vector<TensorSpec>> declared_ = std::make_shared<std::vector<TensorSpec>>();
};

}  // namespace toy
