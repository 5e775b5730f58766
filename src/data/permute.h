// Orders without tables.
#pragma once

#include "toy/base/philox.h"

namespace toy {

/// A keyed permutation of [0, n): a Feistel network on the next even number of bits, walked along its cycle until it
/// lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, method 2). At most 4 n values
/// lie outside n's, so a walk has fewer than 4 steps on average, and no table is needed however long the text is.
uint64_t permute(uint64_t index, uint64_t n, uint64_t key, uint64_t stream);

}  // namespace toy
