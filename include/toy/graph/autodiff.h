// Reverse-mode differentiation on the graph: it appends nodes, so backward is printed, planned and profiled like
// forward.
#pragma once

#include <span>
#include <vector>

#include "toy/graph/graph.h"

namespace toy {

/// The two ops that autodiff itself needs; src/ops binds them (toy::gradients in toy/ops/ops.h).
struct AutodiffOps {
  Value (*add)(Value, Value);
  Value (*zeros_like)(Value);
};

/// d(loss)/d(w) for each w, in order. `loss` is a scalar.
///
/// Contributions to one value are added in the order of their consumers' node ids, scattered ones (embedding) last, and
/// as soon as the last consumer has been differentiated, so a gradient can be used while backward still runs. A w that
/// the loss does not depend on gets zeros. Throws Error{bad_input} naming the op and the layer where an op has no
/// gradient.
///
/// `again` (by node id, or empty; see recompute.h): nodes whose results backward recomputes. Where it needs one, it
/// repeats the op just before, once, on operands that are kept or repeated in the same way.
std::vector<Value> backward(Value loss, std::span<const Value> wrt, const AutodiffOps& ops,
                            const std::vector<bool>& again = {});

/// The same where flows[i] flows into of[i], a value of any shape; there is at least one.
std::vector<Value> pull_back(std::span<const Value> of, std::span<const Value> flows, std::span<const Value> wrt,
                             const AutodiffOps& ops);

/// True for the constant 1: a gradient that need not be multiplied by.
bool is_one(Value v);

}  // namespace toy
