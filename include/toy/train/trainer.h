// The training engine: a model, its optimizer, and one compiled step.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "toy/base/communicator.h"
#include "toy/data/corpus.h"
#include "toy/graph/recompute.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"
#include "toy/train/contrastive.h"
#include "toy/train/optimizer.h"
#include "toy/train/preference.h"

namespace toy {

/// One step of training.
struct TrainerOptions {
  int64_t batch = 8, tokens = 128;  ///< B sequences of T tokens
  /// Batches of B a step: the gradients of the mean loss over all their tokens are summed in their order, then there is
  /// one update. As one batch of B * accumulate sequences, in the memory of B and one gradient. Gathered updates only.
  int64_t accumulate = 1;
  /// Equal parts of a step's rows, whose gradients are added as a tree, so that processes can share them: the sum does
  /// not depend on how many do. Each is batch / shards sequences, accumulate times. Gathered updates only.
  int64_t shards = 1;
  /// Who shares the shards: this trainer is rank 0's, run_worker() (toy/train/worker.h) has those of the others.
  /// nullptr: nobody. Must outlive the trainer. See can_share() in src/train/sum_ranks.h.
  Communicator* ranks = nullptr;
  OptimizerOptions optimizer;
  /// gathered: all gradients, then their norm, then the updates; a step whose gradient is not finite is skipped.
  /// streaming: each gradient is consumed by its update as soon as it is complete, which saves its memory; there is no
  /// norm and no clipping, a step whose loss is not finite is skipped, and a gradient that is not finite is an error.
  enum Updates { gathered, streaming } updates = gathered;
  /// Type in which gradients go from process to process. bf16: every sum of shards, and each shard's, is rounded to it,
  /// in one process too, so that the bits still do not depend on how many there are. Needs shards.
  enum class Wire { f32, bf16 } wire = Wire::f32;
  /// Above 0: ranks train apart, each on its shard, with an optimizer of its own, and meet after N steps
  /// (src/train/local_steps.h). As many ranks as shards.
  int64_t local_steps = 0;
  double outer_lr = 0.7, outer_momentum = 0.9;  ///< of the step in which they meet: SGD with Nesterov's momentum
  DType compute = DType::f32;  ///< of the training step's dense products: f32 or bf16; weights and sums stay f32
  double dropout = 0;  ///< part of the embedding's, the mixers' and the ffns' outputs that a step zeroes, 0 to below 1
  uint64_t seed = 0;   ///< of dropout
  double rank_timeout = kRankTimeout;  ///< Communicator::give_up_after() of `ranks`
  bool check_finite = false;           ///< Session::check_finite in steps and evaluations
  /// Instead of the mean over all targets: answers are compared, see step(). The reference is the model without its
  /// last adapter.
  std::optional<PreferenceOptions> preference = {};
  /// Rows that attention sees, where sequences of a batch share their beginnings: one that begins at a later position
  /// than 0 continues the latest one before it that begins there. 0: all are complete. See can_spread().
  int64_t spread = 0;
  bool hidden = false;  ///< steps can show the rows that the output projection takes; see Trainer::step()
  /// Instead of the next token: rows of texts whose vectors are compared.
  std::optional<ContrastiveOptions> contrastive = {};
  /// Instead of the next token: the class of a text, by the model's ScoreHead, of its state after this token.
  std::optional<Pooling> classes = {};
  Recompute recompute;  ///< what backward computes again; changes no bit. See fit_memory() in toy/train/memory.h

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"batch", "Sequences per step", at_least(1), "Batch"}, o.batch);
    f({"tokens", "Tokens per sequence", at_least(1), "Batch"}, o.tokens);
    f({"accumulate", "Batches per step whose gradients are summed", at_least(1), "Batch"}, o.accumulate);
    f({"shards", "Parts of a step that processes can share", from_to(1, 4096), "Batch"}, o.shards);
    f({"wire", "Type of the gradients that processes exchange; bf16 halves their bytes", {}, "Batch"}, o.wire);
    f({"local_steps", "Steps that processes train apart before they average; 0: they share every step",
       from_to(0, 1'000'000), "Batch"},
      o.local_steps);
    f({"outer_lr", "Learning rate of the average, with local steps", above(0), "Batch"}, o.outer_lr);
    f({"outer_momentum", "Nesterov momentum of the average, with local steps", from_to_below(0, 1), "Batch"},
      o.outer_momentum);
    f(text_option("rank_timeout", "End the job once a process has not answered for this time", "Machine", "TIME", "",
                  above(0)),
      o.rank_timeout);
    f({"optimizer", "{}, with settings as in 'sgd(momentum=0.8)' (toy help training.md)", {}, "Optimizer"},
      o.optimizer);
    f({"updates", "When to update; streaming takes less memory, no clipping", {}, "Optimizer", "", "", "--update"},
      o.updates);
    f(text_option("compute", "Type of products: f32, bf16 or auto, the faster of them", "Machine", "f32|bf16|auto"),
      o.compute);
    f({"dropout", "Dropout of embedding, mixer and ffn outputs", from_to_below(0, 1), "Optimizer"}, o.dropout);
    f({"check_finite", "Stop at the first op with a result that is not finite, and name it (slower)", {}, "Debugging"},
      o.check_finite);
  }

  /// Throws Error{bad_input} naming the option, its value and what would do.
  void validate() const;
  void validate_local() const;                            ///< what concerns local steps
  int64_t sequences() const { return batch / shards; }    ///< of one forward and backward
  int64_t passes() const { return accumulate * shards; }  ///< that a step takes
  int64_t rows() const { return batch * accumulate; }     ///< of a step
  /// `steps`, rounded up to where ranks that train apart meet.
  int64_t complete_rounds(int64_t steps) const {
    return local_steps > 0 ? (steps + local_steps - 1) / local_steps * local_steps : steps;
  }
};
/// Their names.
template <>
struct NamesOf<TrainerOptions::Updates> {
  static constexpr std::array list = {std::pair("gathered", TrainerOptions::gathered),
                                      std::pair("streaming", TrainerOptions::streaming)};
};
/// The same.
template <>
struct NamesOf<TrainerOptions::Wire> {
  static constexpr std::array list = {std::pair("f32", TrainerOptions::Wire::f32),
                                      std::pair("bf16", TrainerOptions::Wire::bf16)};
};

/// bf16 where its products are clearly faster on this device, else f32, and why. Measures for some milliseconds.
std::pair<DType, std::string> faster_compute(Device& device);

/// Does training drop anything, so that it reads the input `random`?
bool drops(const ModelSpec& spec, double dropout);

/// Can sequences share their beginnings? Where attention is all in which rows see each other.
bool can_spread(const ModelSpec& spec);

/// The step as a graph: forward, loss, backward, clipping, the optimizer.
struct TrainGraph {
  std::unique_ptr<Graph> graph;
  Value loss, norm;
  std::vector<Value> gradients;  ///< in the order of trained_tensors(spec)
  std::vector<Value> updates;
  Value logits = {};  ///< [N,V], if they were asked for
  Value hidden = {};  ///< [N,D] what Head takes, with TrainerOptions::hidden
};
/// The graph of one step on weights that `dtype_of` describes. With accumulate > 1: forward and backward of one batch
/// of the step; its updates are accumulators, `<tensor>.grad`, which have taken the gradients in, and there is no norm.
/// So with shards > 1.
/// `with_logits`: the step does without them.
TrainGraph build_train_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options,
                             bool with_logits = false);
/// How plans of a step are compiled. Backward rounds weights again for products in bf16, instead of keeping their
/// copies, where memory is short: activations are recomputed, gradients are not kept (streaming), or adapters alone
/// learn.
PlanOptions step_plan_options(const ModelSpec& spec, const TrainerOptions& options);
/// The rest of a step that accumulates: norm, clipping and the optimizer, on the accumulators. No loss.
TrainGraph build_update_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const TrainerOptions& options);
/// Forward and loss only. Outputs: nll [N].
struct LossGraph {
  std::unique_ptr<Graph> graph;
  Value logits, loss, nll;
};
/// The same without backward, for B sequences of T tokens.
LossGraph build_loss_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t batch, int64_t tokens);

/// The plans of a training, of which one runs at a time, in an arena that they share.
struct TrainPlans {
  std::shared_ptr<const Plan> step, update = {};           ///< update: only where a step accumulates
  std::vector<std::shared_ptr<const Plan>> sums = {};      ///< of shards; see src/train/gradient_sums.h
  std::shared_ptr<const Plan> outer = {};                  ///< of ranks that train apart; see src/train/local_steps.h
  std::vector<std::shared_ptr<const Plan>> forwards = {};  ///< of the objective; the first one is a validation's
  size_t mapped = 0;                                       ///< bytes of frozen weights that stay in the file
  size_t exchange = 0;                                     ///< bytes of the device for sums over ranks
  /// Those of a step.
  std::vector<const Plan*> steps() const;
  /// Those that there are.
  std::vector<const Plan*> all() const;
  /// Of the largest arena.
  size_t arena_bytes() const;
  /// All parameters but mapped ones, the arena, inputs and constants, and what is exchanged.
  size_t bytes(const Device& device) const;
};
/// Compiles them for weights that `dtype_of` describes. Allocates nothing.
TrainPlans compile_training(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                            const TrainerOptions& options);

/// Mean negative log-likelihood of a text, or the loss over answers.
struct EvalResult {
  double nats = 0;  ///< sum over the tokens; of answers over those of the chosen ones
  int64_t tokens = 0;
  PreferenceSums preference = {};
  /// Of pictures, classes of texts and pairs, which are then what `tokens` counts: those whose class or positive is the
  /// likeliest, and among the 5 likeliest.
  bool ranked = false;
  int64_t right = 0, among_5 = 0;
  /// Of pictures and texts with K classes: [K,K] how often each is taken for which.
  std::vector<int64_t> confusion = {};
  /// One of them: its row in the validation, its class, what the model says, and the loss.
  struct Judged {
    int64_t row;
    int32_t label, chosen;
    double nats;
  };
  std::vector<Judged> worst = {};  ///< those with the largest losses, the largest first
  bool few = false;                ///< there are at most 5 to choose from, so that `among_5` says nothing
  double mean() const { return preference.terms > 0 ? preference.mean_loss() : tokens ? nats / double(tokens) : 0; }
};

/// What the loss of each target of a step is multiplied with.
struct StepWeights {
  std::vector<float> targets;  ///< [places]
  /// Of answers, whose loss is not the sum over the targets.
  std::optional<PreferenceSums> preference = {};
};

/// Sees [N,D] what Head takes of the places from `first` on, of one pass of a step.
using SeeHidden = std::function<void(int64_t first, std::vector<float> hidden)>;

/// What a step did.
struct StepResult {
  double loss = 0;  ///< mean over the windows' targets before the update; of preferences over their answers
  std::optional<double> grad_norm = {};  ///< global norm of the gradients before clipping; streaming updates have none
  bool skipped = false;                  ///< something was not finite: nothing has changed
  PreferenceSums preference = {};
  /// With other ranks, seconds of rank 0: for sums of gradients and until slower ranks have theirs, which begin during
  /// backward where the device computes in the host's memory, and without anything to compute until the others and the
  /// sums were done.
  std::optional<double> exchange = {}, wait = {};
  /// Of ranks that train apart, for each of them but this one: how many steps in a row, up to the one before, were not
  /// finite there and changed nothing. Counted from the beginning of the process; rank 0 alone knows it.
  std::vector<int64_t> skips = {};
};

class Crew;
class EarlySums;
class GradientSums;
class LocalSteps;
struct OwnedMoment;
struct PartResult;
struct RankMemory;
struct StepPart;
class Objective;

/// A model in training. Losses are bit-identical for any number of threads and from run to run.
class Trainer {
 public:
  /// Compiles the step and allocates the optimizer's moments (see moment_types). Throws Error{bad_input} when the
  /// machine's memory will not suffice, before allocating. `model` must outlive the trainer; its weights change.
  Trainer(Device& device, Model& model, const TrainerOptions& options);
  ~Trainer();

  /// One step of the optimizer on B * accumulate windows of T tokens. With check_finite an error begins with the step,
  /// counted from 1. Padding of packed rows counts in nothing. Of preferences, the answers' log probabilities, with the
  /// step's dropout, come before the gradient, which is that of cross-entropy with a weight for each answer.
  StepResult step(const Windows& windows, double lr) { return step(windows, lr, {}); }
  /// The same with these weights of the targets instead of weigh()'s. With accumulate > 1 there may be any number of
  /// batches. `see`: with TrainerOptions::hidden.
  StepResult step(const Windows& windows, double lr, std::optional<StepWeights> given, const SeeHidden& see = {});
  /// What the next step multiplies the targets of these windows with. Throws Error{bad_input} where there is none.
  StepWeights weigh(const Windows& windows);
  /// Loss of rows, whatever the objective makes of them. Reads the first rows in the order of the validation, until
  /// `max_tokens` are counted (0: all). Of packed documents, each read alone from its beginning, the loss of all has
  /// the same bits for any batch. `stop` is asked before every batch: once it says true, the result is that of the
  /// batches before.
  EvalResult evaluate(const ValidationRows& rows, int64_t max_tokens = 0, const std::function<bool()>& stop = {});
  /// The same of TextRows.
  EvalResult evaluate(TokenView ids, int64_t max_tokens = 0, const std::function<bool()>& stop = {}) {
    return evaluate(TextRows(ids, options_.tokens), max_tokens, stop);
  }

  /// For objectives: what TrainPlans::forwards[pass] gives for a batch of places(). `random`: where that drops, the
  /// number of the batch. An error begins with `what` and the step.
  std::vector<float> nlls(size_t pass, const Windows& batch, const char* what, std::optional<int64_t> random = {});
  const TrainerOptions& options() const { return options_; }
  /// Of one forward and backward.
  int64_t places() const { return options_.sequences() * options_.tokens; }

  /// Updates made: steps whose gradient was finite.
  int64_t updates() const { return updates_; }
  /// Is there an average of the weights? It begins with the first update.
  bool has_average() const { return options_.optimizer.ema > 0 && updates_ > 0; }
  /// Is it between two meetings of ranks that train apart? Then each has weights of its own.
  bool apart() const { return options_.local_steps > 0 && steps_ % options_.local_steps != 0; }
  /// Resumes after `steps` steps, `updates` of them updates. The caller restores weights before it,
  /// moments after it.
  void resume(int64_t steps, int64_t updates);
  /// Of a rank above 0: does its part of the steps of rank 0's trainer, as long as that one is there.
  void serve();
  const Plan& plan() const { return *plans_.step; }
  const TrainPlans& plans() const { return plans_; }
  Session& session() { return *session_; }
  /// What a step runs: the batch, and with accumulate > 1 the optimizer's part behind it.
  std::vector<Session*> sessions() {
    return update_session_ ? std::vector{session_.get(), update_session_.get()} : std::vector{session_.get()};
  }
  /// What the optimizer keeps, of the tensors that this rank updates: with several ranks, each updates some of them.
  const ParamStore& moments() const { return moments_; }
  ParamStore& moments() { return moments_; }
  /// Of all ranks, sorted by name, with what other ranks have for themselves where they train apart.
  std::vector<std::pair<std::string, TensorType>> all_moments() const;
  /// Gives the bytes of one of them to `sink`, as the device holds them, in one or more pieces.
  void read_moment(const std::string& name, const std::function<void(std::span<const std::byte>)>& sink);
  using UseMoment = std::function<void(ParamStore& store, const std::string& name)>;
  /// Calls f(store, name) for one of them. Of another rank, `store` has a copy. `write`: which goes back there.
  void with_moment(const std::string& name, bool write, const UseMoment& f);
  /// The same for all, one after another.
  void each_moment(bool write, const UseMoment& f);
  /// Bytes that training and its evaluations hold: weights, moments, accumulators, arena, inputs.
  size_t planned_bytes() const { return plans_.bytes(device_); }
  /// What each rank takes, in their order; above rank 0, this one alone; without others, nothing.
  std::span<const RankMemory> rank_memory() const;

 private:
  friend class AveragedModel;
  /// Rank 0's weights that other ranks update become what these have: their averages, or again the weights.
  void fetch_from_owners(bool averages);
  /// Forward and backward of this process's shards; returns the losses of their passes.
  std::vector<double> run_shards(const StepPart& part);
  /// The same of all ranks.
  std::vector<double> run_all(const StepPart& step);
  /// This rank's part of a step, and then the sums over ranks where they begin early. `result`: what went wrong before,
  /// or what it has done; a rank that cannot compute still takes part in the sums, for the others wait for it.
  PartResult run_part(PartResult result, const std::function<StepPart()>& part);
  /// Forward and backward of pass `i` of a part, which is pass `number` of the step; returns its share of the loss.
  /// `last`: of this process in the step.
  double run_pass(const StepPart& part, int64_t i, int64_t number, bool last);
  /// Rank 0's weights and moments to the other ranks.
  void share();
  void share_once();
  const OwnedMoment& moment_of_all(const std::string& name) const;
  /// The new weights to all ranks. Returns seconds of ranks that meet.
  double spread();
  /// What follows the gradients of a step whose loss is there.
  void update(StepResult& result);
  Device& device_;
  Model& model_;
  TrainerOptions options_;
  ParamStore moments_;
  std::vector<OwnedMoment> all_moments_;
  TrainPlans plans_;
  std::shared_ptr<const DeviceBuffer> arena_;
  std::unique_ptr<GradientSums> sums_;  // where a step accumulates
  std::unique_ptr<Crew> crew_;          // where there are other ranks
  std::unique_ptr<EarlySums> early_;    // where they add gradients while backward computes
  std::unique_ptr<LocalSteps> local_;   // where they train apart
  bool shared_ = false;                 // the others have rank 0's weights and moments
  std::unique_ptr<Session> session_, update_session_;
  std::vector<std::unique_ptr<Session>> forwards_;  // of plans_.forwards, once they run
  std::unique_ptr<Objective> objective_;
  SeeHidden see_;  // of this step
  int64_t steps_ = 0, updates_ = 0;
  double norm_ = 0;                 // of the last step
  double summed_ = 0, waited_ = 0;  // seconds in it
};

/// While it lives, everything that reads the weights of the trainer's model, on rank 0, reads their averages.
class AveragedModel {
 public:
  /// There are averages (Trainer::has_average()). The trainer must outlive it, and makes no step meanwhile.
  explicit AveragedModel(Trainer& trainer);
  ~AveragedModel();
  AveragedModel(const AveragedModel&) = delete;
  AveragedModel& operator=(const AveragedModel&) = delete;

 private:
  Trainer& trainer_;
  std::optional<AveragedWeights> here_;  // of the tensors that this rank updates
};

}  // namespace toy
