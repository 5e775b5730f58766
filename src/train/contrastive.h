// Rows of texts whose vectors are compared: their data, their graph and its inputs.
#pragma once

#include <memory>
#include <span>

#include "toy/models/transformer.h"
#include "toy/train/trainer.h"
#include "train/dataset.h"

namespace toy {

/// The texts of a row: anchor, positive, negative, of which the last one may be missing.
inline constexpr int64_t kTextsOfRow = 3;

/// Pairs of options.examples, a row each: its texts follow each other, each a sequence of its own, and padding comes
/// last. Rows have as many places as the longest takes. Throws Error{bad_input} as read_pairs() does.
std::unique_ptr<Dataset> make_pair_dataset(const DataOptions& options, const std::string& out, size_t memory,
                                           Teller& tell);

/// The loss sum_b weight_b nll_b of B rows of T places.
struct ContrastiveGraph {
  Value loss;
  Value vectors;  ///< [3B,D] of length 1: all anchors, all positives, all negatives; zeros where there is none
};
/// Inputs `tokens`, `sequence`, `position`, `until` [B T]; `pool` [3B,B T], what a place adds to a text; `bias`
/// [B,2B], which leaves out texts that are no wrong answers; `shares` [B,2B], the right answers; `weight` [B T], of
/// which that at the first place of each row counts. `random`: see Transformer.
ContrastiveGraph build_contrastive(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                                   int64_t tokens, Value random, double dropout, const ContrastiveOptions& options);
/// Sets these inputs.
void feed_contrastive(Session& session, const Windows& batch, int64_t tokens, const ContrastiveOptions& options,
                      std::span<const float> weights);

}  // namespace toy
