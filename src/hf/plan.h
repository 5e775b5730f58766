// Which tensors of the one side make those of the other.
#pragma once

#include <vector>

#include "hf/pieces.h"
#include "hf/shards.h"

namespace toy::hf {

/// The tensors of a GGUF. `stored`: the type of matrices, none: as in the folder. Throws for tensors that are missing,
/// unknown or of another shape.
std::vector<Output> plan_gguf(const HfModel& model, const Reading& reading, Shards& shards,
                              std::optional<DType> stored);

/// Where rows and columns of a weight [R,C] are in a folder's tensor of linear maps, which has [all_rows,C].
struct MapPlace {
  std::string name;  ///< of the folder's tensor
  std::vector<int64_t> rows, columns;
  int64_t all_rows = 0;
};
MapPlace place_of_map(const HfModel& model, const ModelSpec& spec, const TensorSpec& tensor);

/// The tensors of a folder, all of type `stored`.
std::vector<Output> plan_folder(const HfModel& model, const ModelSpec& spec, const gguf::File& file, DType stored);

}  // namespace toy::hf
