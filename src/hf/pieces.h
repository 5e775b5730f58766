// A tensor that is written from parts of others, in bounded memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/tensor/shape.h"

namespace toy::hf {

/// What becomes of an element x: f(x) scale + add.
struct Change {
  /// minus_exp: -exp(x), as a GGUF holds rates of decay; log_minus: log(-x), the way back.
  enum Function { identity, minus_exp, log_minus } function = identity;
  float scale = 1, add = 0;

  bool is_none() const { return function == identity && scale == 1 && add == 0; }
  /// The way back of one that is a function, or linear.
  Change inverse() const;
};

/// Numbers of rows or columns.
using Order = std::shared_ptr<const std::vector<int64_t>>;

/// Rows of a matrix (or elements of a vector, as rows of one column), with their columns in this order.
struct Rows {
  View matrix;  ///< [R,C], strides as they are; contiguous if quantized
  Order rows, columns;
  Change change = {};
};

/// Columns of matrices [R,C] as C rows of this width, together: `at` says of each of a matrix's rows which element of
/// the new ones it becomes. In memory as a whole.
struct Columns {
  struct Source {
    View matrix;
    Order at;
  };
  int64_t width = 0;
  std::vector<Source> sources = {};
};

/// Rows of MXFP4 as Hugging Face packs them, `groups` of 32 elements each: 16 bytes a group in `blocks`, the exponent
/// in `scales`.
struct PackedRows {
  const std::byte *blocks, *scales;
  int64_t groups;
  Order rows;
};

/// One tensor of the file to write.
struct Output {
  std::string name;
  Shape shape;
  DType stored = DType::f32;
  std::map<int64_t, std::variant<Rows, Columns, PackedRows>> parts = {};  ///< by the first of their rows

  /// Hands over its bytes. Throws Error{bad_input} naming the tensor for an element that Change::function does not
  /// take.
  void stream(const gguf::Writer::Sink& sink) const;
};

}  // namespace toy::hf
