// A plan: what a device does in one run, decided once. Schedule, kernels, in-place decisions, offsets in one arena,
// workspaces, and so the peak memory, are known before anything runs.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/backend/device.h"
#include "toy/graph/op_def.h"

namespace toy {

/// Where the bytes of an operand are: a base (arena, parameter, input, constant, repacked copy) and a strided view from
/// its begin.
struct Operand {
  enum Base { absent, arena, param, input, constant, repacked } base = absent;
  int index = 0;      ///< which parameter, input, constant or copy
  size_t offset = 0;  ///< bytes from the base
  View view;          ///< largest shape and strides; data is null
  int rows = 0;       ///< run-time row count of dimension 0
};

/// One call of a kernel.
struct PlanStep {
  const KernelRecord* kernel = nullptr;
  Attrs attrs;
  std::vector<Operand> in, out;
  size_t workspace_offset = 0, workspace_bytes = 0;
  int prepared_by = -1;  ///< the earlier step whose workspace it uses (KernelRecord::prepares); -1: none
  std::string op;
  Layer layer;
  Phase phase = Phase::forward;
  Cost cost;
};

/// A leaf of the graph that a session binds to memory.
struct PlanLeaf {
  std::string name;
  TensorType type;
  int64_t index_bound = 0;
  std::shared_ptr<const std::vector<double>> constant;
  bool updated = false;  ///< a parameter that the plan writes
  size_t offset = 0;     ///< of an input, in the memory of all inputs
};

/// A parameter of which a session keeps a copy in a kernel's order, made when the session is created.
struct RepackedParam {
  int param = 0;
  const Repacking* how = nullptr;
  size_t offset = 0, bytes = 0;  ///< in the memory of all copies
};

/// How a graph is compiled.
struct PlanOptions {
  bool strict = false;  ///< an op that the device has no kernel for is an error instead of running its decomposition
  int threads = 0;      ///< 0: the device's
  /// bf16: dense products round their operands to it and sum in f32, where the device has kernels for that. Where these
  /// also take operands in bf16, rounding is a step of its own, once for all products that read a value. q8_0:
  /// products with quantized weights round the rows of the other operand to blocks of 8 bits; else they are exact.
  DType products = DType::f32;
  /// Kernels may read parameters that the plan does not update from copies in an order of their own: faster, with the
  /// same bits, for Plan::repacked_bytes() more memory.
  bool repack = false;
  /// Memory is short: parameters are rounded again for backward instead of keeping their copies, and what could lie
  /// where an operand lay is not written in bf16.
  bool round_again = false;
  bool fuse = true;  ///< chains of elementwise ops become one step, with the same bits
};

/// What compile() returns; it is only read afterwards.
class Plan {
 public:
  std::vector<PlanStep> steps;
  std::vector<PlanLeaf> params, inputs, constants;
  std::vector<std::string> unused_inputs;  ///< of the graph: no step needs them, so feeding them does nothing
  std::vector<Operand> outputs;            ///< in the order asked for
  std::vector<Graph::Rows> rows;
  size_t arena_bytes = 0;
  size_t fed_bytes = 0;  ///< memory of all inputs, which a session uploads in one piece
  std::vector<RepackedParam> repacked;
  std::vector<std::string> notes;  ///< what was decomposed, which copies were inserted

  /// Bytes of the parameters, or of the inputs, as the device stores them.
  size_t param_bytes(const Device& device) const;
  /// @copydoc param_bytes
  size_t input_bytes(const Device& device) const;
  /// Bytes of all repacked copies.
  size_t repacked_bytes() const { return repacked.empty() ? 0 : repacked.back().offset + repacked.back().bytes; }
  Cost cost() const;
};

/// Compiles the part of `graph` that `outputs` and `updates` need. `outputs` can be read by the host after a run;
/// `updates` are new values of parameters (what donated operands become). Throws Error{bad_input} for what the device
/// cannot do, for updates that are not linear or would not arrive in a parameter (of a temporary, of a strided view),
/// and for an output that lies in a parameter which the plan updates.
Plan compile(const Graph& graph, std::span<const Value> outputs, std::span<const Value> updates, Device& device,
             const PlanOptions& options = {});

/// Steps with operands, bytes and offsets, for `describe`.
std::string to_text(const Plan& plan);
/// {"steps": [{"op", "layer", "backward", "in", "out", "workspace_bytes", "prepared_by", "cost"}], "arena_bytes",
/// "notes"}
nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace toy
