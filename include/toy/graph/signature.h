// An op's signature, written once as text and parsed once: it checks shapes, writes the error text and prints the docs.
//
//   rms_norm(x:[*,D], w:[D]) -> y:[*,D]
//   linear(x:[N,I], w:weight[O,I], bias?:[O], acc?:[N,O]) -> y:[N,O]
//   momentum(v!:[*], g:[*], gscale?:[]) -> v!:[*], step:[*]
//   concat(xs...:[...]) -> y:[...]
//
// Dimensions: a letter or word is bound at its first use; `*` is any number of leading dimensions; a number is itself;
// `@name` is the integer attribute `name`; `[...]` is left to the op's own rule. Operands: `?` optional (an input may
// be absent, an output exists only if it is used), `!` donated (the output of that name is the updated input and lies
// where it lies; it is never absent), `...` one or more. Dtypes: none written: the op's float dtype T, the same for
// all; `float`, `any`: free; `weight`: any float or quantized type; `f32`, `i32`: that one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/ops/attrs/attrs.h"

namespace toy {

/// Type of a value. `rows` names the run-time row count of dimension 0 (0: the size is fixed); shape[0] is then its
/// maximum.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  int rows = 0;

  int64_t count() const { return shape.count(); }
  size_t bytes() const { return bytes_of(dtype, shape); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
  /// "f32[256,576]", with run-time rows "f32[<=256,576]".
  std::string str() const;
};
/// Types of fixed size: f32({4, 3}), i32({4}); f32() is that of a scalar.
inline TensorType f32(const Shape& shape = {}) { return {DType::f32, shape, 0}; }
/// @copydoc f32
inline TensorType i32(const Shape& shape = {}) { return {DType::i32, shape, 0}; }

/// One dimension of an operand.
struct DimSpec {
  enum Kind { letter, star, number, attribute } kind = letter;
  std::string name;
  int64_t size = 0;
};

/// One operand as the signature states it.
struct OperandSpec {
  std::string name;
  bool optional = false, donated = false, variadic = false, free_shape = false;
  enum DTypes { same, any_float, weight, any, fixed } dtypes = same;
  DType dtype = DType::f32;  ///< of `fixed`
  std::vector<DimSpec> dims;
};

/// A parsed signature.
class Signature {
 public:
  /// Throws Error{failure} on a malformed text: a defect of the op's author, found when the op is first used.
  Signature(const char* text);  // NOLINT: implicit on purpose, so that an OpDef reads as data

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  const std::vector<OperandSpec>& inputs() const { return inputs_; }
  const std::vector<OperandSpec>& outputs() const { return outputs_; }
  int input_index(std::string_view name) const;   ///< -1 if there is none
  int output_index(std::string_view name) const;  ///< -1 if there is none
  /// For output `o`, the donated input that it updates, or -1.
  int donor_of(int o) const;
  /// The operand that input number i belongs to (variadic operands take several inputs).
  const OperandSpec& input_spec(size_t i) const;

  /// Checks the inputs (nullptr: absent) and returns the outputs' types; `[...]` outputs come back with rank 0 for the
  /// op's own rule to fill in. Throws Error{bad_input}: "rms_norm: w has D=7, x has D=8".
  std::vector<TensorType> infer(std::span<const TensorType* const> inputs, const Attrs& attrs) const;

 private:
  std::string text_, name_;
  std::vector<OperandSpec> inputs_, outputs_;
};

}  // namespace toy
