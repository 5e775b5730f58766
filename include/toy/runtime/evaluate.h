// Evaluates and prints a value immediately, for learning and debugging:
//
//   Graph g;
//   const Value x = g.constant({DType::f32, {3}, 0}, {1, 2, 3});
//   print(softmax(x));
//
//   softmax f32[3]
//   [0.090031  0.24473  0.66524]
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "toy/runtime/session.h"

namespace toy {

/// Values of inputs (and of parameters that no store holds) by name, row-major.
using Feeds = std::map<std::string, std::variant<std::vector<float>, std::vector<int32_t>>>;

/// What a value is computed from, and where.
struct EvaluateOptions {
  /// Inputs with run-time rows take as many rows as they are given; all that share a row count must agree.
  Feeds feeds = {};
  /// Where parameters come from, first store first; they are copied, evaluating changes nothing.
  std::vector<const ParamStore*> stores = {};
  Device* device = nullptr;  ///< nullptr: the reference, which computes in f64
};

/// What a value is, and its elements.
struct Evaluated {
  std::string what;  ///< op and layer ("blk.0: rms_norm"), or the name of an input, parameter or named value
  TensorType type;   ///< with the actual number of rows
  std::vector<double> values;
};

/// Computes `v` and all that it needs. Throws Error{bad_input} naming an input or parameter that has no values, and a
/// feed that the graph does not know or that has the wrong number or kind of values.
Evaluated evaluate(Value v, const EvaluateOptions& options = {});

/// How a tensor is printed.
struct PrintOptions {
  int digits = 5;       ///< significant ones
  int64_t limit = 200;  ///< a tensor of more elements is cut in the middle of its long dimensions
  int edge = 3;         ///< elements shown on each side of a cut
  int width = 100;      ///< columns; longer rows wrap
};

/// "softmax f32[2,3]", then the elements in nested brackets, outermost dimension first.
std::string to_text(const Evaluated& e, const PrintOptions& options = {});
/// evaluate() and to_text() on stdout.
void print(Value v, const EvaluateOptions& options = {});

}  // namespace toy
