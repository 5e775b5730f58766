#include "train/rollouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/base/utf8.h"
#include "toy/decode/service.h"
#include "train/feed.h"

namespace toy {
namespace {

constexpr int64_t kTogether = 64;  // answers that are written at once

std::vector<OpenQuestion> read(const std::vector<TextFile>& files) {
  std::vector<OpenQuestion> all;
  for (const TextFile& file : files)
    for (OpenQuestion& q : read_open_questions(file)) all.push_back(std::move(q));
  return all;
}

double mean(double sum, int64_t n) { return n > 0 ? sum / double(n) : 0; }

}  // namespace

Rollouts::Rollouts(const PolicyOptions& options, const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                   const ChatTemplate* chat, uint64_t seed, const std::function<void(const std::string&)>& warn)
    : o_(options),
      tokenizer_(tokenizer),
      seed_(seed),
      questions_(read(files)),
      prompts_(prompt_ids(questions_, tokenizer, chat, warn)),
      judge_(options.rewards, options.reward_timeout) {
  for (const auto& ids : prompts_) longest_ = std::max(longest_, int64_t(ids.size()));
  if (tokenizer.end_of_generation().empty())
    warn("no token ends an answer of this model: all are cut at --max-tokens; train it with a chat template");
}

void Rollouts::begin(Device& device, const Model& model, int64_t batch, int64_t tokens) {
  batch_ = batch, tokens_ = tokens;
  const int64_t sequences = std::min(kTogether, o_.questions * o_.group);
  // In f32 and exactly, as training computes.
  decoder_ = std::make_unique<Decoder>(
      device, model,
      DecoderOptions{.sequences = int(sequences),
                     .context = longest(),
                     .max_rows = std::max(sequences, std::min<int64_t>(512, sequences * longest_)),
                     .kv = DType::f32,
                     .exact = true});
  scorer_ = std::make_unique<SampleScorer>(device, model, model.spec, batch, tokens);
  if (o_.beta == 0) return;
  ModelSpec base = model.spec;
  base.adapters.pop_back();
  reference_ = std::make_unique<SampleScorer>(device, model, base, batch, tokens);
}

size_t Rollouts::question_at(int64_t number) {
  const int64_t n = questions(), epoch = number / n;
  if (epoch != epoch_) {
    epoch_ = epoch;
    order_.resize(size_t(n));
    std::iota(order_.begin(), order_.end(), size_t(0));
    const Philox random(seed_, fmt::format("questions {}", epoch));
    for (size_t i = size_t(n) - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i, i + 1)]);
  }
  return order_[size_t(number % n)];
}

std::vector<Rollouts::Answer> Rollouts::draw(int64_t first) {
  // The weights have changed: nothing that was computed with the old ones may be found again.
  for (int s = 0; s < decoder_->state().sequences(); ++s) decoder_->state().reset(s);
  GenerationService service(*decoder_, &tokenizer_);
  std::vector<Answer> answers(size_t(o_.questions * o_.group));
  const Philox seeds(seed_, "answers");
  for (size_t i = 0; i < answers.size(); ++i) {
    Answer& a = answers[i];
    const int64_t number = first + int64_t(i) / o_.group;
    a.question = question_at(number);
    a.attempt.question = &questions_[a.question];
    TextRequest r{.prompt = prompts_[a.question], .options = {.max_tokens = o_.max_tokens}};
    const uint64_t draw = uint64_t(number * o_.group) + i % uint64_t(o_.group);
    r.options.sampler.temperature = 1;
    r.options.sampler.seed = uint64_t(seeds.word(2 * draw)) << 32 | seeds.word(2 * draw + 1);
    r.on_text = [&a](const GeneratedToken&, const std::string& text) {
      a.attempt.text += text;
      return true;
    };
    r.on_end = [&a](const TextEnd& end) {
      if (end.error) std::rethrow_exception(end.error);
      a.attempt.text += end.text;
      for (const GeneratedToken& t : end.generated.tokens)
        a.ids.push_back(t.chosen.id), a.logprobs.push_back(t.chosen.logprob);
      a.attempt.tokens = int64_t(a.ids.size());
      a.attempt.finished = end.generated.reason == FinishReason::eos;
    };
    service.submit(std::move(r));
  }
  service.run();
  return answers;
}

// Prompts with their answers, one after the other; none crosses the end of a batch.
Windows Rollouts::batches(const std::vector<Answer>& answers, const std::vector<size_t>& order) const {
  const int64_t places = batch_ * tokens_;
  Windows all, batch;
  const auto close = [&] {
    pad(batch, places);
    for (const auto& [from, to] :
         {std::pair(&batch.inputs, &all.inputs), std::pair(&batch.targets, &all.targets),
          std::pair(&batch.sequence, &all.sequence), std::pair(&batch.position, &all.position)})
      to->insert(to->end(), from->begin(), from->end());
    all.trained.insert(all.trained.end(), batch.trained.begin(), batch.trained.end());
    batch = {};
  };
  int32_t sequence = 0;
  for (const size_t i : order) {
    std::vector<int32_t> ids = prompts_[answers[i].question];
    const size_t prompt = ids.size();
    ids.insert(ids.end(), answers[i].ids.begin(), answers[i].ids.end());
    if (int64_t(batch.inputs.size() + ids.size() - 1) > places) close(), sequence = 0;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      batch.inputs.push_back(ids[t]), batch.targets.push_back(ids[t + 1]);
      batch.sequence.push_back(sequence), batch.position.push_back(int32_t(t));
      batch.trained.push_back(t + 1 >= prompt);
    }
    ++sequence;
  }
  if (!batch.inputs.empty()) close();
  return all;
}

// Scores all answers; weighs those that are learned from, which come first.
void Rollouts::weigh(const std::vector<Answer>& answers, const PolicyWeights& of, const std::vector<size_t>& order,
                     Step& step) {
  const int64_t places = batch_ * tokens_;
  const Windows all = batches(answers, order);
  double entropy = 0, kl = 0, deviation = 0;
  size_t at = 0, token = 0, learned = 0;  // answer in the order, its token, places with a weight
  step.weights.assign(all.inputs.size(), 0);
  for (int64_t begin = 0; begin < int64_t(all.inputs.size()); begin += places) {
    const Windows batch = all.part(begin, places);
    const std::vector<SampleScorer::Score> scores = (*scorer_)(batch);
    std::vector<SampleScorer::Score> base;
    if (reference_) base = (*reference_)(batch);
    size_t next = 0;
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      if (!batch.counts(i)) continue;
      const Answer& a = answers[order[at]];
      const SampleScorer::Score& score = scores[next];
      deviation = std::max(deviation, std::abs(std::exp(score.logprob - a.logprobs[token]) - 1));
      entropy += score.entropy;
      double c = of.advantage[order[at]];
      if (reference_) {
        const double d = base[next].logprob - score.logprob;  // log q/p
        kl += std::exp(d) - d - 1, c += o_.beta * d;
      }
      const double weight = c * of.per_token[order[at]];
      step.weights[size_t(begin) + i] = float(weight);
      if (weight != 0) learned = size_t(begin) + i + 1;
      ++next;
      if (++token == a.ids.size()) token = 0, ++at;
    }
  }
  const int64_t kept = (int64_t(learned) + places - 1) / places * places;
  if (kept > 0) step.windows = all.part(0, kept);
  step.weights.resize(size_t(kept));
  step.policy.entropy = mean(entropy, step.tokens);
  if (reference_) step.policy.kl = mean(kl, step.tokens);
  step.policy.ratio_deviation = deviation;
}

Rollouts::Step Rollouts::step(int64_t first) {
  Step step;
  const double begin = steady_seconds();
  const std::vector<Answer> answers = draw(first);
  const double drawn = steady_seconds();
  std::vector<Attempt> attempts;
  for (const Answer& a : answers) attempts.push_back(a.attempt);
  const std::vector<Judgement> judged = judge_(attempts);
  std::vector<PolicySample> samples;
  double reward = 0;
  int64_t of = 0, finished = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    samples.push_back({int64_t(i) / o_.group, int64_t(answers[i].ids.size()), judged[i].total, judged[i].terms.at(0)});
    step.tokens += samples.back().tokens, finished += attempts[i].finished;
    if (judged[i].total) reward += *judged[i].total, ++of;
  }
  step.policy.seconds_sampling = drawn - begin, step.policy.seconds_reward = steady_seconds() - drawn;
  const PolicyWeights weights = policy_weights(o_, samples);
  step.policy.reward = mean(reward, of);
  step.policy.mixed = mean(double(weights.mixed), weights.groups);
  step.policy.finished = mean(double(finished), int64_t(answers.size()));
  step.policy.length = mean(double(step.tokens), int64_t(answers.size()));
  std::vector<size_t> order(answers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return weights.advantage[i] != 0; });
  weigh(answers, weights, order, step);
  const Attempt& shown = attempts[0];
  std::string prompt;
  for (const int32_t id : prompts_[answers[0].question]) prompt += tokenizer_.written(id);
  step.sample = {shown.text, prompt, shown.question->answers[0]};
  return step;
}

std::string Rollouts::stuck(const runs::Policy& policy) {
  constexpr int64_t kMost = 20;
  unmixed_ = policy.mixed.value_or(0) > 0 || o_.beta > 0 ? 0 : unmixed_ + 1;
  if (unmixed_ < kMost) return {};
  return fmt::format(
      "in {} steps in a row, the answers to each question had the same first reward, so there is nothing to learn: "
      "mean reward {:g}, {:.0f}% cut at --max-tokens {}. Use questions that the model answers sometimes, or more "
      "answers "
      "(--group)",
      unmixed_, policy.reward.value_or(0), 100 * (1 - policy.finished.value_or(0)), o_.max_tokens);
}

std::vector<std::string> Rollouts::try_rewards() {
  constexpr size_t kLong = 4096;
  const OpenQuestion& q = questions_[0];
  const std::string right = q.answers[0];
  std::string other = "no";
  for (const OpenQuestion& each : questions_)
    if (each.answers[0] != right) other = each.answers[0];
  const std::vector<std::pair<const char*, std::string>> texts{{"the right answer", right},
                                                               {"no text", ""},
                                                               {"the right answer twice", right + " " + right},
                                                               {"the question", q.prompt},
                                                               {"an answer to another question", other},
                                                               {"4096 times the letter a", std::string(kLong, 'a')},
                                                               {"bytes that are no UTF-8", "\xff\xfe"}};
  std::vector<Attempt> attempts;
  for (const auto& t : texts) attempts.push_back({&q, t.second, 1, true});
  const std::vector<Judgement> judged = judge_(attempts);
  std::vector<std::string> lines;
  const auto number = [](std::optional<double> v) { return v ? fmt::format("{:g}", *v) : std::string("none"); };
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string terms;
    for (size_t r = 0; judge_.names().size() > 1 && r < judge_.names().size(); ++r)
      terms += fmt::format("{}{} {}", r > 0 ? ", " : " = ", judge_.names()[r], number(judged[i].terms[r]));
    lines.push_back(fmt::format("reward of {}: {}{}", texts[i].first, number(judged[i].total), terms));
    const bool as_much = i > 0 && judged[i].total && (!judged[0].total || *judged[i].total >= *judged[0].total);
    if (as_much && texts[i].second != right) lines.back() += "; a model can get it without being right";
  }
  return lines;
}

std::unique_ptr<Rollouts> make_rollouts(RecipeOptions& o, const Dataset& data, const ModelSpec& spec,
                                        const Tokenizer& tokenizer, Teller& tell) {
  check(o.trainer.shards == 1 && !o.trainer.ranks,
        "grpo: answers are drawn and learned in one process and one shard; start it without a launcher and --shards");
  check(o.policy->beta == 0 || !spec.adapters.empty(),
        "beta: the divergence is from the model without the adapter, and --full trains none");
  auto made = std::make_unique<Rollouts>(*o.policy, data.files(), tokenizer, data.chat_template(), o.seed,
                                         [&tell](const std::string& text) { tell.warn(text); });
  const int64_t longest = made->longest();
  check(longest <= spec.context,
        "max-tokens is {}: with the longest prompt that is {} tokens, and the model has {} positions",
        o.policy->max_tokens, longest, spec.context);
  constexpr int64_t kMultiple = 64;
  if (o.fit_tokens) o.trainer.tokens = (longest + kMultiple - 1) / kMultiple * kMultiple;
  check(longest <= o.trainer.tokens, "tokens is {}: the longest prompt with its answer has {}", o.trainer.tokens,
        longest);
  return made;
}

}  // namespace toy
