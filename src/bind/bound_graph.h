// Graphs and sessions as bindings for other languages hold them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bind/bound_model.h"
#include "toy/runtime/session.h"
#include "toy/train/optimizer.h"

namespace toy::bind {

/// A graph, and the optimizer's step that minimize() added to it.
struct BoundGraph {
  Graph graph;
  OptimizerOptions optimizer;
  std::optional<OptimizerStep> step;
  size_t own_nodes = 0;  ///< those before minimize()
};

/// A value, with the graph that it is of.
struct BoundValue {
  std::shared_ptr<BoundGraph> graph;
  Value value;
};

/// toy::minimize(). Options: `optimizer` ("adamw", "sgd(momentum=0.9)") and those of OptimizerOptions.
void minimize(const BoundValue& loss, const std::vector<BoundValue>& params, std::string_view json);

/// How a session is made.
struct SessionOptions : DeviceOptions {
  uint64_t seed = 0;
  bool check_finite = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    DeviceOptions::fields(o, f);
    f({"seed", "Seed of the initial values of parameters", {}, "Parameters"}, o.seed);
    f({"check_finite", "Stop at the first op whose result has a NaN or an infinity", {}, "Debugging"}, o.check_finite);
  }
};

/// Memory of others that a session reads as a parameter.
struct SharedArray {
  std::string name;
  View view;
  std::shared_ptr<const void> keep_alive;
};

/// Calls a function while no other thread changes the graph.
using WithGraph = std::function<void(const std::function<void()>&)>;

/// A compiled graph with its parameters. For several threads in turns.
class BoundSession {
 public:
  /// Whose parameters a session uses: those of a model, or all of another session.
  struct Sources {
    std::vector<SharedArray> arrays;
    std::shared_ptr<BoundModel> model;
    std::shared_ptr<BoundSession> session;
  };
  /// `train`: run() also makes the step of minimize(). Parameters that no source has are its own: those of minimize()
  /// begin with zeros, the others as add_params() says. Options: SessionOptions; a source's device goes before. Throws
  /// Error{bad_input} for an array that does not fit, or that run() would change.
  BoundSession(std::shared_ptr<BoundGraph> graph, const std::vector<BoundValue>& outputs, bool train, Sources sources,
               std::string_view json, const WithGraph& with_graph);

  /// The dtype of the input or parameter of this name; f32 if there is none.
  DType dtype(std::string_view name) const;
  /// Feeds an input. Throws Error{bad_input} for values of another dtype, shape or layout.
  void set(const std::string& input, const View& values);
  /// Runs, and with `train` makes a step. Outputs of i32 come as `ids`, others as `values`; both have a place for each.
  void run(std::vector<std::vector<float>>& values, std::vector<std::vector<int32_t>>& ids);
  /// The type of an output.
  size_t outputs() const { return types_.size(); }
  const TensorType& output_type(size_t i) const { return types_[i]; }

  /// Names of all parameters, in the order of the plan.
  std::vector<std::string> names() const;
  /// A parameter; the memory is this session's or its source's. `may_write`: it is no shared array, nor a weight of a
  /// model.
  HostTensor param(const std::string& name, bool& may_write) const;
  /// Sets a parameter. Throws as set(), and for one that is shared.
  void write(const std::string& name, const View& values);
  const std::shared_ptr<SharedDevice>& device() const { return device_; }

 private:
  const ParamStore& store_of(const std::string& name) const;
  void compile_graph(const std::vector<BoundValue>& outputs, const SessionOptions& options);
  void add_params_of_plan(uint64_t seed);

  std::shared_ptr<BoundGraph> graph_;
  Sources sources_;
  bool train_;
  int64_t steps_ = 0;
  double lr_ = 0;
  bool lr_is_given_ = false;
  std::shared_ptr<SharedDevice> device_;
  std::vector<TensorType> types_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<ParamStore> own_;  // that of another session, where it shares
  std::unique_ptr<Session> session_;
};

}  // namespace toy::bind
