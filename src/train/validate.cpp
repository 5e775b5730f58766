#include "train/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "toy/base/clock.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/decode/generate.h"
#include "toy/decode/usual_sampling.h"
#include "toy/text/class_names.h"
#include "train/calibrate.h"
#include "train/rollouts.h"

namespace toy {
static void warn_of_patience(const RecipeOptions& o, Teller& tell) {
  if (o.patience == 0) return;
  const int64_t before = (o.steps - 1) / o.eval_every;  // the last step
  if (o.patience >= before)
    tell.warn(
        fmt::format("--patience {} cannot end this run early: it needs more than {} validations before the last step, "
                    "and --eval-every {} makes {}; use a smaller one",
                    o.patience, o.patience, o.eval_every, before));
}

void warn_of_long_validation(const RecipeOptions& o, const Dataset& data, Teller& tell) {
  constexpr int64_t kFewPlaces = 300'000;
  const bool all = o.eval_every > 0;  // is read at the end
  int64_t batches = 0;
  for (const ValidationText& text : data.validation())
    batches += evaluation_batches(text, all ? 0 : o.eval_tokens, o.trainer);
  // Computing a loss is a third of learning from it.
  const int64_t rows = batches * o.trainer.sequences();
  if (rows * o.trainer.tokens < kFewPlaces || rows / 3 / o.trainer.rows() < o.steps) return;
  const char* const cure = !all                        ? "--eval-tokens N reads a part"
                           : o.data.validation.empty() ? "a smaller --val-fraction holds out less"
                                                       : "give a shorter --val";
  tell.warn(fmt::format("the validation at the end takes longer than all steps: it reads {}, they learn from {}; {}",
                        counted(rows, "sequence"), o.steps * o.trainer.rows(), cure));
}

void require_validation(const RecipeOptions& o, const Dataset& data, Teller& tell) {
  if (!data.validation().empty() || o.policy) return warn_of_patience(o, tell);
  constexpr const char* kWhy = "no validation text has two tokens, so that one can be predicted from another";
  check(o.data.validation.empty(), "val: {}; give a longer one", kWhy);
  check(o.patience == 0, "patience: {}; give --val, or a larger --val-fraction", kWhy);
  if (o.eval_every > 0) tell.warn(fmt::format("eval-every: {}: there is nothing to validate on", kWhy));
  if (o.sample_tokens > 0) tell.warn(fmt::format("sample: {}: samples are written at validations", kWhy));
}

DecoderOptions sample_options(const RecipeOptions& o, const ModelSpec& spec) {
  return {.sequences = 1,
          .context = std::min(spec.context, o.trainer.tokens),
          .max_rows = 64,
          .check_finite = o.trainer.check_finite};
}

/// Means; see docs/data.md for several texts.
struct Validator::Losses {
  double loss = 0;  ///< nats per token
  double nats_per_byte = 0;
  bool whole = true;         ///< all of it was read
  std::vector<double> each;  ///< of each text
  PreferenceSums preference;
  int64_t ranked = 0, right = 0, among_5 = 0;
  bool few = false;
  std::optional<runs::JsonObject> classes;
};

// As the report shows it.
std::optional<runs::JsonObject> Validator::classes_of(const EvalResult& r, const ValidationText& text) const {
  const std::vector<std::string> names =
      model_.spec.vision.there() ? class_names(*model_.tokenizer) : model_.spec.score.names;
  const size_t n = names.size();
  if (r.confusion.empty()) return std::nullopt;  // too many classes
  nlohmann::ordered_json j{{"of", text.name}, {"names", nlohmann::ordered_json::array()}};
  for (const std::string& name : names) j["names"].push_back(valid_utf8(name));
  for (size_t k = 0; k < n; ++k)
    j["confusion"].push_back(
        std::vector(r.confusion.begin() + int64_t(k * n), r.confusion.begin() + int64_t(k * n + n)));
  j["worst"] = nlohmann::ordered_json::array();
  for (const EvalResult::Judged& w : r.worst)
    j["worst"].push_back({{"name", valid_utf8(data_.validation_name(w.row))},
                          {"class", valid_utf8(names[size_t(w.label)])},
                          {"chosen", valid_utf8(names[size_t(w.chosen)])},
                          {"nats", w.nats}});
  return runs::JsonObject{json_text(j)};
}

std::optional<Validator::Losses> Validator::losses(int64_t limit) {
  const auto stop = [this] {
    tell_.validating(std::min(done_++, in_total_), in_total_);
    return tell_.stop();
  };
  Losses all;
  double bytes_a_token = 0, of_chosen = 0;
  for (const ValidationText& text : data_.validation()) {
    const EvalResult r = trainer_.evaluate(*text.rows, limit, stop);
    if (tell_.stop()) return std::nullopt;
    const double bytes = text.bytes * double(r.tokens) / double(text.tokens);
    all.each.push_back(r.mean());
    all.loss += text.share * r.mean();
    all.whole &= r.tokens == text.tokens;
    bytes_a_token += text.share * bytes / double(r.tokens);
    all.nats_per_byte = r.nats / bytes;
    of_chosen += text.share * all.nats_per_byte;
    all.preference.add(r.preference);
    if (r.ranked) all.ranked += r.tokens, all.right += r.right, all.among_5 += r.among_5, all.few = r.few;
    if (!r.worst.empty()) all.classes = classes_of(r, text);
  }
  if (all.each.size() > 1) all.nats_per_byte = o_.trainer.preference ? of_chosen : all.loss / bytes_a_token;
  return all;
}

bool Validator::is_there() const { return rollouts_ ? rollouts_->held_out() > 0 : !data_.validation().empty(); }

bool Validator::evaluate(bool last) {
  if (!is_there()) return true;
  if (!is_made()) {
    const std::optional<Evaluation> e = run(o_.eval_tokens, true);
    if (!e) return false;
    judge(*e);
  }
  if (!last || is_final(*state_.eval)) return true;
  const std::optional<Evaluation> e = run(0, false);
  if (e) state_.eval = e;
  return e.has_value();
}

bool Validator::catch_up() {
  if (state_.step == 0) return true;
  const bool last = state_.step == o_.steps || (is_made() && patience_is_over());
  if (is_made() ? !last || is_final(*state_.eval) : !last && !is_due()) return true;
  const bool done = evaluate(last) && (last || !patience_is_over() || evaluate(true));
  if (checkpoints_) checkpoints_->tidy(state_);  // it may be the best now
  return done;
}

std::optional<Evaluation> Validator::look() {
  if (is_made() && is_final(*state_.eval)) return state_.eval;
  return run(o_.eval_every > 0 ? 0 : o_.eval_tokens, !is_made());
}

// A run that validates on its way reads the complete text at its end; one that does not, as much as it was told to.
bool Validator::is_final(const Evaluation& e) const { return e.whole || o_.eval_every == 0; }

// A loss that is not a number is no better. Of rewards the larger one is.
void Validator::judge(const Evaluation& e) {
  const auto loss_of = [](const Evaluation& of) { return of.reward ? -*of.reward : of.loss; };
  const double loss = loss_of(e);
  const bool better = agree(loss < state_.least - o_.min_delta);
  state_.waited = better ? 0 : state_.waited + 1;
  if (better) state_.least = loss;
  state_.eval = e;
  const bool best = !state_.best || loss < loss_of(*state_.best);
  if (best && std::isfinite(loss)) state_.best = e;
}

std::optional<Evaluation> Validator::run(int64_t limit, bool with_sample) {
  const double begin = steady_seconds();
  done_ = 0, in_total_ = batches(limit);
  const std::optional<Evaluation> e = validate(limit, with_sample);
  spent_ += steady_seconds() - begin;
  batches_read_ += done_;
  return e;
}

std::optional<Evaluation> Validator::validate_answers(int64_t limit) {
  std::optional<Rollouts::Validation> v;
  const auto stop = [this] {
    tell_.validating(std::min(done_++, in_total_), in_total_);
    return tell_.stop();
  };
  tell_.region("validation", [&] { v = rollouts_->validate(limit, stop); });
  if (!v) return std::nullopt;
  Evaluation e{{}, state_.step};
  e.whole = v->whole, e.reward = v->reward, e.reward_error = v->error;
  tell_(runs::Eval(e));
  return e;
}

std::optional<Evaluation> Validator::validate(int64_t limit, bool with_sample) {
  if (rollouts_) return validate_answers(limit);
  std::optional<Losses> weights;
  tell_.region("validation", [&] { weights = losses(limit); });
  if (!weights) return std::nullopt;
  Evaluation e{{weights->loss, weights->nats_per_byte, weights->whole, {}, weights->preference.rewards()}, state_.step};
  if (weights->ranked > 0) {
    const auto part = [&](int64_t of, std::optional<double>& mean, std::optional<double>& error) {
      const double n = double(weights->ranked), p = double(of) / n;
      mean = p, error = std::sqrt(p * (1 - p) / n);
    };
    part(weights->right, e.top1, e.top1_error);
    if (!weights->few) part(weights->among_5, e.top5, e.top5_error);
  }
  if (trainer_.has_average()) {
    const AveragedModel averaged(trainer_);
    const std::optional<Losses> average = losses(limit);
    if (!average) return std::nullopt;
    e.average_loss = average->loss;
  }
  runs::Eval told(e);
  told.classes = weights->classes;
  tell_(std::move(told));
  if (with_sample && o_.sample_tokens > 0) tell_(sample_or_note());
  for (size_t i = 0; weights->each.size() > 1 && i < weights->each.size(); ++i)
    tell_.note(fmt::format("step {}: validation loss {:.4f} nats per token on {}", state_.step, weights->each[i],
                           data_.validation()[i].name));
  return e;
}

double Validator::seconds(int64_t limit, double batch) {
  if (data_.validation().empty()) return 0;
  if (!sample_seconds_) {
    constexpr int64_t kFew = 8;  // tokens, which take about the same
    const int64_t few = std::min(kFew, o_.sample_tokens);
    sample_seconds_ = 0;
    if (few > 0) {
      sample(1);  // makes the decoder
      const double begin = steady_seconds();
      sample(few);
      sample_seconds_ = (steady_seconds() - begin) * double(o_.sample_tokens) / double(few);
    }
  }
  const bool no_average_yet = o_.trainer.optimizer.ema > 0 && !trainer_.has_average();
  return batch * double(batches(limit)) * (no_average_yet ? 2 : 1) + *sample_seconds_;
}

double Validator::expected_seconds(int64_t limit, double batch_seconds) {
  return double(batches(limit)) * (batches_read_ > 0 ? spent_ / double(batches_read_) : batch_seconds);
}

// Of all texts, for the averaged weights too.
int64_t Validator::batches(int64_t limit) {
  const auto [it, is_new] = batches_.try_emplace(limit);  // asked for at every step, and counting takes time
  if (is_new && rollouts_) it->second = rollouts_->held_out_rounds(limit);
  if (is_new)
    for (const ValidationText& text : data_.validation()) it->second += evaluation_batches(text, limit, o_.trainer);
  return trainer_.has_average() ? 2 * it->second : it->second;
}

runs::Body Validator::sample_or_note() try {
  return sample(o_.sample_tokens);
} catch (const Error& error) {  // of a model that has diverged; what that means for the run, its losses say
  return runs::Note{fmt::format("step {}: there is no sample: {}", state_.step, error.what()), {}};
}

// Continues the first tokens of the validation text, or answers its examples by turns.
runs::Sample Validator::sample(int64_t tokens) {
  if (!decoder_) decoder_ = std::make_unique<Decoder>(device_, model_, sample_options(o_, model_.spec));
  decoder_->state().reset(0);
  const int64_t number = o_.eval_every > 0 ? state_.step / o_.eval_every : 0, context = decoder_->context();
  const auto [start, wanted] = data_.validation_start(number, context);
  const GenerateOptions g{.max_tokens = std::min(tokens, context - int64_t(start.size())),
                          .sampler = {.temperature = kUsualTemperature, .seed = o_.seed + uint64_t(state_.step)}};
  std::vector<int32_t> written;
  const std::vector<int32_t> ends = model_.tokenizer->end_of_generation();
  for (const GeneratedToken& t : generate(*decoder_, 0, std::vector<int32_t>(start), ends, g))
    written.push_back(t.chosen.id);
  const auto text = [&](std::vector<int32_t> ids) {
    while (!ids.empty() && std::find(ends.begin(), ends.end(), ids.back()) != ends.end()) ids.pop_back();
    return model_.tokenizer->decode(ids);
  };
  std::string prompt;  // with the marks of the template
  for (const int32_t id : start) prompt += model_.tokenizer->written(id);
  if (!wanted.empty()) return {text(written), prompt, text(wanted)};
  written.insert(written.begin(), start.begin(), start.end());
  return {model_.tokenizer->decode(written), {}, {}};
}

}  // namespace toy
