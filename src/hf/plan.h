// Which tensors of the one side make those of the other.
#pragma once

#include <optional>
#include <vector>

#include "hf/pieces.h"
#include "hf/shards.h"

namespace toy::hf {

/// The tensors of a GGUF. `stored`: the type of matrices, none: as in the folder. Throws for tensors that are missing,
/// unknown or of another shape.
std::vector<Output> plan_gguf(const HfModel& model, const Reading& reading, Shards& shards,
                              std::optional<DType> stored);

/// The tensors of a folder, all of type `stored`.
std::vector<Output> plan_folder(const HfModel& model, const ModelSpec& spec, const gguf::File& file, DType stored);

}  // namespace toy::hf
