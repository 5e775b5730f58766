// A model's tensors, as the code that builds its layers declares them.
#pragma once

#include <string>

#include "toy/tensor/shape.h"

namespace toy {

/// What a tensor belongs to, for reports and for rules that depend on it.
enum class ModelPart { embedding, positions, attention, recurrent, ffn, norm, output };

/// One tensor: what a model needs of it, and how it begins and is stored.
struct TensorSpec {
  enum class Init {
    matrix,
    embedding,
    ones,
    zeros,
    constant,
    log_rate,
    step_bias,
    fading
  } init = Init::matrix;  ///< see random_model()
  std::string name;
  Shape shape;
  std::string file_name = {};       ///< the file's tensor that holds it, after those declared before; "": its own name
  bool narrow = shape.rank() >= 2;  ///< a file may hold it in fewer than 32 bits
  ModelPart part = ModelPart::output;
  float value = 0;  ///< of Init::constant
  int block = -1;   ///< number of the block that it is in, -1: none
  /// minus_exp: a file holds -exp(w) of a value w. What is read from there and written again may differ by a rounding.
  enum class InFile { same, minus_exp } in_file = InFile::same;
  /// Does weight decay apply to it?
  bool decays() const { return shape.rank() >= 2 && (init == Init::matrix || init == Init::embedding); }
};

}  // namespace toy
