// What the trainers of a job say to each other. Rank 0's is the run's; the others do their part of its steps.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "toy/base/communicator.h"
#include "toy/base/threads.h"
#include "toy/train/memory.h"
#include "toy/train/trainer.h"
#include "train/device_sums.h"
#include "train/sum_ranks.h"

namespace toy {

/// What rank 0 sends first in a message.
enum class Order : uint8_t {
  begin,   ///< make a trainer
  state,   ///< weights and moments follow
  step,    ///< a StepPart follows
  update,  ///< all ranks have their gradients: add them, unless that is done, and update
  fetch,   ///< the bytes of a moment are wanted, whose name follows
  give,    ///< the name of a moment and its bytes follow
  close,   ///< the trainer is done
  leave,   ///< the job is done; an exit code follows
};

/// A rank's part of a step.
struct StepPart {
  Windows rows;
  std::vector<float> weights;  ///< of their targets
  double lr = 0;
  double scale = 1;                ///< what they were multiplied with, so that they are those of a step of its own
  int64_t steps = 0, updates = 0;  ///< of the run: this step's number, and the updates before it
};

/// What a rank has done.
struct PartResult {
  std::vector<double> losses;  ///< of its passes
  double norm = 0;             ///< of the step before, as this rank found it
  std::string error = {};      ///< why it could not; "": it could
  ErrorCode code = ErrorCode::failure;
  std::optional<RankMemory> memory = {};  ///< of a rank that has made its trainer
  std::exception_ptr thrown = {};         ///< in this process; not sent
  /// In a handler: of the exception that is handled.
  static PartResult of_failure();
};

/// What a trainer is made from.
struct TrainerRecipe {
  std::string version, device, arithmetic;
  int threads = 0;
  std::string spec, name;  ///< JSON; what it does not hold follows
  int64_t lens = 0;
  Roles roles;
  std::vector<AdapterSpec> adapters;
  TrainerOptions options;
  std::vector<std::pair<std::string, TensorType>> tensors;  ///< that the model holds
};

/// A trainer's side of it.
class Crew {
 public:
  /// Rank 0: the others make trainers of that model. Throws what one of them finds wrong, and where the ranks of a host
  /// need more than it has. `memory`: of this rank.
  Crew(Device& device, const Model& model, const TrainerOptions& options, const RankMemory& memory);
  /// Rank 0: their trainers are done.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  Communicator& ranks() { return ranks_; }
  bool leads() const { return ranks_.rank() == 0; }
  /// Rank 0: of all ranks. Others: their own.
  const std::vector<RankMemory>& memory() const { return memory_; }
  /// Of the step's passes, the first of this rank.
  int64_t first_pass() const { return first_pass(ranks_.rank()); }
  /// Of the rows of a step, this rank's.
  StepPart part_of(const StepPart& step) const { return part_of(step, ranks_.rank()); }

  /// Rank 0 gives its values of all tensors to the others; they call it, too, after Order::state.
  void share(std::initializer_list<const ParamStore*> stores);
  /// Rank 0: sends the others their parts.
  void hand_out(const StepPart& step);
  /// Rank 0: waits for the others. Returns the losses of all passes in their order. Throws what a rank found wrong, and
  /// where one found another norm in the step before.
  std::vector<double> collect(const PartResult& mine);
  /// See StepResult::skips; after collect().
  const std::vector<int64_t>& skips() const { return skips_; }
  /// Does each rank update some of the tensors?
  bool divides_updates() const { return !owners_.empty(); }
  /// All ranks, after an update: each gives the tensors that it updated to the others.
  void spread(const ParamStore& weights);
  /// Rank 0: `bytes` of a moment of another rank, which are given to `sink` piece by piece. `there`: its name in that
  /// rank. Where `sink` throws, the other pieces are received and thrown away before it is thrown on.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void fetch(int rank, const std::string& there, size_t bytes, const Sink& sink);
  /// Rank 0: a moment to the rank that has it.
  void give(int rank, const ParamStore& copy, const std::string& name, const std::string& there);
  /// What that rank does then; a tensor that is in neither store is an error.
  void serve(Order order, std::span<const std::byte> message, const ParamStore& moments, const ParamStore& weights);
  /// Rank 0: the others update, too.
  void begin_update() { to_others(std::vector{std::byte(Order::update)}); }
  /// All ranks: `bytes` of floats from `begin` on become the sum over ranks, added by this many threads: those of
  /// `pool`.
  void sum(ThreadPool& pool, Place begin, size_t bytes);
  /// The same by the device's number of threads.
  void sum(Place begin, size_t bytes) { sum(pool_, begin, bytes); }
  /// Allocates what a sum of so many bytes needs, so that it cannot fail for want of memory while others wait for it.
  void reserve(size_t bytes);

 private:
  int64_t first_pass(int rank) const { return options_.passes() * rank / ranks_.size(); }
  StepPart part_of(const StepPart& step, int rank) const;
  void broadcast(int root, const ParamStore& store, const std::string& name);
  void close() noexcept;
  void to_others(std::span<const std::byte> bytes);
  Communicator& ranks_;
  Device& device_;
  const TrainerOptions options_;
  std::vector<std::string> tensors_;  // that are trained
  std::vector<int> owners_;           // which rank updates them; empty: every rank updates all
  ThreadPool pool_;                   // adds
  std::vector<int64_t> skips_;
  std::vector<RankMemory> memory_;
  SumBuffers buffers_;
  Buffer copy_;                            // where the host does not see the device's memory
  std::unique_ptr<DeviceSums> on_device_;  // where the device does it all
};

/// @{ Messages; see archive.h.
std::vector<std::byte> packed(const TrainerRecipe& recipe);
std::vector<std::byte> packed(const PartResult& result);
/// @}
/// Throws Error{bad_input} where another version of toy has written it.
TrainerRecipe trainer_recipe(std::span<const std::byte> bytes);
StepPart step_part(std::span<const std::byte> bytes);
PartResult part_result(std::span<const std::byte> bytes);
/// The model without its values.
Model empty_model(const TrainerRecipe& recipe, const Device& device);

}  // namespace toy
