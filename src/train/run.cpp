#include "train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "toy/base/atomic_file.h"
#include "toy/base/clock.h"
#include "toy/base/folder_lock.h"
#include "toy/base/memory.h"
#include "toy/decode/decoder.h"
#include "train/calibrate.h"
#include "train/checkpoints.h"
#include "train/config.h"
#include "train/dataset.h"
#include "train/publish.h"
#include "train/time_left.h"
#include "train/validate.h"

namespace toy {
namespace {

class Run {
 public:
  /// `writes`: false where nothing on disk may change, for estimate().
  Run(const RecipeOptions& o, ModelSource& source, Device& device, TrainObserver& observer, bool writes)
      : o_(o),
        device_(device),
        observer_(observer),
        checkpoints_(o.out, o.keep),
        writes_(writes),
        made_(steady_seconds()) {
    check_options(o);
    data_ = std::make_unique<Dataset>(o.data, o.out, o.memory, observer);
    find_checkpoint(source);
    auto tokenizer = tokenizer_of(source);
    const ModelSpec spec = source.spec(*tokenizer);
    data_->tokenize(*tokenizer, o.trainer.tokens, o.seed);
    require_validation(o, *data_, observer);
    config_ = config_of(o, source, device, spec, data_->config());
    model_.spec = spec;
    if (is_complete(source)) return;
    settle_checkpoints();
    require_room(spec, o.trainer.optimizer);
    plan_ahead(spec);
    if (writes_) {
      prepare_folder(o.out, disk_bytes(o, spec, checkpoints_, state_.step));
      if (!lock_) take_new_folder();
      remove_leftovers(o.out);
      clean_checkpoints(checkpoints_.root());
    }
    observer.preparing(fmt::format("{}: {:.2f} M weights", spec.name, double(parameter_count(spec)) * 1e-6));
    model_ = from_.empty() ? source.model(spec, device) : checkpoint_model(from_, spec, device);
    for (const std::string& warning : model_.warnings) observer_.warned(warning);
    model_.tokenizer = std::move(tokenizer);
    make_trainer();
    if (from_.empty()) {
      tell_of_replaced_model();
      return;
    }
    restore_trainer(from_, state_, model_, *trainer_);
    if (writes_) checkpoints_.tidy(state_);  // the run may have been killed before it did
  }

  RunEstimate estimate() {
    RunEstimate e{.model = model_.spec.name, .parameters = parameter_count(model_.spec), .fit = fit_};
    e.preparing_seconds = steady_seconds() - made_;
    if (complete_) return e;
    e.steps = o_.steps - state_.step;
    observer_.preparing("some steps, to see how long they take");
    const auto windows = [&](int64_t first, int64_t count) { return data_->windows(state_.windows + first, count); };
    const ValidationText* text = data_->validation().empty() ? nullptr : data_->validation().data();
    TrainerOptions options = o_.trainer;
    options.recompute = fit_.recompute;
    const Calibration c =
        calibrate(device_, model_, *trainer_, options, windows, text, o_.rates().at(state_.step), e.steps);
    e.step_seconds = c.step;
    e.measured_steps = c.steps;
    e.measured_tokens = c.tokens;
    e.tokens_per_step = o_.trainer.batch * o_.trainer.accumulate * o_.trainer.tokens;
    const ValidationTime v = validation_time(o_, state_.step, true, validator_->seconds(o_.eval_tokens, c.batch),
                                             validator_->seconds(0, c.batch));
    const double steps = e.steps == 0 ? 0 : std::max(c.first, c.step) + c.step * double(e.steps - 1);
    e.validation_seconds = v.during + v.at_end;
    e.seconds = e.preparing_seconds + time_left(o_, steps, v, 0);
    return e;
  }

  TrainResult go() {
    if (complete_) {
      TrainResult r = std::move(finished_->result);
      r.was_complete = true;
      r.checkpoint = checkpoints_.newest();
      return r;
    }
    const Schedule schedule = o_.rates();
    if (!from_.empty()) observer_.resumed(state_.step, from_);
    observer_.started({model_.spec, parameter_count(model_.spec), data_->training_tokens(), data_->validation_tokens(),
                       data_->validation_bytes(), data_->windows_per_epoch(),
                       trainer_->planned_bytes() + watcher_->planned_bytes(), trainer_->plan(), fit_.text()});
    data_->tell_sources({});
    const double begin = steady_seconds();
    const int64_t first = state_.step;
    TrainResult::Reason reason = TrainResult::done;
    std::optional<TrainObserver::Eval> at_limit;
    double training = 0;
    if (!catch_up())
      reason = TrainResult::stopped;
    else if (patience_over())
      reason = TrainResult::patience;
    while (reason == TrainResult::done && state_.step < o_.steps) {
      step(schedule.at(state_.step), first, begin, training);
      if (const std::string change = data_->change(); !change.empty()) give_up_on(change);
      const bool timed_out = o_.time_limit > 0 && steady_seconds() - begin >= o_.time_limit,
                 all = state_.step == o_.steps;
      if (timed_out && !all) reason = TrainResult::time;
      const bool ends = all || timed_out;
      bool stopped = (all || evaluation_due()) && !evaluate(all);
      if (timed_out && !all && !stopped) stopped = !look(at_limit);
      if (!stopped && !ends && patience_over()) {
        reason = TrainResult::patience;
        stopped = !evaluate(true);
      } else if (!ends) {
        stopped = stopped || observer_.stop();
      }
      if (stopped) reason = TrainResult::stopped;
      // Whoever ended it, a signal or the clock: there is more to be done.
      const bool unfinished = reason == TrainResult::stopped || reason == TrainResult::time;
      if (unfinished || checkpoint_due(ends || reason == TrainResult::patience)) save_checkpoint();
    }
    TrainResult r{.model_path = {},
                  .checkpoint = checkpoints_.newest(),
                  .step = state_.step,
                  .final_loss = state_.loss,
                  .eval = at_limit ? at_limit : state_.eval,
                  .seconds = 0,
                  .average_path = {},
                  .reason = reason};
    if (reason != TrainResult::stopped) {
      publish(r);
      data_->tell_sources(state_.windows);
      require_success(r, state_.updates);
      if (reason != TrainResult::time) write_finished(o_.out, {config_, r, init_});
    }
    r.seconds = steady_seconds() - begin;
    return r;
  }

 private:
  // One step of the optimizer. `first` and `begin`: the step and the time at which this process began; `training`: what
  // its steps have taken, in seconds.
  void step(double lr, int64_t first, double begin, double& training) {
    const int64_t count = o_.trainer.batch * o_.trainer.accumulate;
    const auto tell = [this](const runs::Event& e) { observer_.measured(e); };
    const Windows windows = data_->windows(state_.windows, count);
    watcher_->before(state_.step + 1, windows, *trainer_, tell);
    const double before = steady_seconds();
    const StepResult r = trainer_->step(windows, lr);
    const double seconds = steady_seconds() - before;
    training += seconds;
    ++state_.step;
    state_.updates = trainer_->updates();
    state_.windows += count;
    state_.loss = r.loss;
    state_.skipped = r.skipped ? state_.skipped + 1 : 0;
    const double done = double(state_.step - first);
    observer_.stepped({state_.step, o_.steps, r.loss, lr, r.grad_norm, r.skipped,
                       done * double(count * o_.trainer.tokens) / training, seconds_left(begin, done), seconds});
    watcher_->after(state_.step, *trainer_, tell);
    if (state_.skipped >= o_.max_skipped) give_up();
  }

  // What is left of this process, which began at `begin` and has made `done` steps: all that is no validation takes as
  // long per step as so far.
  double seconds_left(double begin, double done) const {
    const double elapsed = steady_seconds() - begin, step = (elapsed - validator_->spent()) / done;
    // Until a validation was seen: computing a loss is a third of computing its gradients, too.
    const double batch = step / double(3 * o_.trainer.accumulate);
    const auto expected = [&](int64_t limit) { return validator_->expected_seconds(limit, batch); };
    return time_left(o_, step * double(o_.steps - state_.step),
                     validation_time(o_, state_.step, false, expected(o_.eval_tokens), expected(0)), elapsed);
  }

  void publish(TrainResult& r) {
    observer_.entered("save");
    require_finite();
    require_range();
    r.model_path = publish_model(model_, o_.out, o_.stored);
    forget_finished(o_.out);
    if (trainer_->has_average()) {
      const AveragedWeights averaged(model_.spec, *model_.params, trainer_->moments());
      r.average_path = average_path(o_.out);
      save_model(model_, r.average_path, o_.stored);
    } else {
      std::error_code none;
      std::filesystem::remove(average_path(o_.out), none);  // of an earlier run here
    }
    observer_.left("save");
  }

  // Skipped steps change nothing, so the weights are those of the last good step: they are kept.
  void give_up() {
    TrainResult r;
    publish(r);
    fail_internal(
        "training diverged: the {} of {} steps in a row, up to step {}, was not finite, and these steps were skipped. "
        "The weights before them are in {}. Try a smaller --lr",
        o_.trainer.updates == TrainerOptions::gathered ? "gradient" : "loss", state_.skipped, state_.step,
        r.model_path);
  }

  // The texts are no longer those that the run began with. Its ids are; but it could not be resumed.
  void give_up_on(const std::string& change) {
    save_checkpoint();
    fail(
        "corpus: a text changed during the run: {}. The run stopped after step {}; everything is in {}. Use --resume "
        "with the old text, or --resume --allow-changes with the new one",
        change, state_.step, checkpoints_.newest());
  }

  // Early stopping: so many validations in a row were no better than the best before them.
  bool patience_over() const { return o_.patience > 0 && state_.waited >= o_.patience; }

  // Looks at a validation; a loss that is not a number is no better.
  void judge(double loss) {
    const bool better = loss < state_.least - o_.min_delta;
    state_.waited = better ? 0 : state_.waited + 1;
    if (better) state_.least = loss;
  }

  // Where a resumed run continues. Nothing of an earlier run is ever written over.
  void find_checkpoint(const ModelSource& source) {
    if (writes_ && std::filesystem::is_directory(o_.out)) lock_.emplace(o_.out);
    if (!o_.resume) {
      check(checkpoints_.count() == 0,
            "out: '{}' has checkpoints of an earlier run; resume it (--resume), remove the folder {}, or choose "
            "another --out",
            o_.out, checkpoints_.root());
      return;
    }
    from_ = checkpoints_.look();
    finished_ = read_finished(o_.out, from_, observer_);
    if (!from_.empty()) {
      state_ = checkpoint_state(from_);
      return;
    }
    std::error_code unknown;
    const std::string model = model_path(o_.out);
    check(
        finished_ || !std::filesystem::exists(model, unknown) || replaces_its_source(source),
        "resume: {} is there, but no checkpoint and no record of a complete run. Leave out --resume to start at step 1 "
        "and replace it, or choose another --out",
        model);
  }

  // A warm start from the model that it will replace, which its options name.
  bool replaces_its_source(const ModelSource& source) const {
    std::error_code not_there;
    return std::filesystem::equivalent(source.file(), model_path(o_.out), not_there);
  }

  // Of the checkpoint, or of the finished model that may be this run's: neither is trained again.
  std::shared_ptr<const Tokenizer> tokenizer_of(ModelSource& source) const {
    if (!from_.empty()) return checkpoint_tokenizer(from_);
    if (finished_)
      if (auto tokenizer = load_tokenizer(gguf::File::open(model_path(o_.out)))) return tokenizer;
    return source.tokenizer([this] { return data_->tokenizer_text(); });
  }

  // Whether an earlier process has finished this very run. Refuses to replace the finished model of another one.
  bool is_complete(const ModelSource& source) {
    init_ = content_of(source.file());
    if (!finished_) return false;
    std::vector<std::string> changed = differences(finished_->config, config_);
    const bool other_init = changed.empty() && finished_->init != init_ && !replaces_its_source(source);
    if (other_init) changed.push_back(fmt::format("{} has changed since", source.file()));
    complete_ = changed.empty();
    if (!from_.empty() && !finished_->init.is_null()) init_ = finished_->init;  // the checkpoint's weights began there
    if (complete_)
      observer_.noted(
          fmt::format("{}: this run is complete, after step {} of {}", o_.out, finished_->result.step, o_.steps));
    check(complete_ || (!from_.empty() && (!other_init || o_.allow_changes)) || replaces_its_source(source),
          "resume: {} is the finished model of another run: {}. Leave out --resume to replace it, or choose another "
          "--out",
          model_path(o_.out), short_list(changed));
    return complete_;
  }

  void settle_checkpoints() {
    if (!from_.empty())
      require_same_run();
    else if (o_.resume)
      observer_.noted(fmt::format("no checkpoint in {}: starting at step 1", o_.out));
    for (const std::string& text : checkpoints_.settle(writes_ && !from_.empty())) observer_.warned(text);
  }

  // The folder was not there when the run began to prepare.
  void take_new_folder() {
    lock_.emplace(o_.out);
    check(checkpoints_.count() == 0,
          "out: another run has made the folder '{}' and written checkpoints there in the meantime; resume it "
          "(--resume), or choose another --out",
          o_.out);
  }

  // Not a refusal: whoever tries things out begins again and again with the same command.
  void tell_of_replaced_model() const {
    std::error_code unknown;
    if (writes_ && std::filesystem::exists(model_path(o_.out), unknown))
      observer_.noted(fmt::format("out: {} is of an earlier run; this run's model takes its place when it is done",
                                  model_path(o_.out)));
  }

  void require_same_run() {
    const nlohmann::ordered_json there = checkpoint_config(from_);
    const std::vector<std::string> changed = differences(there, config_);
    check(changed.empty() || o_.allow_changes,
          "resume: {} is of another run: {}. Give the options and texts that it had, --allow-changes to resume with "
          "these, or another --out",
          from_, short_list(changed));
    const nlohmann::ordered_json::json_pointer optimizer("/options/optimizer/kind");
    check(there.at(optimizer) == config_.at(optimizer),
          "resume: {} has the state of another optimizer, which this one cannot take over", from_);
    check(state_.step <= o_.steps, "resume: {} is after step {}, --steps is {}", from_, state_.step, o_.steps);
    for (const char* measure : {"/texts", "/options/eval_tokens"})  // losses before do not compare with those to come
      if (const nlohmann::ordered_json::json_pointer at(measure);
          !there.contains(at) || there.at(at) != config_.at(at)) {
        state_.best.reset(), state_.waited = 0;
        state_.least = RunState().least;
      }
    if (!changed.empty()) observer_.warned(fmt::format("resuming {} with changes: {}", from_, short_list(changed)));
  }

  // Evaluations that find a new best are kept too, so that the best is there and not merely near.
  bool checkpoint_due(bool last) const {
    if (o_.checkpoint_every == 0) return false;
    return last || state_.step % o_.checkpoint_every == 0 || (state_.best && state_.best->step == state_.step);
  }

  void save_checkpoint() {
    require_finite();
    observer_.checkpointed(checkpoints_.save(model_, *trainer_, config_, state_), state_.step);
    if (from_.empty()) forget_finished(o_.out);  // of an earlier run: --resume goes by the checkpoint now
  }

  // Weights that are not numbers are of no use to anybody: better no file than a broken one.
  void require_finite() const {
    if (const auto w = first_beyond(model_, std::numeric_limits<float>::max()))
      fail_internal("training diverged: '{}' holds {}; nothing was saved{}. Try a smaller --lr", w->tensor, w->value,
                    checkpoints_.newest().empty() ? "" : " since " + checkpoints_.newest());
  }

  // f16 would make infinities of large weights.
  void require_range() {
    constexpr float kMost = 65504;
    if (o_.stored != DType::f16) return;
    const auto w = first_beyond(model_, kMost, true);
    if (!w) return;
    if (checkpoints_.newest() != checkpoint_path(checkpoints_.root(), state_.step)) save_checkpoint();
    fail(
        "dtype: '{}' holds {}, and f16 goes to {}; no model was written, everything is in {}. --resume "
        "--allow-changes --dtype bf16 writes it",
        w->tensor, w->value, kMost, checkpoints_.newest());
  }

  // Refuses what cannot fit before the weights are made, which takes longer than planning.
  void plan_ahead(const ModelSpec& spec) {
    const auto dtype_of = [](const std::string&) { return DType::f32; };
    if (o_.memory > 0)
      fit(spec, dtype_of, beside_ = bytes_beside());
    else
      require_room(device_, spec, dtype_of, o_.trainer,
                   compile_training(device_, spec, dtype_of, o_.trainer).bytes(device_), 0);
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
      watching = fit(model_.spec, dtype_of, other_bytes());
      options.recompute = fit_.recompute;
    }
    watcher_ = std::make_unique<Watcher>(o_.watch, device_, model_, watching);
    trainer_ = std::make_unique<Trainer>(device_, model_, options);
    watcher_->require_ops(*trainer_);
    validator_ = std::make_unique<Validator>(o_, device_, model_, *trainer_, *data_, observer_);
  }

  // What the process holds beside the weights, now and later, without trainer and watcher.
  size_t other_bytes() const {
    const size_t samples = o_.sample_tokens > 0 ? decoder_bytes(device_, model_, sample_options(o_, model_.spec)) : 0;
    return bytes_beside(model_.params->bytes(), beside_) + samples;
  }

  bool evaluation_due() const { return o_.eval_every > 0 && state_.step % o_.eval_every == 0; }

  // The validation that a run which goes on was kept from. False: it was kept from it again.
  bool catch_up() {
    if (state_.step == 0) return true;
    const bool there = state_.eval && state_.eval->step == state_.step;
    const bool last = state_.step == o_.steps || (there && patience_over());
    if (there ? !last || is_final(*state_.eval) : !last && !evaluation_due()) return true;
    const bool done = evaluate(last) && (last || !patience_over() || evaluate(true));
    if (writes_) checkpoints_.tidy(state_);  // it may be the best now
    return done;
  }

  // A validation that belongs to the run. False: somebody wants the run to end. Then nothing was learned of what is
  // missing, and catch_up() makes it later. Early stopping and the best checkpoint compare like with like: where
  // validations read a part of the text, they look at that part at the last step, too, and not at the whole.
  bool evaluate(bool last) {
    if (data_->validation().empty()) return true;
    const bool judged = state_.eval && state_.eval->step == state_.step;
    if (!judged) {
      const std::optional<TrainObserver::Eval> e = validator_->run(state_.step, o_.eval_tokens);
      if (!e) return false;
      judge(e->loss);
      state_.eval = *e;
      const bool best = !state_.best || e->loss < state_.best->loss;
      if (best && std::isfinite(e->loss)) state_.best = *e;
    }
    if (!last || is_final(*state_.eval)) return true;
    const std::optional<TrainObserver::Eval> e = validator_->run(state_.step, 0, false);
    if (e) state_.eval = *e;
    return e.has_value();
  }

  // A run that validates on its way reads the complete text at its end; one that does not, as much as it was told to.
  bool is_final(const TrainObserver::Eval& e) const { return e.whole || o_.eval_every == 0; }

  // The complete validation text where the clock ended this part of the run: to be known, but not to be learned from.
  // The run has the same bits however often it is stopped.
  bool look(std::optional<TrainObserver::Eval>& e) {
    if (data_->validation().empty()) return true;
    const bool here = state_.eval && state_.eval->step == state_.step;
    const int64_t limit = o_.eval_every > 0 ? 0 : o_.eval_tokens;
    e = here && is_final(*state_.eval) ? state_.eval : validator_->run(state_.step, limit, !here);
    return e.has_value();
  }

  const RecipeOptions& o_;
  Device& device_;
  TrainObserver& observer_;
  std::optional<FolderLock> lock_;
  Checkpoints checkpoints_;
  bool writes_;
  double made_;
  size_t beside_ = 0;                    // bytes that plan_ahead() found and foresaw beside the training
  MemoryFit fit_;                        // nothing is computed again where nobody asked for less memory
  std::string from_;                     // the checkpoint that the run resumes from, or ""
  std::optional<FinishedRun> finished_;  // of the model that is there
  bool complete_ = false;                // it is this run's
  nlohmann::ordered_json init_;          // content_of() the file that the model began with
  nlohmann::ordered_json config_;
  RunState state_;
  std::unique_ptr<Dataset> data_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Validator> validator_;
};

}  // namespace

TrainResult run_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer) {
  return Run(options, source, device, observer, true).go();
}

RunEstimate estimate_recipe(const RecipeOptions& options, ModelSource& source, Device& device,
                            TrainObserver& observer) {
  return Run(options, source, device, observer, false).estimate();
}

}  // namespace toy
