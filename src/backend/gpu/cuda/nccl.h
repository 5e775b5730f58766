// Ranks whose GPUs exchange what is in their memory, through NVIDIA's library NCCL.
#pragma once

#include <functional>
#include <memory>

#include "toy/base/communicator.h"

namespace toy::gpu {

/// The one queue of a GPU.
struct Queue {
  void* stream;                 ///< as NCCL knows it: a cudaStream_t
  std::function<void()> enter;  ///< makes the GPU the one that this thread works with
  std::function<bool()> idle;   ///< is all done that is queued? Throws Error for what went wrong in it
};

/// All ranks call it. broadcast(), exchange() and all_gather() take addresses of the GPU's memory and return when the
/// bytes are there; the rest is left to `ranks`. What a rank finds wrong is thrown on all of them, with its number and
/// host: Error{bad_input} where NCCL is missing or too old. Whatever NCCL finds wrong ends its use.
/// `seconds`: what `ranks` were told by give_up_after().
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& ranks, Queue queue, double seconds);

/// Not with TOY_NCCL=off.
bool nccl_is_wanted();

}  // namespace toy::gpu
