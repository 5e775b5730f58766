// Training of embeddings: texts that belong together get vectors that point the same way. docs/embeddings.md.
#pragma once

#include "toy/base/options.h"
#include "toy/decode/pooling.h"

namespace toy {

/// The loss InfoNCE (van den Oord et al. 2018): -log of the softmax of an anchor's positive among all positives and
/// negatives of a pass forward, by cosine / temperature. A pass has the rows that are computed together: a batch, or
/// its part in a shard. A text that equals the anchor, or is the positive of an equal anchor in any row, is no wrong
/// answer to it, and is left out.
struct ContrastiveOptions {
  double temperature = 0.05;
  Pooling pooling = Pooling::mean;  ///< mean, last or first
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"temperature", "Cosines are divided by it: smaller pushes harder at near misses", at_least(1e-4), "Pairs"},
      o.temperature);
  }
};

}  // namespace toy
