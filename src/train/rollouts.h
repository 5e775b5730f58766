// The answers that a step of reinforcement learning is made of: drawn from the model, judged, and weighed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toy/base/threads.h"
#include "toy/chat/chat_template.h"
#include "toy/decode/decoder.h"
#include "toy/runs/event.h"
#include "toy/train/policy.h"
#include "toy/train/reward.h"
#include "toy/train/trainer.h"
#include "train/checkpoints.h"
#include "train/dataset.h"
#include "train/sample_scores.h"

namespace toy {

/// Questions that nothing is learned from: those of these files, or else the last `fraction` of the others.
struct HeldOut {
  std::vector<TextFile> files = {};
  double fraction = 0;
};

/// Questions of a run, in an order that depends on the seed alone.
class Rollouts {
 public:
  /// Reads the questions. `chat`: nullptr where there is no template. What it is given must outlive it. Throws
  /// Error{bad_input} as read_open_questions() and Judge do.
  Rollouts(const PolicyOptions& options, const std::vector<TextFile>& files, const Tokenizer& tokenizer,
           const ChatTemplate* chat, uint64_t seed, const std::function<void(const std::string&)>& warn,
           const HeldOut& held_out = {});

  /// That are learned from.
  int64_t questions() const { return learned_; }
  /// That are validated on, of which a validation asks `limit` at most (0: all).
  int64_t held_out(int64_t limit = 0) const;
  /// Tokens of the longest prompt with an answer, of those that are learned from; of all.
  int64_t longest() const { return longest_ + o_.max_tokens; }
  int64_t longest_of_all() const { return longest_of_all_ + o_.max_tokens; }
  /// Takes the model whose answers are drawn, and the trainer that learns from them: its batch, tokens and spread.
  /// `model` must outlive it. `compare_every`: where a row of the last layer has the same checksum in training
  /// as in drawing, its probability is computed again in the first step and in steps 0, N, 2 N, ... of the run.
  /// `base`: what PolicyOptions::beta keeps the model near, with the same shape; nullptr: the model without its last
  /// adapter. It must outlive it, too.
  void begin(Device& device, const Model& model, const TrainerOptions& trainer, const Model* base = nullptr,
             int64_t compare_every = 16);

  /// Bytes that begin() with the same arguments will hold, in addition to the weights and those of `base`. Allocates
  /// nothing.
  size_t bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
               const TrainerOptions& trainer) const;

  /// What a step is made of.
  struct Step {
    Windows windows;             ///< batches of places; none where nothing can be learned
    std::vector<float> weights;  ///< of their targets
    runs::Policy policy;         ///< what the answers were like
    runs::Sample sample;         ///< one of them
    int64_t tokens = 0;          ///< of all answers
    int64_t number = 0;          ///< of the run, from 0
    /// An answer, in the order of the windows.
    struct Answer {
      double advantage = 0, per_token = 0;
      std::vector<double> logprobs;  ///< of the sampler, which are those before the step's first update
      std::vector<uint64_t> rows;    ///< GeneratedToken::row_checksum
    };
    std::vector<Answer> answers;
  };
  /// Draws and judges the answers to questions [first, first + questions of a step), counted through all epochs.
  Step step(int64_t first);
  /// Learns from a step, in as many updates as the options say, and adds what that showed to its `policy`. Returns what
  /// the first one did, or one that was not finite, after which there is none.
  StepResult learn(Step& step, Trainer& trainer, double lr);
  /// The likeliest answers to the held-out questions, which depend on the model alone. Asks `limit` of them at most (0:
  /// all), the first ones, in held_out_rounds() rounds. `stop` is asked before each; once it says true, there is no
  /// result.
  struct Validation {
    double reward = 0, error = 0;  ///< the mean of those that were judged, and its standard error
    bool whole = true;             ///< all were asked
  };
  std::optional<Validation> validate(int64_t limit, const std::function<bool()>& stop);
  int64_t held_out_rounds(int64_t limit) const;
  /// What to say of a step in which more than 20% of the answers were cut; "" otherwise, and from the second on.
  std::string many_cut(const runs::Policy& policy);
  /// Why nothing is learned, where many steps in a row had nothing to learn from; else "".
  std::string stuck(const runs::Policy& policy, RunState& state) const;
  /// What the rewards give right answers and wrong ones, line by line; and whether a wrong one gets as much.
  std::vector<std::string> try_rewards();

 private:
  using Scores = std::vector<double>;  // log probabilities
  struct Answer {
    size_t question = 0;
    std::vector<int32_t> ids;
    std::vector<double> logprobs;
    std::vector<uint64_t> rows;  // GeneratedToken::row_checksum
    double entropy = 0;          // the sum over its tokens
    Attempt attempt;
  };
  class Packer;
  /// What is asked: a question, and how its answer is drawn.
  struct Asked {
    size_t question = 0;
    SamplerOptions sampler;
  };
  DecoderOptions decoder_options() const;
  size_t question_at(int64_t number);
  std::vector<Answer> ask(const std::vector<Asked>& asked, bool watched);
  std::vector<Answer> draw(int64_t first);
  Windows batches(const std::vector<Answer>& answers, const std::vector<size_t>& order) const;
  StepResult update(Step& step, Trainer& trainer, double lr);
  void weigh(const std::vector<Answer>& answers, const PolicyWeights& of, const std::vector<size_t>& order, Step& step);
  /// Of all targets that count, in their order.
  Scores scores_of(SampleScorer& scorer, const Windows& windows) const;
  std::pair<size_t, size_t> best_rewarded();
  void drop_unweighed(Step& step) const;
  /// Sets the weights of an update, which are those of the model as it is now. Returns how many tokens it clips.
  int64_t weigh_update(Step& step, const Scores& now, const Scores& base, double& deviation) const;

  const PolicyOptions o_;
  const Tokenizer& tokenizer_;
  uint64_t seed_;
  std::vector<OpenQuestion> questions_;  // those that are learned from come first
  int64_t learned_ = 0;
  std::vector<std::vector<int32_t>> prompts_;
  int64_t longest_ = 0, longest_of_all_ = 0;
  Judge judge_;
  bool told_of_cut_ = false;
  int64_t epoch_ = -1;
  std::vector<size_t> order_;        // of that epoch
  int64_t places_ = 0, spread_ = 0;  // of a batch
  int64_t compare_every_ = 0;
  bool compared_ = false;  // has a step of this process been compared completely?
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<ThreadPool> team_;  // draws
  std::unique_ptr<SampleScorer> scorer_, reference_;
};

/// Those of a run whose data are questions. They say how many tokens a sequence has, where the options do not. Throws
/// Error{bad_input} where the model has too few positions for an answer.
std::unique_ptr<Rollouts> make_rollouts(RecipeOptions& options, const Dataset& data, const ModelSpec& spec,
                                        const Tokenizer& tokenizer, Teller& tell);

}  // namespace toy
