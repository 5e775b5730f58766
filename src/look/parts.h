// What look() is made of: values of a graph, and what is computed from them on the host in f64.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "toy/base/threads.h"
#include "toy/look/compare.h"
#include "toy/models/transformer.h"
#include "toy/ops/attrs/structs.h"

namespace toy::looking {

/// Operands of an attention op. Query head h uses kv head h K/H.
struct AttentionTap {
  int layer = 0;
  AttentionAttrs attrs;
  int64_t heads = 0, kv_heads = 0, width = 0;
  bool both = false;        ///< rows see those after them, too
  std::vector<float> q, k;  ///< [T,H,P], [T,K,P]
};

/// Operands of a gated delta rule.
struct RuleTap {
  int layer = 0;
  DeltaRuleAttrs attrs;
  int64_t key_heads = 0, width = 0, heads = 0, value_width = 0;  ///< K, P, H, V
  std::vector<float> k, v, gate, beta;                           ///< [T,K,P], [T,H,V], [T,H] or [T,H,P], [T,H]
};

/// What a block adds to the rows.
struct AddedTap {
  std::string part;
  std::vector<float> values;  ///< [T,D]
};

/// Values of one run of the blocks on T tokens.
struct Taps {
  int64_t tokens = 0;
  std::vector<std::vector<float>> x;         ///< [T,D]: the embedded tokens, then the rows after each block
  std::vector<std::vector<AddedTap>> added;  ///< of each layer
  std::vector<AttentionTap> attention;       ///< in the order of the graph
  std::vector<RuleTap> rules;
  std::vector<std::pair<int, std::vector<int32_t>>> experts;  ///< layer, [T,U]
};
class Outputs;

/// The blocks of a model on a text of so many tokens, compiled. Nothing is allocated before run().
class Blocks {
 public:
  /// `attention_only`: x, added, rules and experts stay empty. `without`: heads whose output is 0. `model` must outlive
  /// it.
  Blocks(Device& device, const Model& model, int64_t tokens, bool exact, bool attention_only,
         std::span<const HeadId> without = {});
  /// What a run takes on the device, and what the taps take on the host.
  size_t device_bytes() const { return device_bytes_; }
  size_t host_bytes() const { return host_bytes_; }
  /// Heads of all attention ops, as HeadWeights counts them.
  int64_t heads() const { return heads_; }
  Taps run(std::span<const int32_t> ids) const;

 private:
  Outputs taken(Taps& taps) const;
  Device& device_;
  const Model& model_;
  const int64_t tokens_;
  const bool attention_only_;
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<const Plan> plan_;  // absent: there is nothing to look at
  size_t device_bytes_ = 0, host_bytes_ = 0;
  int64_t heads_ = 0;
};

/// What a number takes as JSON and as text, in arrays and texts that grow by doubling; measured.
inline constexpr size_t kBytesOfJsonNumber = 56;

/// What a look holds at once, at most. Of a comparison: of both readings.
struct LookMemory {
  size_t device = 0, host = 0;
};
/// Of a look at so many tokens.
LookMemory memory_of_look(Device& device, const Model& model, int64_t tokens, const LookOptions& options);
/// Throws Error{bad_input} where that is not free, saying how many tokens would do. `of` gives it for fewer tokens.
void require_look_memory(Device& device, int64_t tokens, const LookOptions& options,
                         const std::function<LookMemory(int64_t tokens, const LookOptions&)>& of);

/// Throws Error{bad_input} for no tokens, ids outside the vocabulary, and more tokens than the model has positions.
void check_text(const ModelSpec& spec, std::span<const int32_t> ids);
/// Compiles and runs the blocks.
Taps run_blocks(Device& device, const Model& model, std::span<const int32_t> ids, bool exact, bool attention_only,
                std::span<const HeadId> without = {});
/// The same graph, in which these heads give 0. Throws Error{bad_input} where the model has no such head.
std::unique_ptr<Graph> without_heads(const Graph& graph, const ModelSpec& spec, std::span<const HeadId> heads);
/// The heads of a layer's attention op, of `heads`, that stand for its query heads, in their order.
std::vector<int64_t> query_heads(const LayerSpec& layer, int64_t heads);

/// Attention weights of a tap's heads, one head at a time. Of pairs (differential attention) both maps of each pair, in
/// the order of the query heads.
class HeadWeights {
 public:
  /// `tap` must outlive it.
  HeadWeights(const Model& model, const AttentionTap& tap, int64_t tokens);
  int64_t count() const { return int64_t(heads_.size()); }
  /// [T,T] of a head. Threads may ask at the same time.
  void of(int64_t head, std::vector<float>& weights) const;

 private:
  const AttentionTap& tap_;
  int64_t tokens_;
  std::vector<int64_t> heads_;
  std::vector<double> sinks_;
};
/// Calls use(head, weights [T,T]) for all of them, on the threads of a team.
void each_head(const HeadWeights& heads, ThreadPool& team,
               const std::function<void(int64_t head, std::span<const float> weights)>& use);
/// Of weights [T,T]: previous, first, entropy and distance; the others are NaN.
HeadScores scores_of_text(std::span<const float> weights, int64_t tokens);
/// Does a model's output predict tokens?
inline bool predicts_tokens(const ModelSpec& spec) { return spec.causal || spec.mask_head; }
/// Induction and duplicate of weights [T,T] where `n` tokens from `begin` are repeated once.
void score_repetition(std::span<const float> weights, int64_t tokens, int64_t begin, int64_t n, HeadScores& scores);

/// Decay, strength, what is written and the norms of the states.
std::vector<StateHead> run_rule(const RuleTap& tap, int64_t tokens, ThreadPool& team);

/// The model's final norm and output projection, of some rows at a time.
class Lens {
 public:
  /// `model` must outlive it.
  Lens(Device& device, const Model& model, bool exact, int64_t tokens);
  /// Rows that it takes at once, at most.
  int64_t together() const { return together_; }
  /// What it takes on the device and, with its logits, on the host, for texts of `tokens`.
  static LookMemory memory(Device& device, const Model& model, bool exact, int64_t tokens);
  /// Logits [n,V] of rows [begin, begin + n) of x [T,D].
  std::vector<float> logits(std::span<const float> x, int64_t begin, int64_t n);

 private:
  static std::shared_ptr<const Plan> plan(Device& device, const Model& model, bool exact, int64_t tokens);
  int64_t width_, together_;
  std::unique_ptr<Session> session_;
};
/// log(sum exp) of logits.
double log_sum(std::span<const float> logits);
/// `output`: the logits that its divergence is from. `next`: the token that the probability is of.
LensPoint lens_point(std::span<const float> logits, std::span<const float> output, std::optional<int32_t> next,
                     int64_t top);
/// The lens at every point, some rows of one point at a time.
class LensOfAll {
 public:
  /// All must outlive it.
  LensOfAll(Device& device, const Model& model, const Taps& taps, const std::vector<int32_t>& ids,
            const LookOptions& options);
  /// False: there were no more.
  bool step();
  std::vector<std::vector<LensPoint>> points;  ///< [points][T]

 private:
  const Taps& taps_;
  const std::vector<int32_t>& ids_;
  const bool causal_;
  const int64_t vocab_, top_;
  Lens lens_;
  ThreadPool team_;
  int64_t begin_ = 0;
  size_t point_ = 0;
  std::vector<float> output_;  // logits of the rows from begin_ on
};

/// Type of a model's tensors in memory.
inline Weights::DTypeOf dtypes_of(const Model& model) {
  return [store = model.params.get()](const std::string& name) { return store->type(name).dtype; };
}
/// As decoding computes: rounded products for quantized weights, or exact ones.
inline PlanOptions plan_options(bool exact) {
  PlanOptions o;
  if (!exact) o.products = DType::q8_0;
  return o;
}

}  // namespace toy::looking
