// Rows of texts and their classes: their data, their graph and its inputs.
#pragma once

#include <memory>
#include <span>

#include "toy/decode/pooling.h"
#include "toy/models/transformer.h"
#include "toy/train/trainer.h"
#include "train/dataset.h"

namespace toy {

/// Texts of options.examples and their labels, a row each, padded to as many places as the longest takes. Throws
/// Error{bad_input} as read_labelled() does, for less than two classes, and for one that only the validation has.
std::unique_ptr<Dataset> make_labelled_dataset(const DataOptions& options, const std::string& out, size_t memory,
                                               Teller& tell);

/// The loss sum_b weight_b ce_b of B rows of T places.
struct TextClassGraph {
  Value loss;
  Value logits;  ///< [B,K]
};
/// Inputs of build_pooled_texts(), `shares` [B,K] of classes, and `weight` [B T], of which that at the first place of
/// each row counts. `random`: see Transformer.
TextClassGraph build_text_classes(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                                  int64_t tokens, Value random, double dropout);
/// Sets these inputs.
void feed_text_classes(Session& session, const Windows& batch, int64_t tokens, Pooling pooling,
                       std::span<const float> weights);

}  // namespace toy
