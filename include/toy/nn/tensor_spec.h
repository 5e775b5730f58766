// A model's tensors, as the code that builds its layers declares them.
#pragma once

#include <map>
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
  bool adaptable = false;  ///< an adapter may change it: the weight of a linear map, of experts' maps, an embedding
  bool lookup = false;     ///< rows are looked up by token instead of multiplied with
  int adapter = -1;        ///< number of the adapter that it is a part of; -1: it is the model's own
  bool trained = true;     ///< does training change it?
  /// Does weight decay apply to it?
  bool decays() const { return shape.rank() >= 2 && (init == Init::matrix || init == Init::embedding); }
};

/// A change of some linear maps that is small in memory (LoRA, Hu et al. 2021): a map with the weight w [O,I] becomes
/// x w^T + s (x a^T) b^T, with a [R,I] and b [O,R]. Experts have an a and a b each.
struct AdapterSpec {
  /// Of one map.
  struct Map {
    int64_t rank = 0;  ///< R
    float scale = 1;   ///< s
    /// What becomes of the rows of w + s b a (DoRA, Liu et al. 2024). trained: their norms are m; fixed: each is
    /// multiplied by a factor.
    enum Magnitude { none, trained, fixed } magnitude = none;
    bool operator==(const Map&) const = default;
  };
  std::map<std::string, Map> maps;  ///< by name of the weight
  double dropout = 0;               ///< part of x that training zeroes on its way to a
  bool operator==(const AdapterSpec&) const = default;
};

/// Names of an adapter's tensors for a weight.
struct AdapterNames {
  std::string a, b;
  std::string m;       ///< [O] norms of rows, of Map::trained
  std::string square;  ///< [O] squares of the norms of w's own rows, which nothing changes, of Map::trained
  std::string factor;  ///< [O] of Map::fixed
  /// `adapter`: its number, from 0.
  AdapterNames(const std::string& weight, size_t adapter) {
    const std::string number = adapter > 0 ? "." + std::to_string(adapter) : "";
    a = weight + ".lora_a" + number, b = weight + ".lora_b" + number, m = weight + ".lora_m" + number;
    square = weight + ".lora_square" + number, factor = weight + ".lora_factor" + number;
  }
};

/// Shapes of a and b for a weight. A table [V,D] has a [V,R], of which rows are looked up, and b [D,R].
struct AdapterShapes {
  Shape a, b;
  AdapterShapes(const TensorSpec& weight, int64_t rank) : a(weight.shape), b(weight.shape) {
    if (weight.lookup) {
      a = {weight.shape[0], rank}, b = {weight.shape[1], rank};
      return;
    }
    a[a.rank() - 2] = b[b.rank() - 1] = rank;
  }
};

}  // namespace toy
