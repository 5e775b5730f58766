// What a training needs in memory, known before anything runs, and how it is made to need less.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "toy/base/memory.h"
#include "toy/train/trainer.h"

namespace toy {

/// What a training holds at its peak, in bytes.
struct TrainMemory {
  size_t weights = 0;      ///< without what stays in a mapped file
  size_t moments = 0;      ///< what the optimizer keeps from step to step
  size_t gradients = 0;    ///< of weights: those that wait for their update, and accumulators
  size_t activations = 0;  ///< what forward leaves for backward and what is being computed
  size_t workspace = 0;    ///< of kernels: packed operands
  size_t inputs = 0;       ///< batches and constants
  size_t other = 0;        ///< beside the trainer: the program, its texts and tokens, what looks at the run

  size_t total() const { return weights + moments + gradients + activations + workspace + inputs + other; }
};
/// "1.00 GiB: weights 513.1 MiB, moments ..."; parts that are 0 are left out.
std::string to_text(const TrainMemory& memory);
/// {"weights_bytes", ..., "peak_bytes"}
nlohmann::ordered_json to_json(const TrainMemory& memory);
/// The arena counts as its largest plan has it at its peak. `other` stays 0.
TrainMemory memory_of(const TrainPlans& plans, const ModelSpec& spec, const Device& device);

/// Bytes that the process holds beside `weights`: what is resident now, once the heap has given back what is free, and
/// some for small things that come later (plans, events, graphs as JSON, stacks). `foreseen`: what this said before
/// some of them came, so that it says the same again. Where the device has memory of its own: 0.
size_t bytes_beside(const Device& device, size_t weights = 0, size_t foreseen = 0);

/// What one of several ranks takes of its machine.
struct RankMemory {
  int rank = 0;
  std::string host;
  size_t planned = 0;  ///< bytes that its process will hold
  size_t needed = 0;   ///< of the machine's memory, beyond what it holds; 0 where its device has memory of its own
  FreeMemory free;     ///< before it takes them
};
/// Of this rank, whose trainer has allocated nothing yet. Weights of rank 0 are there; those of another rank are yet to
/// be sent, and none of them stays in a file.
RankMemory memory_of_rank(const Device& device, const TrainPlans& plans, const ParamStore& weights,
                          const Communicator& ranks);
/// Throws Error{bad_input} naming the first host whose ranks need more together than it has, or than their cgroup may
/// take, and the largest of them.
void require_shared_room(std::span<const RankMemory> ranks);

/// How a training fits.
struct MemoryFit {
  Recompute recompute;
  int64_t blocks = 0;    ///< of the model
  TrainMemory memory;    ///< with `recompute`
  size_t kept = 0;       ///< bytes at the peak where nothing is computed again
  double more_work = 0;  ///< of a step, as part of the FLOPs where nothing is computed again
  /// "recomputing 18 of 30 blocks: 5.7 GiB in place of 9.1 GiB, about 22% more work", or "" where nothing is.
  std::string text() const;
};
/// Throws Error{bad_input} where a training of `planned` bytes, of which `there` are already held, finds no room on
/// this device. Advises --memory only where computing everything again would make it fit.
void require_room(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                  const TrainerOptions& options, size_t planned, size_t there);

/// The least that has to be computed again for the device to hold at most `limit` bytes, of which `other` are not the
/// trainer's; where its memory is the host's, these are what the process holds. Where `limit` is 0, it is what
/// options.recompute says. Blocks are taken from the first on, first lightly and then wholly, until plans fit: what an
/// early block keeps is kept longest. Allocates nothing. Throws Error{bad_input} with the least that is needed and what
/// would need less; `option` states the limit.
MemoryFit fit_memory(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                     const TrainerOptions& options, size_t limit, size_t other, const char* option = "memory");

}  // namespace toy
