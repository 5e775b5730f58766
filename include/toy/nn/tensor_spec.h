// A model's tensors, as the code that builds its layers declares them.
#pragma once

#include <map>
#include <string>

#include "toy/tensor/shape.h"

namespace toy {

class Philox;

/// What a tensor belongs to, for reports and for rules that depend on it.
enum class ModelPart { embedding, positions, attention, recurrent, ffn, norm, output };

/// One tensor: what a model needs of it, and how it begins and is stored.
struct TensorSpec {
  enum class Init { matrix, embedding, ones, zeros, constant, own } init = Init::matrix;  ///< see random_model()
  std::string name;
  Shape shape;
  std::string file_name = {};       ///< the file's tensor that holds it, after those declared before; "": its own name
  bool narrow = shape.rank() >= 2;  ///< a file may hold it in fewer than 32 bits
  ModelPart part = ModelPart::output;
  float value = 0;  ///< of Init::constant
  /// Element i of Init::own. `scale`: of random_model().
  double (*own)(const Shape& shape, const Philox& random, int64_t i, double scale) = nullptr;
  int block = -1;  ///< number of the block that it is in, -1: none
  /// Blocks between it and the logits, with its own: 0 of output and final norm, 1 of the last block. Embeddings count
  /// one more than there are blocks.
  int depth = 0;
  /// minus_exp: a file holds -exp(w) of a value w. What is read from there and written again may differ by a rounding.
  enum class InFile { same, minus_exp } in_file = InFile::same;
  bool adaptable = false;  ///< an adapter may change it: the weight of a linear map, of experts' maps, or embeddings
  int adapter = -1;        ///< number of the adapter that it is a part of; -1: it is the model's own
  bool trained = true;     ///< does training change it?
  /// Does weight decay apply to it?
  bool decays() const { return shape.rank() >= 2 && (init == Init::matrix || init == Init::embedding); }
};

/// A change of some linear maps that is small in memory (LoRA, Hu et al. 2021): a map with the weight w [O,I] becomes
/// x w^T + s (x a^T) b^T, with a [R,I] and b [O,R]. Experts have an a and a b each. Embeddings w [V,D] become
/// w + s a b^T, with a [V,R] and b [D,R]. The output of a tied model has an adapter of its own, named output.weight.
struct AdapterSpec {
  /// Does a map also have magnitudes m [O] (DoRA, Liu et al. 2024)? Then its weight is m v / |v|, row by row, with
  /// v = w + s b a. Each row's |v| is computed in every step, or, where b and a stay as they are, once.
  enum class Magnitude { none, trained, constant };
  /// Of one map.
  struct Map {
    int64_t rank = 0;  ///< R
    float scale = 1;   ///< s
    Magnitude magnitude = Magnitude::none;
    /// Is s b a as training began subtracted (PiSSA, Meng et al. 2024)? Then a and b begin as the principal part of w,
    /// and the weight w - s b0 a0 + s b a as w.
    bool principal = false;
    bool operator==(const Map&) const = default;
  };
  std::map<std::string, Map> maps;  ///< by name of the weight
  double dropout = 0;               ///< part of x that training zeroes on its way to a
  bool head = false;               ///< the model's ScoreHead is the adapter's: its file has it, and the model's has not
  std::string chat_template = {};  ///< that it was trained with instead of the model's; "": none
  bool operator==(const AdapterSpec&) const = default;
};

/// Names of an adapter's tensors for a weight: a, b, and with magnitudes m and norms n: |w|^2 of each row, or |v| if it
/// is constant. a0 and b0 are the first a and b of a map that begins as a principal part.
struct AdapterNames {
  std::string a, b, m, n, a0, b0;
  /// `adapter`: its number, from 0.
  AdapterNames(const std::string& weight, size_t adapter) {
    const std::string number = adapter > 0 ? "." + std::to_string(adapter) : "";
    a = weight + ".lora_a" + number, b = weight + ".lora_b" + number;
    m = weight + ".lora_m" + number, n = weight + ".lora_n" + number;
    a0 = weight + ".lora_a0" + number, b0 = weight + ".lora_b0" + number;
  }
};

}  // namespace toy
