// A model that begins with the weights of another one, of another width or depth.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "toy/models/model.h"

namespace toy {

/// The tensor of `donor` that one of `spec` begins with, and what becomes of it.
struct Origin {
  std::string tensor = {};                         ///< its name; "": none
  enum How { copied, fitted, fresh } how = fresh;  ///< fitted: cut or repeated in each dimension
  std::string reason = {};                         ///< why it is fresh
};
/// Where a tensor's first values come from. Block i begins as block i mod L of the donor's L. Tensors of the same shape
/// are copied. Others of attention, ffns and norms are cut or repeated: element i of a dimension is element i mod n of
/// the donor's n; heads are cut and repeated as wholes, and so are the elements of a head by the pairs that turn.
/// Tensors that the donor lacks, and those of other kinds of mixers, ffns or recurrent layers, begin fresh.
Origin origin_of(const TensorSpec& tensor, const ModelSpec& spec, const ModelSpec& donor);
/// The donor's values of origin_of(), fitted. A matrix of C columns that had C' is multiplied by sqrt(C'/C), which
/// keeps the size of what it returns.
std::vector<float> values_from(const Origin& origin, const TensorSpec& tensor, const ModelSpec& spec,
                               const Model& donor);

/// Rows of the token embedding of a model with a lens, from row `first` on, as save_model() stores them in f32: `out`
/// is [n,D]. `lens`: [D,E].
void folded_rows(const Model& model, std::span<const float> lens, int64_t first, std::span<float> out,
                 ThreadPool& threads);
/// Bytes that folded_rows() takes in calls with kFoldedRows rows, beside the model.
size_t folding_bytes(const ModelSpec& spec, int threads);
inline constexpr int64_t kFoldedRows = 1024;

}  // namespace toy
