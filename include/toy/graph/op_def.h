// What an op is: one OpDef, written in one file.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "toy/graph/graph.h"

namespace toy {

/// Work of one call, for `describe`, `bench` and the profiler.
struct Cost {
  double flops = 0;            ///< multiplications and additions
  double bytes = 0;            ///< read and written, each operand once
  double transcendentals = 0;  ///< exp, log, sin, ...

  Cost& operator+=(const Cost& o) {
    flops += o.flops;
    bytes += o.bytes;
    transcendentals += o.transcendentals;
    return *this;
  }
};

/// Operand types of one call. Absent inputs are nullptr.
struct TypeQuery {
  std::span<const TensorType* const> in;
  const Attrs& attrs;
  std::string_view op;  ///< its name, for error texts of a rule that several ops share
};
/// The operands' types and the results'.
struct CostQuery {
  std::span<const TensorType* const> in;
  std::span<const TensorType> out;
  const Attrs& attrs;
};

/// Where an op's vjp finds its operands and leaves its gradients.
class Vjp {
 public:
  virtual ~Vjp() = default;
  virtual Graph& graph() = 0;
  virtual const Attrs& attrs() const = 0;
  virtual Value in(int i) const = 0;    ///< input i (empty if absent)
  virtual Value out(int o) const = 0;   ///< output o of the node itself, to reuse what forward computed
  virtual Value grad(int o) const = 0;  ///< gradient of output o; empty if none flows
  virtual bool needs(int i) const = 0;  ///< is the gradient of input i wanted?
  virtual int inputs() const = 0;
  /// Contributes a gradient to input i.
  virtual void give(int i, Value gradient) = 0;
  /// The same for ops that can add into what is there: f(acc) returns acc + contribution (acc may be empty).
  /// `last`: scattered contributions come after all dense ones.
  virtual void give(int i, std::function<Value(Value acc)> accumulate, bool last = false) = 0;
};

/// One op. A function on values builds its nodes; src/ops/op_list.def lists all of them.
struct OpDef {
  Signature signature;
  /// Fills in what the signature leaves open; gets the signature's result and may throw with the op's name as a prefix.
  void (*infer)(const TypeQuery&, std::vector<TensorType>& out) = nullptr;
  /// Gradients in graph ops. nullptr: the op has no gradient, and autodiff says so.
  void (*vjp)(Vjp&) = nullptr;
  /// nullptr: bytes of the operands, one flop per output element.
  Cost (*cost)(const CostQuery&) = nullptr;
  /// The meaning in simpler ops: one value per output. A backend without a kernel for the op runs this.
  std::vector<Value> (*decompose)(Graph&, std::span<const Value> in, const Attrs&) = nullptr;
  /// Ops that only look at memory differently: the output's view of input 0, or nothing if strides cannot say it.
  std::optional<View> (*view)(const View& in, const Attrs&) = nullptr;

  const std::string& name() const { return signature.name(); }
  /// Does it write over an operand (one that is donated)?
  bool updates_in_place() const {
    for (const OperandSpec& s : signature.inputs())
      if (s.donated) return true;
    return false;
  }
  /// What `cost` says, or its default.
  Cost cost_of(const CostQuery& q) const;
};

}  // namespace toy
