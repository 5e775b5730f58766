// Products in bf16 by NVIDIA's library cuBLASLt, which uses tensor cores. It is loaded where it is found; without it,
// toy's own kernels compute the same products.
#pragma once

#include <memory>
#include <string>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// For one queue of a GPU. The same product at the same addresses has the same bits on every run.
class Multiplier {
 public:
  virtual ~Multiplier() = default;
  /// The library, its version, and what else decides the bits: "cuBLASLt 13.1.0, 132 SMs".
  virtual std::string title() const = 0;
  /// Chooses how a product is computed, once for its shape and the alignment of its operands. Throws Error{failure}.
  virtual void plan(const LibraryProduct& product) = 0;
  /// Queues it in a CUstream, without waiting.
  virtual void queue(const LibraryProduct& product, void* stream) = 0;
};

/// Not with TOY_CUBLASLT=off.
bool cublaslt_is_wanted();
/// Loads it, once, where it is wanted.
bool cublaslt_is_there();
/// Where it is there. `multiprocessors`: the GPU's.
std::unique_ptr<Multiplier> make_multiplier(int multiprocessors);

}  // namespace toy::gpu
