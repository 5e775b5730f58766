// A tensor that is written from parts of others, in bounded memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/tensor/shape.h"

namespace toy::hf {

/// Rows that follow each other in a tensor of a folder.
struct Run {
  int64_t first, rows;
};

/// Rows of a matrix (or elements of a vector, as rows of one), maybe in another order.
struct Piece {
  /// Rows of MXFP4 as Hugging Face packs them, `groups` of 32 elements each: 16 bytes a group in `blocks`, the exponent
  /// in `scales`. Row r is the one of number r times `step`.
  struct Packed {
    const std::byte *blocks, *scales;
    int64_t rows, groups, step;
  };
  enum Order {
    as_is,
    pairs,   ///< of each head, from halves to neighbours: row 2i+b is row b P/2 + i of what is read
    halves,  ///< the other way
  };
  /// What becomes of an element x. minus_exp: -exp(x), as a GGUF holds rates of decay; log_minus: log(-x), the way
  /// back.
  enum Function { identity, minus_exp, log_minus };
  /// Columns as a matrix of `groups` rows, each of whole heads of this width: it is transposed. 0: they stay.
  struct Columns {
    int64_t groups = 0, width = 1;
  };
  View rows;                          ///< [R,C], strides as they are; contiguous if quantized
  std::optional<Packed> packed = {};  ///< instead of `rows`
  Order order = as_is;
  int64_t heads = 1;
  int64_t turned = 0;  ///< so many rows of a head are in another order, the first ones; 0: all
  Columns columns = {};
  bool transposed = false;  ///< columns are written as rows
  Function function = identity;
  float scale = 1, add = 0;  ///< of every element
};

/// Rows of a matrix or of a vector.
View rows_of(const View& tensor, int64_t first, int64_t count);
/// Every `step`-th row.
View every(View rows, int64_t step);
/// Columns of a matrix as rows.
View columns_of(const View& tensor, int64_t first, int64_t count);

/// One tensor of the file to write: the rows of all pieces.
struct Output {
  std::string name;
  Shape shape;
  DType stored = DType::f32;
  std::vector<Piece> pieces;
  /// Above 0: this many pieces of the same shape are columns of one matrix, in turns: column i n + k is row i of piece
  /// k.
  int64_t as_columns = 0;

  /// Hands over its bytes. Throws Error{bad_input} naming the tensor for an element that Piece::function does not take.
  void stream(const gguf::Writer::Sink& sink) const;
};

}  // namespace toy::hf
