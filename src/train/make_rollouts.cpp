// Reinforcement learning of a run: its questions, and the batches that they need.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "train/rollouts.h"

namespace toy {
namespace {

// Sizes of batches, where the options leave them open. A group's answers share its prompt where the model can. Batches
// of about kUsual places do well: larger ones have more padding in the last one, smaller ones read weights more often.
void fit_batches(RecipeOptions& o, const Rollouts& rollouts, const ModelSpec& spec) {
  constexpr int64_t kMultiple = 64, kUsual = 640;
  const int64_t longest = rollouts.longest();
  const auto rounded = [](int64_t n) { return (n + kMultiple - 1) / kMultiple * kMultiple; };
  const bool spread = can_spread(spec);
  const int64_t before = longest - o.policy->max_tokens - 1;  // places of a prompt but its last
  const int64_t group = spread ? before + o.policy->group * o.policy->max_tokens : o.policy->group * (longest - 1);
  if (o.fit_tokens) {
    o.trainer.tokens = rounded(longest);
    if (o.fit_batch) {  // as many batches as about kUsual places take, all equally full
      const int64_t all = group * o.policy->questions, count = std::max<int64_t>(1, (all + kUsual / 2) / kUsual);
      const int64_t places = std::max(o.trainer.tokens, rounded((all + count - 1) / count));
      o.trainer.batch = (places + o.trainer.tokens - 1) / o.trainer.tokens;
      for (int64_t t = o.trainer.tokens; t <= std::min(2 * rounded(longest), spec.context); t += kMultiple)
        if (const int64_t b = (places + t - 1) / t; b * t < o.trainer.batch * o.trainer.tokens)
          o.trainer.tokens = t, o.trainer.batch = b;
    }
  }
  check(longest <= o.trainer.tokens, "tokens is {}: the longest prompt with its answer has {}", o.trainer.tokens,
        longest);
  const int64_t places = o.trainer.batch * o.trainer.tokens;
  o.trainer.hidden = true;
  if (spread && before > 0)
    o.trainer.spread = std::max(2 * places, places * o.policy->group * longest / group) + 2 * longest;
}

}  // namespace

std::unique_ptr<Rollouts> make_rollouts(RecipeOptions& o, const Dataset& data, const ModelSpec& spec,
                                        const Tokenizer& tokenizer, Teller& tell) {
  check(o.trainer.shards == 1 && !o.trainer.ranks,
        "grpo: answers are drawn and learned in one process and one shard; start it without a launcher and --shards");
  check(o.policy->num_iterations > 1 || !(o.policy->epsilon || o.policy->epsilon_high),
        "{} changes nothing where a step has one update; add --num-iterations",
        o.policy->epsilon ? "epsilon" : "epsilon-high");
  auto made = std::make_unique<Rollouts>(
      *o.policy, data.files(), tokenizer, data.chat_template(), o.seed,
      [&tell](const std::string& text) { tell.warn(text); },
      HeldOut{data.validation_files(), o.data.validation_fraction});
  check(made->questions() > 0, "val-fraction is {}, which leaves no question to learn from; use a smaller one",
        o.data.validation_fraction);
  check(made->held_out() > 0 || o.data.validation_fraction == 0,
        "val-fraction is {}, and of {} that is none; use a larger one, or --val", o.data.validation_fraction,
        counted(made->questions(), "question"));
  const char* const needs = o.patience > 0      ? "patience"
                            : o.eval_every > 0  ? "eval-every"
                            : o.eval_tokens > 0 ? "eval-tokens"
                                                : nullptr;
  check(!needs || made->held_out() > 0, "{}: there are no questions to validate on; give --val or --val-fraction",
        needs ? needs : "");
  const int64_t longest = made->longest_of_all();
  check(longest <= spec.context,
        "max-tokens is {}: with the longest prompt that is {} tokens, and the model has {} positions",
        o.policy->max_tokens, longest, spec.context);
  fit_batches(o, *made, spec);
  return made;
}

}  // namespace toy
