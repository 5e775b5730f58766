// Looking into a run: statistics of values and gradients, drift of weights, time by op, at chosen steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "toy/runs/event.h"
#include "toy/train/trainer.h"

namespace toy {

/// Names to look at, and how often.
struct Watch {
  std::string pattern;  ///< toy/base/glob.h
  int64_t every = 10;   ///< steps; the first step is always looked at
  /// Is step `step`, counted from 1, looked at?
  bool due(int64_t step) const { return step == 1 || step % every == 0; }
};
/// "PATTERN" or "PATTERN:EVERY". Throws Error{bad_input} naming `option` for an empty pattern or a period that is not a
/// whole number of at least 1.
Watch parse_watch(const std::string& option, const std::string& text);
/// The same of op timings, where a number alone stands for all ops; 0 for none.
std::vector<Watch> parse_op_timing(const std::string& text);

/// What is looked at. Nothing by default, which costs nothing: no plan and no step is other than without.
struct WatchOptions {
  std::vector<Watch> taps;    ///< values of the forward pass: x_embed, blk.0.attn_q, blk.0.out, x_final, logits, ...;
                              ///< of recurrences blk.0.decay, blk.0.beta, blk.0.state_norm
  std::vector<Watch> grads;   ///< gradients of weights
  std::vector<Watch> drifts;  ///< weights; a copy of what they are at the start is kept
  std::vector<Watch> op_timings;  ///< times of ops, by name: linear, adamw, ...

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Debugging", kText = "NAME[:N]";
    f(text_option("tap", "Log statistics of values, such as blk.*.out, every 10 or N steps", k, kText), o.taps);
    f(text_option("grads", "Log statistics of the gradients of weights", k, kText), o.grads);
    f(text_option("drift", "Log how far weights moved from their start; takes memory for a copy", k, kText), o.drifts);
    f(text_option("op_timing", "Log op times every N steps, or with NAME:N those of some", k, "N"), o.op_timings);
  }
};

/// Names and values of a graph's forward pass. A value that was given a name has it; what an op makes of `X.weight` is
/// X ("blk.0.attn_q"); the rest are named by layer and op ("blk.0.attention"), with .2 and so on where one comes again.
std::vector<std::pair<std::string, Value>> named_values(const Graph& graph);
/// Count, mean, rms, extrema and histogram.
runs::TensorStats stats_of(std::span<const float> values);

/// Watches a training. Values and gradients come from plans of their own, run before the step on its batch: the step
/// itself is the same, to the bit, whether somebody looks or not. They see what the step sees, dropout too; a gradient
/// is that of this batch before clipping.
class Watcher {
 public:
  using Tell = std::function<void(const runs::Event&)>;

  /// Compiles what is needed and keeps the weights whose drift is wanted. Throws Error{bad_input} for a pattern that no
  /// name fits, and when memory will not suffice. `model` must outlive the watcher.
  Watcher(const WatchOptions& watch, Device& device, const Model& model, const TrainerOptions& options);
  ~Watcher();

  /// Throws Error{bad_input} for a pattern of op timings that no op of the trainer's plans fits.
  void require_ops(Trainer& trainer) const;

  /// Before step `step` (counted from 1) on `windows`.
  void before(int64_t step, const Windows& windows, Trainer& trainer, const Tell& tell);
  /// After it.
  void after(int64_t step, Trainer& trainer, const Tell& tell);
  /// Bytes that all this holds.
  size_t planned_bytes() const;
  /// The same of a watcher that is not made yet, of a model with weights of these types.
  static size_t bytes(const WatchOptions& watch, Device& device, const ModelSpec& spec,
                      const Weights::DTypeOf& dtype_of, const TrainerOptions& options);

 private:
  struct Probe;
  struct Probes;
  static Probes probes(const WatchOptions& watch, Device& device, const ModelSpec& spec,
                       const Weights::DTypeOf& dtype_of, const TrainerOptions& options);
  void look(Probe& probe, int64_t step, const Windows& windows, Trainer& trainer, const Tell& tell) const;
  void tell_drift(int64_t step, const Tell& tell) const;
  void tell_times(int64_t step, Trainer& trainer, const Tell& tell);

  WatchOptions watch_;
  Device& device_;
  const Model& model_;
  TrainerOptions options_;
  std::unique_ptr<Probe> taps_, grads_;
  std::vector<std::pair<TensorSpec, std::vector<float>>> initial_;
  std::vector<std::vector<StepTime>> times_before_;  // of each of the trainer's sessions
};

}  // namespace toy
