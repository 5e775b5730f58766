// How folders hold the tensors of a model: one datum for each tensor, which both directions and adapters follow.
#pragma once

#include <map>
#include <string>

#include "hf/models.h"
#include "hf/pieces.h"

namespace toy::hf {

/// A tensor of a model is matrices [R,C], one for each expert or head; a vector is a matrix of one column. In the
/// folder each is rows of a matrix [all_rows,C], which may have rows of other tensors as well.
struct Layout {
  std::string name;  ///< of the folder's tensor. With `*`, the number of a matrix, each has a tensor of its own
  Shape shape = {};  ///< of the folder's tensor
  int64_t matrices = 1, all_rows = 0;
  Order rows = {}, columns = {};  ///< of each of a matrix's R rows and C columns, which one of the folder's it is
  bool transposed = false;        ///< the folder has [C,all_rows]
  bool turned = false;            ///< the model has [C,R]
  Change change = {};             ///< of the folder's elements into those of a GGUF

  /// The folder's tensor of one of the matrices.
  std::string name_of(int64_t matrix) const;
  /// Where the folder's tensor has this matrix: how many elements are before it.
  int64_t first_element(int64_t matrix) const;
  /// The inverse of `rows`: those of the matrix that are at a row of the folder's and at those after it.
  std::map<int64_t, Order> rows_in_folder() const;
  /// The inverse of `columns`.
  Order columns_in_folder() const;
};

/// Those of a model's tensors.
class Layouts {
 public:
  /// `q_scale`: see Reading.
  Layouts(const HfModel& model, const ModelSpec& spec, float q_scale = 1);
  Layout of(const TensorSpec& tensor) const;

 private:
  std::vector<int64_t> rows_of(const TensorSpec& tensor, int64_t rows, int64_t all_rows) const;
  Change change_of(const TensorSpec& tensor) const;

  const HfModel& model_;
  const ModelSpec& spec_;
  float q_scale_;
  std::map<std::string, int64_t> all_rows_;  ///< by the folder's name
  std::map<std::string, int64_t> first_;     ///< row, by the model's name
};

/// Numbers from `first` on.
Order numbers(int64_t first, int64_t count, int64_t step = 1);

}  // namespace toy::hf
