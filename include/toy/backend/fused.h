// Ops that run as one, so intermediate results never leave the cache. The planner makes them if the device has a kernel
// for them.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "toy/backend/kernel.h"

namespace toy {

/// Elementwise ops: a small program that a device interprets block by block.
inline constexpr std::string_view kFusedElementwise = "fused_elementwise";

/// linear_grad_w(dy, x) and the adamw that is its only user: `(w!, g?, m!, v!, lr, bias1, bias2, gscale?, dy, x) -> w!,
/// m!, v!` with AdamWAttrs, g being absent.
inline constexpr std::string_view kLinearGradWAdamW = "linear_grad_w_adamw";

/// One op of a fused program.
struct FusedStep {
  int function = -1;  ///< KernelRecord::elementwise of the op's own kernel
  Attrs attrs;
  std::vector<int> in;  ///< i >= 0: input i of the program; i < 0: slot ~i
  int out = -1;         ///< a slot; -1: the program's output, in the last step
};

/// Attributes of `fused_elementwise(xs...) -> y`. Each step's result has the shape of y, the inputs broadcast
/// to it as numpy's do.
struct FusedAttrs {
  /// Limits of every program, so a kernel needs only its workspace.
  static constexpr size_t kMaxSteps = 16, kMaxInputs = 8, kMaxOperands = 3;

  std::vector<FusedStep> steps;
  int slots = 0;        ///< intermediate results alive at the same time
  std::string ops;      ///< "mul, add, sigmoid"
  std::string program;  ///< "s0 = mul(x0, x1); y = sigmoid(s0)": tells programs apart
  double flops = 0, transcendentals = 0;
  static constexpr auto fields() { return std::tuple(field("program", &FusedAttrs::program)); }
};

}  // namespace toy
