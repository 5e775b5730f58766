#include "train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "toy/base/communicator.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/decode/decoder.h"
#include "toy/models/grow.h"
#include "toy/runs/run.h"
#include "train/agree.h"
#include "train/calibrate.h"
#include "train/coming_tokens.h"
#include "train/config.h"
#include "train/dataset.h"
#include "train/publish.h"
#include "train/resume.h"
#include "train/rollouts.h"
#include "train/run_folder.h"
#include "train/time_left.h"
#include "train/validate.h"

namespace toy {
namespace {

class Run {
 public:
  /// Everything that can be refused is, before the weights are made. `writes`: false where nothing on disk may change,
  /// for estimate().
  Run(const RecipeOptions& o, ModelSource& source, Device& device, RunFolder& folder, Teller& tell, bool writes)
      : o_(o),
        device_(device),
        folder_(folder),
        tell_(tell),
        writes_(writes),
        recipe_(source.config().at("name")),
        base_(source.file()),
        data_(make_dataset(o_.data, o.out, o.memory, tell)),
        resume_(o_, source, tell, writes),
        state_(resume_.state()) {
    source.look_at(*data_);
    auto tokenizer = resume_.tokenizer();
    if (!tokenizer) tokenizer = source.tokenizer(*data_);
    const ModelSpec spec = source.spec(*tokenizer);
    data_->find_chat_template(source.template_file(), *tokenizer, resume_.earlier("/texts/chat_time"));
    if (o.memory > 0 && foresees_tokens(o.data) && !resumed())
      plan_ahead(spec, source.held(spec), least_token_bytes(*data_, *tokenizer));
    if (o_.policy) rollouts_ = make_rollouts(o_, *data_, spec, *tokenizer, tell_);
    data_->tokenize(*tokenizer, o.fit_tokens && !rollouts_ ? std::nullopt : std::optional(o_.trainer.tokens), o.seed,
                    std::min({kMostFittedTokens, spec.context, o.context > 0 ? o.context : spec.context}));
    settle();
    require_validation(o_, *data_, tell);
    config_ = config_of(o_, source, device, spec, data_->config());
    model_.spec = spec;
    resume_.compare(config_);
    if (resume_.complete()) return;
    require_room(device, spec, o.trainer.optimizer);
    plan_ahead(spec, source.held(spec));
    resume_.prepare_to_write(spec);
    tell.preparing(fmt::format("{}: {:.2f} M weights", spec.name, double(parameter_count(spec)) * 1e-6));
    // What is frozen is in no checkpoint.
    const bool from_checkpoint = resumed() && !has_frozen(spec);
    model_ = from_checkpoint ? checkpoint_model(resume_.from(), spec, device) : source.model(spec, device);
    if (keeps_base(spec)) reference_ = std::make_unique<Model>(source.model(spec, device));
    for (const std::string& warning : model_.warnings) tell.warn(warning);
    if (!resumed())
      for (const std::string& choice : source.choices()) tell.note(choice);
    model_.tokenizer = std::move(tokenizer);
    // The model that learns with a template keeps it, where it does not come from the model itself.
    const ChatTemplate* chat = data_->chat_template();
    if (chat && (!o.data.chat_template.empty() || source.file().empty())) {
      model_.metadata.insert_or_assign("tokenizer.chat_template", gguf::Value(chat->source()));
      if (!model_.spec.adapters.empty()) model_.spec.adapters.back().chat_template = chat->source();
    }
    make_trainer();
    if (!resumed()) return;
    restore_trainer(resume_.from(), state_, model_, *trainer_);
    if (writes_) resume_.checkpoints().tidy(state_);  // the run may have been killed before it did
  }

  RunEstimate estimate() {
    RunEstimate e{.model = model_.spec.name, .parameters = parameter_count(model_.spec), .fit = fit_};
    e.trained = trained_count(model_.spec);
    if (model_.params) e.roles = tensor_roles(model_, o_.trainer.optimizer, o_.lr);
    e.preparing_seconds = tell_.seconds();
    if (resume_.complete()) return e;
    e.data = data_->name(), e.rows = per_epoch(), e.epochs = epochs();
    if (rollouts_)
      for (const std::string& line : rollouts_->try_rewards()) tell_.note(line);
    else
      data_->warn_of_epochs(o_.steps * rows_per_step());
    e.steps = o_.steps - state_.step;
    tell_.preparing("some steps, to see how long they take");
    const auto windows = [&](int64_t first, int64_t count) { return data_->windows(state_.windows + first, count); };
    const ValidationText* text = data_->validation().empty() ? nullptr : data_->validation().data();
    TrainerOptions options = o_.trainer;
    options.recompute = fit_.recompute;
    const Calibration c =
        calibrate(device_, model_, *trainer_, options, windows, text, o_.rates().at(state_.step), e.steps);
    e.step_seconds = c.step;
    e.measured_steps = c.steps, e.measured_tokens = c.tokens;
    e.tokens_per_step = tokens_per_step();
    e.tell_of_ranks(trainer_->rank_memory());
    const ValidationTime v = validation_time(o_, state_.step, true, validator_->seconds(o_.eval_tokens, c.batch),
                                             validator_->seconds(0, c.batch));
    const double steps = e.steps == 0 ? 0 : std::max(c.first, c.step) + c.step * double(e.steps - 1);
    e.validation_seconds = v.during + v.at_end;
    e.seconds = e.preparing_seconds + time_left(o_, steps, v, 0);
    return e;
  }

  TrainResult go() {
    if (resume_.complete()) return *resume_.complete();
    tell_of_start();
    if (rollouts_) rollouts_->begin(device_, model_, o_.trainer, reference_.get());
    begin_ = tell_.seconds(), first_ = state_.step;
    TrainResult::Reason reason = !validator_->catch_up()          ? TrainResult::stopped
                                 : validator_->patience_is_over() ? TrainResult::patience
                                                                  : TrainResult::done;
    release_freed();  // what reading files and planning has left
    while (reason == TrainResult::done && state_.step < o_.steps) reason = advance();
    TrainResult r{.out = o_.out,
                  .checkpoint = resume_.checkpoints().newest(),
                  .step = state_.step,
                  .final_loss = state_.loss,
                  .eval = at_limit_ ? at_limit_ : state_.eval,
                  .reason = reason};
    if (reason != TrainResult::stopped) {
      publish(r);
      if (!rollouts_) data_->tell_sources(state_.windows);
      require_success(r, rollouts_ ? r.step : state_.updates);  // a step without a difference changes nothing
      if (reason != TrainResult::time) write_finished(o_.out, {config_, r, resume_.init()});
    }
    r.seconds = elapsed();
    tell_.ended(r);
    return r;
  }

  /// Tells that the run failed. Returns the error with what it can be resumed from.
  Error tell_of_failure(const Error& error) {
    Error told = error.code() == ErrorCode::bad_input ? error : resume_.checkpoints().with_resume_hint(error);
    tell_.failed(told, state_.step > 0 ? std::optional(state_.loss) : std::nullopt);
    return told;
  }

 private:
  bool adapts() const { return !model_.spec.adapters.empty(); }
  bool resumed() const { return !resume_.from().empty(); }
  double elapsed() const { return tell_.seconds() - begin_; }
  int64_t rows_per_step() const { return o_.trainer.rows(); }
  int64_t per_step() const { return rollouts_ ? o_.policy->questions : rows_per_step(); }
  int64_t per_epoch() const { return rollouts_ ? rollouts_->questions() : data_->rows().rows(); }
  double epochs() const { return double(o_.steps * per_step()) / double(std::max<int64_t>(1, per_epoch())); }
  int64_t tokens_per_step() const { return rows_per_step() * o_.trainer.tokens; }

  // What the rows decide.
  void settle() {
    o_.trainer.tokens = data_->tokens();
    const int64_t rows = data_->rows().rows();
    if (o_.epochs) o_.steps = steps_of_epochs(o_, rows, rows_per_step());
    effective_ = effective_options(o_);
  }

  void tell_of_start() {
    folder_.open(o_, model_.spec, resumed(), [this](const std::string& text) { tell_.warn(text); });
    runs::RunStart e;
    e.run_id = o_.record.run_id;
    e.time = runs::utc_now();
    e.toy = TOY_VERSION;
    e.recipe = recipe_;
    e.backend = device_.name();
    e.git = runs::git_commit(".");
    e.host = runs::this_host(device_.threads());
    nlohmann::ordered_json model = to_json(model_.spec);
    model["name"] = model_.spec.name;
    e.model.text = json_text(model);
    e.config = o_.record.config;
    e.effective = {{json_text(effective_)}};
    e.parameters = parameter_count(model_.spec);
    e.steps = o_.steps;
    e.tokens_per_step = tokens_per_step();
    e.train_tokens = data_->training_tokens();
    e.windows_per_epoch = per_epoch();
    e.validation_tokens = data_->validation_tokens();
    e.planned_bytes = int64_t(trainer_->planned_bytes() + watcher_->planned_bytes() + base_bytes(model_.spec));
    e.trained = trained_count(model_.spec);
    e.epochs = epochs();
    e.data = data_->name();
    if (!base_.empty()) e.base = base_;
    if (const Communicator* ranks = o_.trainer.ranks; ranks && ranks->size() > 1) e.ranks = ranks->size();
    tell_(std::move(e));
    if (resumed()) {
      tell_.at(state_.step);
      tell_(runs::Resume{runs::utc_now(), resume_.from(), o_.steps, o_.record.config,
                         runs::JsonObject{json_text(effective_)}});
    }
    if (const std::string less = fit_.text(); !less.empty()) tell_.note(less);
    if (rollouts_) return;
    data_->warn_of_epochs(o_.steps * rows_per_step());
    warn_of_long_validation(o_, *data_, tell_);
    data_->tell_sources({});
  }

  // Where answers cannot be judged, the steps before are not lost.
  auto judged(auto&& f) {
    try {
      return f();
    } catch (const Error&) {
      if (rollouts_ && state_.step > first_) save_checkpoint();
      throw;
    }
  }
  // The answers of a step.
  Rollouts::Step draw() {
    Rollouts::Step step = judged([&] { return rollouts_->step(state_.windows); });
    if (const std::string cut = rollouts_->many_cut(step.policy); !cut.empty()) tell_.warn(cut);
    return step;
  }

  // A step and what is due after it. Returns why the run ends there, or `done`.
  TrainResult::Reason advance() {
    step();
    if (const std::string change = data_->change(); !change.empty()) give_up_on(change);
    const bool all = state_.step == o_.steps;
    const bool timed_out = !all && o_.time_limit > 0 && !trainer_->apart() && agree(elapsed() >= o_.time_limit);
    TrainResult::Reason reason = timed_out ? TrainResult::time : TrainResult::done;
    bool stopped = (all || validator_->is_due()) && !judged([&] { return validator_->evaluate(all); });
    if (timed_out && !stopped && validator_->is_there()) {
      at_limit_ = validator_->look();
      stopped = !at_limit_;
    } else if (!all && !timed_out && !stopped && validator_->patience_is_over()) {
      reason = TrainResult::patience;
      stopped = !validator_->evaluate(true);
    } else if (!all && !timed_out) {
      stopped = stopped || tell_.stop();
    }
    if (stopped) reason = TrainResult::stopped;
    // Whoever ended it, a signal or the clock: there is more to be done.
    const bool unfinished = reason == TrainResult::stopped || reason == TrainResult::time;
    if (unfinished || checkpoint_due(all || reason == TrainResult::patience)) save_checkpoint();
    return reason;
  }

  void step() {
    const auto tell = [this](const runs::Event& e) { tell_(e); };
    const double lr = o_.rates().at(state_.step);
    const double begin = tell_.seconds();
    std::optional<Rollouts::Step> drawn;
    if (rollouts_) drawn = draw();
    const double drawing = drawn ? tell_.seconds() - begin : 0;
    const Windows windows = drawn ? drawn->windows : data_->windows(state_.windows, rows_per_step());
    const bool learns = !windows.inputs.empty();
    if (learns) watcher_->before(state_.step + 1, windows, *trainer_, tell);
    const double before = tell_.seconds();
    const StepResult r = drawn ? rollouts_->learn(*drawn, *trainer_, lr) : trainer_->step(windows, lr);
    const double seconds = tell_.seconds() - before + drawing;
    const int64_t tokens = drawn ? drawn->tokens : tokens_per_step();
    training_ += seconds, seen_ += tokens;
    tell_.at(++state_.step);
    state_.updates = trainer_->updates();
    state_.windows += per_step();
    state_.loss = r.loss;
    state_.skipped = r.skipped ? state_.skipped + 1 : 0;
    tell_(runs::Step{.loss = r.loss,
                     .lr = lr,
                     .grad_norm = r.grad_norm,
                     .tokens = tokens,
                     .wall_us = *runs::microseconds(seconds),
                     .tokens_per_second = double(seen_) / training_,
                     .skipped = r.skipped ? std::optional(true) : std::nullopt,
                     .seconds_left = seconds_left(),
                     .exchange_us = runs::microseconds(r.exchange),
                     .wait_us = runs::microseconds(r.wait),
                     .rewards = r.preference.rewards(),
                     .policy = drawn ? drawn->policy : runs::Policy()});
    if (learns) watcher_->after(state_.step, *trainer_, tell);
    warn_of_skips(o_, r, state_.step, tell_);
    if (std::max(state_.skipped, most_skips(r).second) >= o_.max_skipped) give_up(r);
    if (drawn && (state_.step == 1 || state_.step % 10 == 0)) tell_(drawn->sample);
    const std::string why = drawn ? rollouts_->stuck(drawn->policy, state_) : "";
    if (!why.empty()) save_checkpoint(), fail("grpo: {}", why);
  }

  // What is left of this process: all that is no validation takes as long per step as so far.
  double seconds_left() const {
    const double step = (elapsed() - validator_->spent()) / double(state_.step - first_);
    // Until a validation was seen: computing a loss is a third of computing its gradients, too.
    const double batch = step / double(3 * o_.trainer.passes());
    const auto expected = [&](int64_t limit) { return validator_->expected_seconds(limit, batch); };
    return time_left(o_, step * double(o_.steps - state_.step),
                     validation_time(o_, state_.step, false, expected(o_.eval_tokens), expected(0)), elapsed());
  }

  // Evaluations that find a new best are kept too, so that the best is there and not merely near.
  bool checkpoint_due(bool last) const {
    if (o_.checkpoint_every == 0) return false;
    return last || state_.step % o_.checkpoint_every == 0 || (state_.best && state_.best->step == state_.step);
  }

  void save_checkpoint() {
    require_finite();
    tell_(runs::Checkpoint{resume_.checkpoints().save(model_, *trainer_, config_, state_)});
    if (!resumed()) forget_finished(o_.out);  // of an earlier run: --resume goes by the checkpoint now
  }

  void publish(TrainResult& r) {
    tell_.region("save", [&] {
      require_finite();
      require_range();
      const bool average = trainer_->has_average();
      if (!average && !o_.trainer.ranks)  // writing takes memory, too
        validator_.reset(), watcher_.reset(), trainer_.reset();
      r.model_path = publish_model(model_, o_.out, {o_.stored, o_.mix});
      forget_finished(o_.out);
      if (average) {
        const AveragedModel averaged(*trainer_);
        r.average_path = average_path(o_.out, adapts());
        save_result(model_, r.average_path, {o_.stored, o_.mix});
      } else {
        std::error_code none;
        std::filesystem::remove(average_path(o_.out, adapts()), none);  // of an earlier run here
      }
    });
  }

  // Weights that are not numbers are of no use to anybody: better no file than a broken one.
  void require_finite() {
    const std::string& newest = resume_.checkpoints().newest();
    if (const auto w = first_beyond(model_, std::numeric_limits<float>::max()))
      fail("training diverged: '{}' holds {}; nothing was saved{}. Try a smaller --lr", w->tensor, w->value,
           newest.empty() ? "" : " since " + newest);
  }

  // f16 would make infinities of large weights.
  void require_range() {
    constexpr float kMost = 65504;
    if (o_.stored != DType::f16) return;
    const auto w = first_beyond(model_, kMost, true);
    if (!w) return;
    const Checkpoints& checkpoints = resume_.checkpoints();
    if (checkpoints.newest() != checkpoint_path(checkpoints.root(), state_.step)) save_checkpoint();
    fail(
        "dtype: '{}' holds {}, and f16 goes to {}; no model was written, everything is in {}. --resume "
        "--allow-changes --dtype bf16 writes it",
        w->tensor, w->value, kMost, checkpoints.newest());
  }

  // Skipped steps change nothing, so the weights are those of the last good step: they are kept.
  void give_up(const StepResult& step) {
    TrainResult r;
    publish(r);
    fail_of_skips(o_, step, state_.step, state_.skipped, r.model_path);
  }

  // The texts are no longer those that the run began with. Its ids are; but it could not be resumed.
  void give_up_on(const std::string& change) {
    save_checkpoint();
    fail(
        "corpus: a text changed during the run: {}. The run stopped after step {}; everything is in {}. Use --resume "
        "with the old text, or --resume --allow-changes with the new one",
        change, state_.step, resume_.checkpoints().newest());
  }

  // Refuses what cannot fit before the weights are made, which takes longer than planning.
  // `coming`: bytes that the process will hold and does not yet.
  void plan_ahead(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, size_t coming = 0) {
    const size_t base = base_bytes(spec);
    const size_t draws = rollouts_ ? rollouts_->bytes(device_, spec, dtype_of, o_.trainer) : 0;
    if (o_.memory > 0) {
      beside_ = bytes_beside(device_) + coming + base;
      fit(spec, dtype_of, beside_ + folding(spec) + draws);
      return;
    }
    require_room(device_, spec, dtype_of, o_.trainer,
                 compile_training(device_, spec, dtype_of, o_.trainer).bytes(device_) + base + draws, 0);
  }

  // What is recomputed to save memory depends on what the process holds beside the trainer: `other` and what is looked
  // at, which is recomputed, too, where it would not fit otherwise. Returns the watcher's options.
  TrainerOptions fit(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, size_t other) {
    TrainerOptions watching = o_.trainer;
    watching.seed = o_.seed;
    const auto attempt = [&] {
      const size_t looking = Watcher::bytes(o_.watch, device_, spec, dtype_of, watching);
      fit_ = fit_memory(device_, spec, dtype_of, o_.trainer, o_.memory, other + looking);
    };
    try {
      attempt();
    } catch (const Error&) {
      watching.recompute = {.whole = int64_t(spec.layers.size())};
      attempt();
    }
    return watching;
  }

  // Watcher and trainer.
  void make_trainer() {
    TrainerOptions options = o_.trainer;
    options.seed = o_.seed;
    TrainerOptions watching = options;
    const ParamStore* store = model_.params.get();
    const auto dtype_of = [store](const std::string& name) { return store->type(name).dtype; };
    if (o_.memory > 0 || !writes_) {  // has to fit, or somebody wants to know
      watching = fit(model_.spec, dtype_of, other_bytes(dtype_of));
      options.recompute = fit_.recompute;
    }
    watcher_ = std::make_unique<Watcher>(o_.watch, device_, model_, watching);
    trainer_ = std::make_unique<Trainer>(device_, model_, options);
    watcher_->require_ops(*trainer_);
    validator_ = std::make_unique<Validator>(o_, device_, model_, *trainer_, *data_, tell_, state_,
                                             writes_ ? &resume_.checkpoints() : nullptr, rollouts_.get());
  }

  // What the process holds beside the weights, now and later, without trainer and watcher.
  size_t other_bytes(const Weights::DTypeOf& dtype_of) const {
    const size_t samples = o_.sample_tokens > 0 ? decoder_bytes(device_, model_, sample_options(o_, model_.spec)) : 0;
    const size_t base = device_.host_visible() ? 0 : base_bytes(model_.spec);  // else it is among what is beside
    const size_t draws = rollouts_ ? rollouts_->bytes(device_, model_.spec, dtype_of, o_.trainer) : 0;
    return bytes_beside(device_, model_.params->bytes(), beside_) + base + samples + draws + folding(model_.spec);
  }
  // Where all weights learn from rewards, what --beta keeps them near is held, too.
  bool keeps_base(const ModelSpec& spec) const { return o_.policy && o_.policy->beta > 0 && spec.adapters.empty(); }
  size_t base_bytes(const ModelSpec& spec) const {
    return keeps_base(spec) ? size_t(parameter_count(spec)) * sizeof(float) : 0;
  }
  // The host folds a lens when a model is written.
  size_t folding(const ModelSpec& spec) const {
    return device_.host_visible() ? folding_bytes(spec, device_.host_threads()) : 0;
  }

  RecipeOptions o_;  // as given, and then as the rows decide
  Device& device_;
  RunFolder& folder_;
  Teller& tell_;
  bool writes_;
  std::string recipe_, base_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Rollouts> rollouts_;  // of reinforcement learning
  Resume resume_;
  RunState state_;
  nlohmann::ordered_json config_, effective_;
  Model model_;
  std::unique_ptr<const Model> reference_;
  size_t beside_ = 0;  // bytes that plan_ahead() found and foresaw beside the training
  MemoryFit fit_;      // nothing is recomputed where nobody asked for less memory
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Validator> validator_;
  // Of this process: when its steps began and how many were done then, what they took in seconds, and the validation
  // after its time limit.
  double begin_ = 0, training_ = 0;
  int64_t first_ = 0, seen_ = 0;  // seen: tokens
  std::optional<Evaluation> at_limit_;
};

}  // namespace

TrainResult run_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer) {
  check_options(options);
  RecipeOptions o = options;
  RunFolder folder(o, source, observer, true);
  Teller tell(observer, folder);
  choose_compute(o, device, tell);
  Run run(o, source, device, folder, tell, true);
  try {
    return run.go();
  } catch (const Error& e) {
    throw run.tell_of_failure(e);
  }
}

RunEstimate estimate_recipe(const RecipeOptions& options, ModelSource& source, Device& device,
                            TrainObserver& observer) {
  check_options(options);
  RecipeOptions o = options;
  RunFolder folder(o, source, observer, false);
  Teller tell(observer, folder);
  choose_compute(o, device, tell);
  return Run(o, source, device, folder, tell, false).estimate();
}

}  // namespace toy
