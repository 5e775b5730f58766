// Parts of layers from the tensors that they ask for.
#pragma once

#include <string>
#include <vector>

#include "toy/models/spec.h"
#include "toy/nn/primitives.h"

namespace toy {

using Init = TensorSpec::Init;

/// Those of the weight `name`, [O,I], or [E,O,I] of experts. `rows`: of embeddings, whose rows are taken by number; an
/// adapter's, too.
std::vector<nn::Adapter> make_adapters(const Weights& w, const std::string& name, const Shape& weight,
                                       bool rows = false);
/// `in_file`: the file's tensor that holds it as some of its rows, "" for one of its own.
nn::Linear make_linear(const Weights& w, const std::string& name, int64_t rows, int64_t columns, bool bias = false,
                       const std::string& in_file = {});
/// `in_file`: what a file calls it, "" for the same.
nn::RmsNorm make_rms_norm(const Weights& w, const std::string& name, int64_t width, float eps,
                          const std::string& in_file = {});

/// Cosines and sines of the angles of a batch's positions, a table for each kind of layer that turns its heads.
class RopeTables {
 public:
  /// `positions`: 0: there are no tables.
  RopeTables(Graph& graph, const ModelSpec& spec, int64_t positions)
      : graph_(graph), spec_(spec), positions_(positions) {}
  /// That of a layer, which it shares with those that turn alike.
  nn::Rope operator()(const LayerSpec& layer);

 private:
  struct Table {
    RopeSpec spec;
    int64_t width;
    Value table;
  };
  Graph& graph_;
  const ModelSpec& spec_;
  int64_t positions_;
  std::vector<Table> made_;
};

}  // namespace toy
