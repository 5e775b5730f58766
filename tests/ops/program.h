// Graphs of a test case, compiled and run, and how much their results move when every value in them is
// rounded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/operands.h"
#include "toy/graph/op_def.h"
#include "toy/runtime/session.h"

namespace toy::test {

Device& reference_device();
/// One device for each number of threads, made when it is first asked for.
Device& cpu_device(int threads = 1);

/// The kernels of GPUs, one device for each order of the work-items.
const std::vector<Device*>& emulated_devices();

/// Row-major values of each output.
using Results = std::vector<std::vector<double>>;

/// Values of parameters by name.
using Feed = std::map<std::string, std::vector<double>>;

/// A graph under construction, with what a test wants to read from it.
struct Built {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Value> leaves;    ///< one parameter an operand, as stored; empty where absent
  std::vector<Value> operands;  ///< the same as the op sees them
  std::vector<Value> outputs;
  Feed feed;
};

/// Parameters for the operands. Those named in `rows` get the run-time row count "N" with their size as its
/// maximum.
Built build_operands(const std::vector<OperandData>& operands, const std::vector<std::string>& rows = {});
/// The op on them, all outputs asked for.
Built build_op(const OpDef& op, const std::vector<OperandData>& operands, const Attrs& attrs,
               const std::vector<std::string>& rows = {});
/// Adds sum_o sum_i out_oi R_oi with random R, and asks for its gradients with respect to `wrt` (leaves)
/// instead of the outputs. The first output becomes the loss itself.
void ask_for_gradients(Built& b, const std::vector<int>& loss_outputs, const std::vector<Value>& wrt);

/// A compiled graph with its parameters in memory.
class Program {
 public:
  Program(const Built& built, Device& device, const PlanOptions& options = {});
  /// Writes the parameters (updates change them) and runs.
  Results run();
  Results run(const Feed& feed);
  void set_rows(int64_t n) { session_->set_rows("N", n); }
  ParamStore& store() { return store_; }
  Session& session() { return *session_; }

 private:
  const Built& built_;
  ParamStore store_;
  std::unique_ptr<Session> session_;
};

/// sqrt(sum_k (d y_j / d e_k)^2) for each output element j, where each element k of each parameter and of
/// each value that is computed on the way is multiplied by 1 + e_k: what independent relative errors of size
/// 1 everywhere add up to, to first order. On the way: in fused ops, and in their decompositions; the larger
/// counts. Estimated with random e_k on the reference device.
Results sensitivity(const Built& built);

/// The largest dimension of any value in the graph: no single reduction is longer.
int64_t longest_reduction(const Graph& graph);

}  // namespace toy::test
