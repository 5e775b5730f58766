// Tokens that are hidden from a model which learns to fill them in (Devlin et al. 2018).
#pragma once

#include <cstdint>
#include <memory>

#include "toy/base/options.h"
#include "toy/data/corpus.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// Which are.
struct MaskOptions {
  double fraction = 0.15;  ///< of the tokens of a row
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"mask_fraction", "Fraction of tokens to hide, of an encoder that learns from masks", from_to(0.01, 0.9),
       "Model"},
      o.fraction);
  }
};

/// What rows are made with.
struct MaskTokens {
  int32_t mask = 0;
  int32_t first = -1, last = -1;  ///< around a row; -1: none
  int32_t vocab = 0;
  int64_t around() const { return int64_t(first >= 0) + int64_t(last >= 0); }
};
/// Those of a tokenizer: the one called "[MASK]" or "&lt;mask&gt;", and what it begins and ends texts with. Throws
/// Error{bad_input} where it has no mask.
MaskTokens mask_tokens(const Tokenizer& tokenizer);

/// A row of T places of T - around() ids: in each, the tokens hidden are at least one, and follow from (seed, row)
/// alone. Of 10, 8 are replaced by the mask, 1 by a random token, and 1 stays. Only they have targets, which are
/// themselves. Appends the row to `out`.
void append_masked(std::span<const int32_t> ids, const MaskTokens& tokens, const MaskOptions& options, uint64_t seed,
                   int64_t row, int64_t places, Windows& out);

}  // namespace toy
