// Rows filled with whole documents.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "toy/data/corpus.h"

namespace toy {

/// A plan of rows of T places, made of whole documents, and the rows. A document of L tokens takes L - 1 places: an
/// input with the next token as its target at each. One of more than T + 1 tokens is cut into rows of T places and a
/// rest, each of them a sequence of its own; one of a single token has nothing to predict and is passed over.
///
/// Best fit, longest first (Ding et al. 2024, "Fewer truncations improve language modeling"), with a list of rows for
/// each number of free places: O(documents log T). Of equal documents the earlier comes first, and of equal rows the
/// one that was last filled so far takes it. Memory: about 32 bytes a document.
///
/// Answers of preference training are examples of which the two of a pair share a row.
class PackedRows final : public Rows, public ValidationRows {
 public:
  /// Which examples are answers: `pairs`: 2 k is chosen over 2 k + 1. `chosen`: of each example; empty: they are none.
  /// `first_id`: Answer::id of example 0, those of the others follow.
  struct Answers {
    std::span<const uint8_t> chosen = {};
    bool pairs = false;
    int64_t first_id = 0;
  };
  /// `begins`: first tokens of the documents in `ids`, ascending; the last one ends at `end`. Throws Error{bad_input}
  /// where no document has two tokens. `ids` must outlive the plan.
  PackedRows(TokenView ids, std::span<const uint64_t> begins, uint64_t end, int64_t tokens, uint64_t seed)
      : PackedRows(ids, begins, end, tokens, seed, {}) {}
  /// Examples with a mask of what they teach, one for each id. One of more than T + 1 tokens loses its end, and one
  /// that then has no target that counts is passed over. A pair that is too long together loses what the longer one has
  /// more than half a row; both are passed over where one has no target left.
  PackedRows(TokenView ids, std::span<const uint64_t> begins, uint64_t end, int64_t tokens, uint64_t seed,
             std::span<const uint8_t> trained)
      : PackedRows(ids, begins, end, tokens, seed, trained, Answers{}) {}
  /// @copydoc PackedRows
  PackedRows(TokenView ids, std::span<const uint64_t> begins, uint64_t end, int64_t tokens, uint64_t seed,
             std::span<const uint8_t> trained, const Answers& answers);

  int64_t rows() const override { return int64_t(row_begins_.size()) - 1; }
  /// Places that are filled, of rows() * T.
  int64_t targets() const { return targets_; }
  /// Of them, those whose target counts in the loss.
  int64_t counted() const { return counted_; }
  /// Calls `f` with the place in `ids` of each target that counts in the loss; of preferences, those of chosen answers.
  void each_counted(const std::function<void(int64_t place)>& f) const;
  /// Documents that are longer than a row, and those that are passed over.
  int64_t cut() const { return cut_; }
  int64_t passed_over() const { return passed_over_; }
  /// In an order that follows from (seed, epoch).
  Windows windows(int64_t first, int64_t count) const override;
  /// Rows [first, first + count) of the plan itself.
  Windows rows(int64_t first, int64_t count) const;
  int64_t rows_for(int64_t max_tokens) const override;
  /// All in the order of the plan, longest documents first; a part in that of training, from everywhere.
  Windows validation(int64_t first, int64_t count, int64_t max_tokens) const override;

 private:
  // `id` and `chosen`: of an answer.
  struct Part {
    uint64_t begin;
    int32_t inputs;
    bool chosen = false;
    int64_t id = -1;
  };
  std::vector<Part> parts_of(std::span<const uint64_t> begins, uint64_t end, const Answers& answers);
  void add_row(int64_t row, int64_t sequence, Windows& out) const;

  TokenView ids_;
  std::span<const uint8_t> trained_;
  int64_t tokens_, targets_ = 0, counted_ = 0, cut_ = 0, passed_over_ = 0;
  uint64_t seed_;
  std::vector<Part> parts_;          // by row
  std::vector<int64_t> row_begins_;  // [rows + 1], in parts_
};

}  // namespace toy
