// The optimizers: their options, what they keep between steps, and their step as a graph: on one tensor, on all tensors
// of a model, and on the parameters of any graph (minimize).
// docs/training.md has the formula, the source and the memory of each.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/options.h"
#include "toy/models/spec.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy {

/// Which optimizer, with which numbers. Tensors are groups by name: patterns are globs over tensor names (`*` any
/// characters, `?` one, `[abc]` one of these), as in "blk.*.attn_?.weight".
struct OptimizerOptions {
  enum Kind {
    adamw,      ///< Loshchilov and Hutter 2019
    sgd,        ///< with momentum
    adamw8,     ///< AdamW with moments in 8 bits (Dettmers et al. 2021)
    lion,       ///< Chen et al. 2023
    adafactor,  ///< Shazeer and Stern 2018
    muon,       ///< Jordan et al. 2024, on the matrices between embedding and output; AdamW on the rest
  } kind = adamw;
  double beta1 = 0.9, beta2 = 0.95;  ///< of AdamW (also muon's) and Lion
  double eps = 1e-8;                 ///< of AdamW, and Adafactor's smallest root of a second moment
  double momentum = 0.9;             ///< of SGD and Muon; 0: none (SGD then keeps no velocities)
  bool nesterov = false;             ///< of SGD and Muon: step along gradient + momentum * velocity
  double weight_decay = 0.1;         ///< on matrices only; SGD adds it to the gradient, the others to the step
  double clip = 1.0;
  double decay_rate = 0.8, update_clip = 1.0;  ///< of Adafactor
  bool relative_step = false;  ///< of Adafactor: steps of min(lr, 1/sqrt(t)) times the weights' root mean square
  /// Of Muon, what an orthogonalized matrix [R,C] is multiplied by. original: sqrt(max(1, R/C)) (Jordan et al. 2024);
  /// match_rms: 0.2 sqrt(max(R,C)), whose elements are as large as AdamW's (Liu et al. 2025, "Moonlight").
  enum MuonScale { original, match_rms } muon_scale = original;
  double adamw_factor = 0.05;  ///< of Muon: learning rate of what AdamW does, as a part of Muon's
  /// Learning rates of tensors that a pattern fits, as a part of the others'; where several fit, the last one counts.
  std::vector<std::pair<std::string, double>> lr_for;
  std::vector<std::string> no_decay;
  double ema = 0;       ///< decay of an exponential average of the weights; 0: none is kept
  double lr_decay = 1;  ///< to the power of TensorSpec's depth (Clark et al. 2020), besides lr_for

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Optimizer", kAdam = "adamw adamw8 lion muon", kMomentum = "sgd muon", kAdafactor = "adafactor";
    f({"beta1", "Decay of the first moment", from_to_below(0, 1), "", kAdam}, o.beta1);
    f({"beta2", "Decay of the second moment", from_to_below(0, 1), "", kAdam}, o.beta2);
    f({"eps", "Epsilon of the denominator", above(0), "", "adamw adamw8 adafactor muon"}, o.eps);
    f({"momentum", "Momentum; 0 keeps no velocities with sgd", from_to_below(0, 1), "", kMomentum}, o.momentum);
    f({"nesterov", "Step along gradient + momentum * velocity", Limits(), "", kMomentum}, o.nesterov);
    f({.name = "weight_decay", .help = "Weight decay of matrices", .limits = at_least(0), .group = k, .derived = true},
      o.weight_decay);
    f({"clip", "Limit of the gradients' global norm; 0 turns clipping off", at_least(0), k}, o.clip);
    f({"decay_rate", "Exponent R of the second moment's decay 1 - t^-R", above(0), "", kAdafactor}, o.decay_rate);
    f({"update_clip", "Limit of an update's root mean square", above(0), "", kAdafactor}, o.update_clip);
    f({"relative_step", "Scale steps by the weights (--lr is then 0.01)", Limits(), "", kAdafactor}, o.relative_step);
    f({"muon_scale", "match-rms takes AdamW's step size (--lr is then 0.001)", Limits(), "", "muon", "scale"},
      o.muon_scale);
    f({"adamw_factor", "Fraction of --lr for AdamW's tensors (1 with match-rms)", at_least(0), "", "muon"},
      o.adamw_factor);
    f(text_option("lr_for", "Learning rate factor of matching tensors, such as 'blk.0.*=0.5'", k, "NAME=X"), o.lr_for);
    f(text_option("no_decay", "Exclude matching tensors from weight decay", k, "NAME"), o.no_decay);
    f({"ema", "Decay of averages in model-ema.gguf, e.g. 0.999", from_to_below(0, 1), k}, o.ema);
    f({"lr_decay", "Learning rate factor per layer downwards", above_to(0, 1), k}, o.lr_decay);
  }

  /// The numbers that this optimizer is usually run with (src/train/optimizer.cpp); the members' own are AdamW's.
  static OptimizerOptions of(Kind kind);
  /// A peak learning rate for a new model that suits of(kind).
  double usual_lr() const;
  /// Throws Error{bad_input} naming the option, its value and what would do.
  void validate() const;
};
/// Their names.
template <>
struct NamesOf<OptimizerOptions::Kind> {
  static constexpr std::array list = {
      std::pair("adamw", OptimizerOptions::adamw),         std::pair("sgd", OptimizerOptions::sgd),
      std::pair("adamw8", OptimizerOptions::adamw8),       std::pair("lion", OptimizerOptions::lion),
      std::pair("adafactor", OptimizerOptions::adafactor), std::pair("muon", OptimizerOptions::muon)};
};
/// Their names.
template <>
struct NamesOf<OptimizerOptions::MuonScale> {
  static constexpr std::array list = {std::pair("original", OptimizerOptions::original),
                                      std::pair("match-rms", OptimizerOptions::match_rms)};
};

/// "muon" or "muon(momentum=0.9, nesterov=false)"; what is not said is as in OptimizerOptions::of(). Throws
/// Error{bad_input}, which begins with `what`, naming what the optimizer has instead.
OptimizerOptions parse_optimizer(std::string_view text, std::string_view what = "optimizer");
/// What parse_optimizer() reads, with every setting.
std::string optimizer_text(const OptimizerOptions& options);

/// How one tensor is updated.
struct TensorUpdate {
  enum Rule { adamw, sgd, sgd_momentum, adamw8, lion, adafactor, adafactor_vector, muon } rule = adamw;
  double lr_factor = 1;
  double weight_decay = 0;
  std::vector<std::pair<std::string, TensorType>> state;  ///< what is kept between steps, by name, with the average
};
/// The rule for each tensor, in their order. Throws Error{bad_input} for a pattern that no tensor's name fits.
std::vector<TensorUpdate> tensor_updates(std::span<const TensorSpec> tensors, const OptimizerOptions& options);
/// tensor_updates() of trained_tensors(spec).
std::vector<TensorUpdate> tensor_updates(const ModelSpec& spec, const OptimizerOptions& options);
/// Names and types of all that the optimizer keeps, in the order of trained_tensors(spec): `<tensor>.m` and `.v`
/// (AdamW),
/// `.v` (SGD with momentum, Muon, Adafactor of vectors), `.m` (Lion), `.row` and `.col` (Adafactor), `.m8`, `.m_scale`,
/// `.v8`, `.v_scale` (8-bit AdamW; the codes are i32, four in each), and `.ema`.
std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec, const OptimizerOptions& optimizer);

/// The optimizer's step on one tensor. Makes the inputs that change from step to step; see feed_optimizer().
class Update {
 public:
  /// `gscale`: [] multiplies every gradient; where it is not finite nothing changes. The options must outlive this.
  Update(Graph& graph, const OptimizerOptions& options, Value gscale);
  /// What the weight, its moments and its average become.
  std::vector<Value> operator()(const TensorSpec& spec, const TensorUpdate& how, Value weight, Value gradient);

 private:
  std::vector<Value> step(const TensorUpdate& how, const std::vector<Value>& state, Value weight, Value gradient);
  std::vector<Value> muon_step(const TensorUpdate& how, Value velocity, Value weight, Value gradient);
  Value input(const char* name);
  Value lr(double factor);
  Graph& graph_;
  const OptimizerOptions& o_;
  Value gscale_;
  std::map<double, Value> lr_;           // by factor
  std::map<std::string, Value> inputs_;  // scalars
};

/// One step of an optimizer in a graph. `updates` go to compile(); their inputs come from feed_optimizer().
struct OptimizerStep {
  Value norm;                    ///< []: of all gradients, before clipping; where it is not finite nothing changes
  std::vector<Value> gradients;  ///< of the parameters, in their order
  std::vector<Value> updates;    ///< what parameters, moments and averages become
};
/// The step that makes `loss` [] smaller: gradients, their norm, clipping, and the update of each of `params`, which
/// are f32 parameters of the loss's graph (Graph::param). What the optimizer keeps becomes parameters named after them
/// ("w1.m"), which start at zero. Weight decay and muon apply to tensors of two or more dimensions; patterns
/// (lr_for, no_decay) are over the parameters' names. A graph takes one minimize(): it makes inputs named clip, lr and,
/// by optimizer, bias1, bias2, mix and ema_mix. Throws Error{bad_input}, with the graph unchanged, for options that
/// validate() refuses, a loss of another shape, no parameters, a value that is not an f32 parameter, a parameter given
/// twice, a pattern that fits no name, and a name that is taken.
///
///     const OptimizerStep step = minimize(loss, params, options);
///     const auto plan = std::make_shared<Plan>(compile(g, std::vector{loss}, step.updates, *device));
///     ParamStore store(*device);
///     for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);  // zero; weights are written next
///     Session session(*device, plan, {&store});
///     for (int64_t i = 0; i < steps; ++i) {
///       feed_optimizer(session, options, i, 1e-3);
///       session.run();
///     }
OptimizerStep minimize(Value loss, std::span<const Value> params, const OptimizerOptions& options = {});
/// The part of minimize() that follows the gradients: norm, clipping, updates. Makes the input `clip`. `only`: the
/// tensors that are updated; empty: all are.
OptimizerStep clip_and_update(Graph& graph, const OptimizerOptions& options, std::span<const TensorSpec> tensors,
                              std::span<const Value> weights, std::vector<Value> gradients,
                              const std::vector<bool>& only = {});
/// Update on each of the tensors, or on some.
std::vector<Value> update_all(Graph& graph, const OptimizerOptions& options, Value gscale,
                              std::span<const TensorSpec> tensors, std::span<const Value> weights,
                              std::span<const Value> gradients, const std::vector<bool>& only = {});

/// Feeds the inputs of an optimizer (`clip`, and those of Update) for the step after `updates` updates at learning rate
/// `lr`.
void feed_optimizer(Session& session, const OptimizerOptions& options, int64_t updates, double lr);

/// While it lives, weights and their averages (`<tensor>.ema` in `moments`) have changed places, so that everything
/// that reads the weights reads the averages. See AveragedModel in toy/train/trainer.h.
class AveragedWeights {
 public:
  /// Both stores must outlive it. Weights whose average (OptimizerOptions::ema) `moments` has not stay as they are.
  AveragedWeights(const ModelSpec& spec, const ParamStore& weights, const ParamStore& moments);
  ~AveragedWeights() { swap(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  struct Pair {
    Place weight, average;
    size_t bytes;
  };
  void swap();
  const Device& device_;
  DeviceBuffer between_;
  std::vector<Pair> pairs_;
};

}  // namespace toy
