#include "train/rollouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "toy/base/checksum.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/base/utf8.h"
#include "toy/decode/service.h"
#include "train/feed.h"

namespace toy {
namespace {

constexpr size_t kTried = 64;  // questions whose right answers the rewards are tried on

constexpr int64_t kTogether = 64;  // answers that are written at once
constexpr int64_t kRound = 256;    // questions of a validation between two looks at whether the run is to end

std::vector<OpenQuestion> read(const std::vector<TextFile>& files) {
  std::vector<OpenQuestion> all;
  for (const TextFile& file : files)
    for (OpenQuestion& q : read_open_questions(file)) all.push_back(std::move(q));
  return all;
}

double mean(double sum, int64_t n) { return n > 0 ? sum / double(n) : 0; }

}  // namespace

Rollouts::Rollouts(const PolicyOptions& options, const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                   const ChatTemplate* chat, uint64_t seed, const std::function<void(const std::string&)>& warn,
                   const HeldOut& held_out)
    : o_(options),
      tokenizer_(tokenizer),
      seed_(seed),
      questions_(read(files)),
      judge_(options.rewards, options.reward_timeout) {
  const auto all = int64_t(questions_.size());
  learned_ = all - (held_out.files.empty() ? int64_t(double(all) * held_out.fraction) : 0);
  for (OpenQuestion& q : read(held_out.files)) questions_.push_back(std::move(q));
  prompts_ = prompt_ids(questions_, tokenizer, chat, warn);
  for (size_t i = 0; i < prompts_.size(); ++i) {
    longest_of_all_ = std::max(longest_of_all_, int64_t(prompts_[i].size()));
    if (int64_t(i) < learned_) longest_ = longest_of_all_;
  }
  if (tokenizer.end_of_generation().empty())
    warn("no token ends an answer of this model: all are cut at --max-tokens; train it with a chat template");
}

// In f32 and exactly, as training computes.
DecoderOptions Rollouts::decoder_options() const {
  const int64_t sequences = std::min(kTogether, o_.questions * o_.group);
  return {.sequences = int(sequences),
          .context = longest_of_all(),
          .max_rows = std::max(sequences, std::min<int64_t>(512, sequences * longest_)),
          .kv = DType::f32,
          .exact = true,
          .hidden = true};
}

size_t Rollouts::bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                       const TrainerOptions& t) const {
  const auto scoring = [&](bool forward) {
    return SampleScorer::bytes(device, spec, dtype_of, t.batch, t.tokens, t.spread, forward);
  };
  return decoder_bytes(device, spec, dtype_of, decoder_options()) + scoring(o_.num_iterations > 1) +
         (o_.beta > 0 ? scoring(true) : 0);
}

void Rollouts::begin(Device& device, const Model& model, const TrainerOptions& t, const Model* base,
                     int64_t compare_every) {
  places_ = t.batch * t.tokens, spread_ = t.spread, compare_every_ = compare_every;
  decoder_ = std::make_unique<Decoder>(device, model, decoder_options());
  team_ = std::make_unique<ThreadPool>(device.host_threads());
  scorer_ =
      std::make_unique<SampleScorer>(device, model, model.spec, t.batch, t.tokens, t.spread, o_.num_iterations > 1);
  if (o_.beta == 0) return;
  ModelSpec spec = model.spec;
  if (!base) spec.adapters.pop_back();
  reference_ = std::make_unique<SampleScorer>(device, base ? *base : model, spec, t.batch, t.tokens, t.spread, true);
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
  std::vector<Asked> asked(size_t(o_.questions * o_.group));
  const Philox seeds(seed_, "answers");
  for (size_t i = 0; i < asked.size(); ++i) {
    const int64_t number = first + int64_t(i) / o_.group;
    const uint64_t draw = uint64_t(number * o_.group) + i % uint64_t(o_.group);
    asked[i].question = question_at(number);
    asked[i].sampler.temperature = 1;
    asked[i].sampler.seed = uint64_t(seeds.word(2 * draw)) << 32 | seeds.word(2 * draw + 1);
  }
  return ask(asked, true);
}

// `watched`: with the entropies of the tokens, and checksums of their rows.
std::vector<Rollouts::Answer> Rollouts::ask(const std::vector<Asked>& asked, bool watched) {
  // The weights have changed: nothing that was computed with the old ones may be found again.
  for (int s = 0; s < decoder_->state().sequences(); ++s) decoder_->state().reset(s);
  GenerationService service(*decoder_, &tokenizer_);
  service.share_from(1);  // the answers of a group wait for its prompt
  service.draw_with(*team_);
  std::vector<Answer> answers(asked.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    Answer& a = answers[i];
    a.question = asked[i].question;
    a.attempt.question = &questions_[a.question];
    TextRequest r{.prompt = prompts_[a.question],
                  .options = {.max_tokens = o_.max_tokens, .entropy = watched, .row_checksum = watched}};
    r.options.sampler = asked[i].sampler;
    r.on_text = [&a](const GeneratedToken&, const std::string& text) {
      a.attempt.text += text;
      return true;
    };
    r.on_end = [&a](const TextEnd& end) {
      if (end.error) std::rethrow_exception(end.error);
      a.attempt.text += end.text;
      for (const GeneratedToken& t : end.generated.tokens) {
        a.ids.push_back(t.chosen.id), a.logprobs.push_back(t.chosen.logprob), a.rows.push_back(t.row_checksum);
        a.entropy += t.entropy;
      }
      a.attempt.tokens = int64_t(a.ids.size());
      a.attempt.finished = end.generated.reason == FinishReason::eos;
    };
    service.submit(std::move(r));
  }
  service.run();
  return answers;
}

int64_t Rollouts::held_out(int64_t limit) const {
  const int64_t all = int64_t(questions_.size()) - learned_;
  return limit > 0 ? std::min(limit, all) : all;
}

int64_t Rollouts::held_out_rounds(int64_t limit) const { return (held_out(limit) + kRound - 1) / kRound; }

std::optional<Rollouts::Validation> Rollouts::validate(int64_t limit, const std::function<bool()>& stop) {
  const int64_t count = held_out(limit);
  double sum = 0, squares = 0;
  int64_t judged = 0;
  for (int64_t first = 0; first < count; first += kRound) {
    if (stop()) return std::nullopt;
    std::vector<Asked> asked(size_t(std::min(kRound, count - first)));
    for (size_t i = 0; i < asked.size(); ++i) {
      asked[i].question = size_t(learned_ + first) + i;
      asked[i].sampler.temperature = 0;
    }
    std::vector<Attempt> attempts;
    for (Answer& a : ask(asked, false)) attempts.push_back(std::move(a.attempt));
    for (const Judgement& j : judge_(attempts))
      if (j.total) ++judged, sum += *j.total, squares += *j.total * *j.total;
  }
  const double reward = mean(sum, judged), variance = std::max(0.0, mean(squares, judged) - reward * reward);
  return Validation{reward, judged > 1 ? std::sqrt(variance / double(judged - 1)) : 0, count == held_out()};
}

// Puts prompts and answers into batches, one after the other. An answer's part begins with the last token of the
// prompt, which gives the first of the answer. Where beginnings are shared, the tokens before are there once for all
// answers of a group; else for each of them.
class Rollouts::Packer {
 public:
  Packer(int64_t places, int64_t spread) : places_(places), spread_(spread) {}
  void add(const Answer& answer, const std::vector<int32_t>& prompt) {
    const auto before = int64_t(prompt.size()) - 1, length = int64_t(answer.ids.size());
    const auto needs = [&] { return length + (has(answer) ? 0 : before); };
    const auto used = int64_t(batch_.inputs.size());
    if (used + needs() > places_ || (spread_ > 0 && seen_ + 2 * before + length + places_ - used > spread_)) close();
    if (!has(answer)) {
      if (before > 0) ++sequence_;
      for (int64_t t = 0; t < before; ++t) place(prompt[size_t(t)], prompt[size_t(t) + 1], t, false);
      question_ = answer.question;
      seen_ += before;
    }
    if (spread_ > 0 || before == 0) ++sequence_;
    for (int64_t t = 0; t < length; ++t)
      place(t == 0 ? prompt.back() : answer.ids[size_t(t) - 1], answer.ids[size_t(t)], before + t, true);
    seen_ += before + length;
    if (spread_ == 0) question_.reset();
  }
  Windows all() {
    if (!batch_.inputs.empty()) close();
    return std::move(all_);
  }

 private:
  bool has(const Answer& answer) const { return question_ == answer.question; }
  void place(int32_t input, int32_t target, int64_t position, bool trained) {
    batch_.inputs.push_back(input), batch_.targets.push_back(target);
    batch_.sequence.push_back(sequence_), batch_.position.push_back(int32_t(position));
    batch_.trained.push_back(trained);
  }
  void close() {
    pad(batch_, places_);
    for (const auto& [from, to] :
         {std::pair(&batch_.inputs, &all_.inputs), std::pair(&batch_.targets, &all_.targets),
          std::pair(&batch_.sequence, &all_.sequence), std::pair(&batch_.position, &all_.position)})
      to->insert(to->end(), from->begin(), from->end());
    all_.trained.insert(all_.trained.end(), batch_.trained.begin(), batch_.trained.end());
    batch_ = {};
    question_.reset(), sequence_ = 0, seen_ = 0;
  }
  const int64_t places_, spread_;
  int64_t seen_ = 0;                // rows that attention sees of the batch
  std::optional<size_t> question_;  // whose prompt an answer can continue
  int32_t sequence_ = 0;
  Windows batch_, all_;
};

Windows Rollouts::batches(const std::vector<Answer>& answers, const std::vector<size_t>& order) const {
  Packer packer(places_, spread_);
  for (const size_t i : order) packer.add(answers[i], prompts_[answers[i].question]);
  return packer.all();
}

Rollouts::Scores Rollouts::scores_of(SampleScorer& scorer, const Windows& windows) const {
  Scores all;
  for (int64_t begin = 0; begin < int64_t(windows.inputs.size()); begin += places_) {
    const Scores some = scorer(windows.part(begin, places_));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

int64_t Rollouts::weigh_update(Step& step, const Scores& now, const Scores& base, double& deviation) const {
  step.weights.assign(step.windows.inputs.size(), 0);
  int64_t clipped = 0;
  size_t first = 0, place = 0;  // token of all answers; place in the windows
  for (const Step::Answer& a : step.answers) {
    std::vector<double> ratios, to_base;
    for (size_t t = 0; t < a.logprobs.size(); ++t) {
      const double logprob = now.empty() ? a.logprobs[t] : now[first + t];
      ratios.push_back(logprob - a.logprobs[t]);
      if (!base.empty()) to_base.push_back(base[first + t] - logprob);
    }
    const AnswerWeights w = update_weights(o_, a.advantage, a.per_token, ratios, to_base);
    for (const double weight : w.tokens) {
      while (!step.windows.counts(place)) ++place;
      step.weights[place++] = float(weight);
    }
    first += a.logprobs.size();
    clipped += w.clipped, deviation = std::max(deviation, w.deviation);
  }
  return clipped;
}

// Weighs all answers; those that are learned from come first. The sampler's probabilities are those before the step's
// first update.
void Rollouts::weigh(const std::vector<Answer>& answers, const PolicyWeights& of, const std::vector<size_t>& order,
                     Step& step) {
  step.windows = batches(answers, order);
  const Scores base = reference_ ? scores_of(*reference_, step.windows) : Scores();
  double entropy = 0, kl = 0, none = 0;
  size_t at = 0;  // token of all answers
  for (const size_t i : order) {
    step.answers.push_back({of.advantage[i], of.per_token[i], answers[i].logprobs, answers[i].rows});
    entropy += answers[i].entropy;
    for (size_t t = 0; reference_ && t < answers[i].logprobs.size(); ++t) {
      const double d = base[at++] - answers[i].logprobs[t];  // log q/p
      kl += std::exp(d) - d - 1;
    }
  }
  step.policy.entropy = mean(entropy, step.tokens);
  if (reference_) step.policy.kl = mean(kl, step.tokens);
  weigh_update(step, {}, base, none);
  // Later updates leave the reference, even where the first one does not.
  if (reference_ && o_.num_iterations > 1) return;
  drop_unweighed(step);
}

// Batches at the end whose targets weigh nothing are not computed.
void Rollouts::drop_unweighed(Step& step) const {
  const auto last = std::find_if(step.weights.rbegin(), step.weights.rend(), [](float w) { return w != 0; });
  const int64_t learned = step.weights.rend() - last, kept = (learned + places_ - 1) / places_ * places_;
  step.windows = kept > 0 ? step.windows.part(0, kept) : Windows();
  step.weights.resize(size_t(kept));
  size_t tokens = 0, answers = 0;
  for (size_t i = 0; i < step.windows.inputs.size(); ++i) tokens += step.windows.counts(i);
  for (size_t seen = 0; seen < tokens; ++answers) seen += step.answers[answers].logprobs.size();
  step.answers.resize(answers);
}

// The first update, and how far the probabilities of its forward pass are from those of the sampler. Logits are
// computed again where the output projection multiplies other bits; in some steps everywhere, which compares projection
// and sampler, too.
StepResult Rollouts::update(Step& step, Trainer& trainer, double lr) {
  const bool all = !compared_ || step.number % compare_every_ == 0;
  compared_ = true;
  double deviation = 0;
  size_t answer = 0, token = 0;
  const auto compare = [&](int64_t first, const std::vector<float>& hidden) {
    const Windows batch = step.windows.part(first, places_);
    const size_t width = hidden.size() / size_t(places_);
    std::vector<size_t> others;
    std::vector<double> sampled;  // their log probabilities
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      if (!batch.counts(i)) continue;
      while (token == step.answers[answer].logprobs.size()) ++answer, token = 0;
      const Step::Answer& a = step.answers[answer];
      Xxh64 sum;
      sum.update(std::as_bytes(std::span(hidden).subspan(i * width, width)));
      if (all || sum.digest() != a.rows[token]) others.push_back(i), sampled.push_back(a.logprobs[token]);
      ++token;
    }
    const std::vector<double> now = scorer_->of(hidden, batch, others);
    for (size_t i = 0; i < now.size(); ++i)
      deviation = std::max(deviation, std::abs(std::exp(now[i] - sampled[i]) - 1));
  };
  const StepResult result = trainer.step(step.windows, lr, StepWeights{step.weights}, compare);
  step.policy.ratio_deviation = deviation;
  return result;
}

StepResult Rollouts::learn(Step& step, Trainer& trainer, double lr) {
  if (step.windows.inputs.empty()) return {};
  StepResult first = update(step, trainer, lr);
  if (o_.num_iterations == 1) return first;
  const Scores base = reference_ ? scores_of(*reference_, step.windows) : Scores();
  int64_t clipped = 0, tokens = 0;
  double drift = 0;
  for (int64_t i = 1; i < o_.num_iterations && !first.skipped; ++i) {
    const Scores now = scores_of(*scorer_, step.windows);
    clipped += weigh_update(step, now, base, drift), tokens += int64_t(now.size());
    if (const StepResult r = trainer.step(step.windows, lr, StepWeights{step.weights}); r.skipped) first = r;
  }
  step.policy.ratio_drift = drift, step.policy.clip_share = mean(double(clipped), tokens);
  return first;
}

Rollouts::Step Rollouts::step(int64_t first) {
  Step step;
  step.number = first / o_.questions;
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
  step.policy.ratio_deviation = 0;  // of a step without an update
  step.policy.seconds_sampling = drawn - begin, step.policy.seconds_reward = steady_seconds() - drawn;
  const PolicyWeights weights = policy_weights(o_, samples);
  if (of > 0) step.policy.reward = reward / double(of);
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
  step.sample = {shown.text, prompt, shown.question->answers[0], judged[0].total};
  return step;
}

std::string Rollouts::many_cut(const runs::Policy& policy) {
  constexpr double kMany = 0.2;
  const double cut = 1 - policy.finished.value_or(1);
  if (cut <= kMany || told_of_cut_ || tokenizer_.end_of_generation().empty()) return {};
  told_of_cut_ = true;
  return fmt::format(
      "{:.0f}% of the answers of a step were cut at --max-tokens {}; use a larger one, or shorter answers", 100 * cut,
      o_.max_tokens);
}

std::string Rollouts::stuck(const runs::Policy& policy, RunState& state) const {
  constexpr int64_t kMost = 20, kMostCut = 5;
  state.unmixed = policy.mixed.value_or(0) > 0 || o_.beta > 0 ? 0 : state.unmixed + 1;
  state.cut = state.unmixed > 0 && policy.finished.value_or(0) == 0 ? state.cut + 1 : 0;
  if (state.cut >= kMostCut && !tokenizer_.end_of_generation().empty())
    return fmt::format(
        "in {} steps in a row, all answers were cut at --max-tokens {} and none got another first reward than the "
        "others, so there is nothing to learn; use a larger --max-tokens",
        state.cut, o_.max_tokens);
  if (state.unmixed < kMost) return {};
  return fmt::format(
      "in {} steps in a row, the answers to each question had the same first reward, so there is nothing to learn: "
      "{}, {:.0f}% cut at --max-tokens {}. Use questions that the model answers sometimes, or more answers (--group)",
      state.unmixed,
      policy.reward ? fmt::format("mean reward {:g}", *policy.reward)
                    : "no answer of the last one was judged (all rewards are null)",
      100 * (1 - policy.finished.value_or(0)), o_.max_tokens);
}

std::vector<std::string> Rollouts::try_rewards() {
  constexpr size_t kLong = 4096;
  const auto [best, without] = best_rewarded();
  const OpenQuestion& q = questions_[best];
  const std::string right = q.answers[0];
  std::string other = "no";
  for (const OpenQuestion& each : std::span(questions_).first(size_t(learned_)))
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
  const auto& best_total = judged[0].total;  // of the right answer; all rewards may be below 0
  const bool fits = best_total && (*best_total > 0 || (judged[1].total && *best_total > *judged[1].total));
  const auto number = [](std::optional<double> v) { return v ? fmt::format("{:g}", *v) : std::string("none"); };
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string terms;
    for (size_t r = 0; judge_.names().size() > 1 && r < judge_.names().size(); ++r)
      terms += fmt::format("{}{} {}", r > 0 ? ", " : " = ", judge_.names()[r], number(judged[i].terms[r]));
    lines.push_back(fmt::format("reward of {}: {}{}", texts[i].first, number(judged[i].total), terms));
    const bool as_much = i > 0 && fits && judged[i].total && *judged[i].total >= *best_total;
    if (as_much && texts[i].second != right) lines.back() += "; a model can get it without being right";
  }
  if (best_total && *best_total < 0 && !fits)
    lines.emplace_back("no right answer gets more than no text; does the reward fit the questions?");
  else if (without > 0)
    lines.push_back(
        fmt::format("of the first {} questions, {} give no reward for their right answer; does it fit them?",
                    std::min(kTried, size_t(learned_)), without));
  const auto tried = std::span(questions_).first(std::min(kTried, size_t(learned_)));
  const auto is_long = [&](const std::string& answer) { return std::ssize(tokenizer_.encode(answer)) > o_.max_tokens; };
  const auto too_long = std::ranges::count_if(
      tried, [&](const OpenQuestion& each) { return std::ranges::all_of(each.answers, is_long); });
  if (too_long > 0)
    lines.push_back(
        fmt::format("of the first {} questions, {} have only answers longer than --max-tokens {}; use a larger one",
                    tried.size(), too_long, o_.max_tokens));
  return lines;
}

// Of the first questions: the one whose right answer gets most, and how many right answers get nothing.
std::pair<size_t, size_t> Rollouts::best_rewarded() {
  std::vector<Attempt> attempts;
  for (size_t i = 0; i < std::min(kTried, size_t(learned_)); ++i)
    attempts.push_back({&questions_[i], questions_[i].answers[0], 1, true});
  const std::vector<Judgement> judged = judge_(attempts);
  const auto total = [](const Judgement& j) { return j.total.value_or(-std::numeric_limits<double>::infinity()); };
  const auto best = std::ranges::max_element(judged, {}, total);
  const bool below = total(*best) < 0;  // where all are, they say nothing by their sign
  const auto without =
      std::ranges::count_if(judged, [&](const Judgement& j) { return !j.total || (!below && total(j) <= 0); });
  return {size_t(best - judged.begin()), size_t(without)};
}

}  // namespace toy
