// Classifiers of pictures: from pixels to the logits of classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/models/transformer.h"

namespace toy {

/// Throws Error{bad_input} for a model that does not classify pictures.
void require_vision(const ModelSpec& spec);

/// Appends the rows [VisionSpec::rows(), values()] of a picture, values of 0 to 255 in the order row, column, channel;
/// those of a class token and a distillation token are zeros.
void append_patches(const VisionSpec& vision, std::span<const float> picture, std::vector<float>& rows);

/// The logits of `images` pictures as a graph.
struct VisionGraph {
  Value pixels;                     ///< f32[N,C P P] input: the rows of all pictures
  Value sequence, position, until;  ///< i32[N] inputs: which picture, which of its rows, how many it has
  Value logits;                     ///< [images,K]
  int64_t rows;                     ///< of a picture
};
/// Adds it to a graph. `random`: i32[3] of dropout with probability `dropout`, or absent.
VisionGraph build_vision(Graph& graph, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t images,
                         Value random = {}, double dropout = 0);
/// Cross-entropy with shares of classes, in nats: sum_k q_k (log sum exp z - z_k). logits z, shares q: [B,K], whose
/// rows sum up to 1 -> [B,1].
Value soft_cross_entropy(Value logits, Value shares);
/// What the inputs `sequence`, `position` and `until` are, which do not depend on the pictures.
struct VisionRows {
  std::vector<int32_t> sequence, position, until;
  /// Of that many pictures.
  VisionRows(int64_t images, int64_t rows);
};

}  // namespace toy
