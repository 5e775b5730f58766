#include "train/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "toy/base/atomic_file.h"
#include "toy/base/folder_lock.h"
#include "toy/base/memory.h"
#include "toy/decode/generate.h"
#include "train/checkpoints.h"
#include "train/config.h"
#include "train/publish.h"

namespace toy {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void check_options(const RecipeOptions& o) {
  o.trainer.validate();
  o.rates();
  check(o.max_skipped >= 1, "max-skipped is {}, expected at least 1", o.max_skipped);
  check(o.patience >= 0, "patience is {}, expected 0 (never stop early) or more", o.patience);
  check(o.patience == 0 || o.eval_every > 0,
        "patience is {}, but validation comes only at the end; say how often with --eval-every", o.patience);
  check(o.min_delta >= 0 && std::isfinite(o.min_delta), "min-delta is {}, expected 0 or more", o.min_delta);
  check(o.time_limit >= 0 && std::isfinite(o.time_limit), "time-limit is {} s, expected 0 (none) or more",
        o.time_limit);
  check(o.validation_fraction >= 0 && o.validation_fraction < 1, "val-fraction is {}, expected 0 to below 1",
        o.validation_fraction);
  check(o.eval_every >= 0, "eval-every is {}, expected 0 (only at the end) or more", o.eval_every);
  check(o.eval_tokens >= 0, "eval-tokens is {}, expected 0 (all) or more", o.eval_tokens);
  check(o.eval_tokens == 0 || o.eval_every > 0,
        "eval-tokens is {}, but validation comes only at the end, and reads all; say how often with --eval-every",
        o.eval_tokens);
  check(o.checkpoint_every >= 0, "checkpoint-every is {}, expected 0 (only when the run is stopped) or more",
        o.checkpoint_every);
  check(o.keep >= 1, "keep is {}, expected at least 1 checkpoint", o.keep);
  check(o.resume || !o.allow_changes, "allow-changes says how to resume; give it with resume");
  check(o.sample_tokens >= 0, "sample is {}, expected 0 (none) or more", o.sample_tokens);
  check(o.context == 0 || o.context >= o.trainer.tokens, "context is {}, smaller than the window of {} tokens",
        o.context, o.trainer.tokens);
}

// The folder is made, and proven writable, before any time is spent.
void prepare_folder(const std::string& out, size_t needed) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  check(!error, "out: cannot make the folder '{}': {}", out, error.message());
  check(std::filesystem::is_directory(out), "out: '{}' is not a folder", out);
  check(access(out.c_str(), W_OK | X_OK) == 0, "out: the folder '{}' is not writable", out);
  const std::string checkpoints = Checkpoints(out, 1).root();
  check(!std::filesystem::exists(checkpoints, error) || std::filesystem::is_directory(checkpoints, error),
        "out: '{}' is not a folder; checkpoints are to be written there", checkpoints);
  for (const std::string& target : {model_path(out), average_path(out)})
    check(!std::filesystem::is_directory(target, error), "out: '{}' is a folder; the model is to be written there",
          target);
  const auto space = std::filesystem::space(out, error);
  check(error || space.available >= needed, "disk: '{}' has {} free, the model and its checkpoints need {}", out,
        format_bytes(space.available), format_bytes(needed));
}

struct Texts {
  std::string train, validation;
  nlohmann::ordered_json config;  // by which they are known again
};

// The validation part is the end of the text, from the next blank line (or line) on, so that it begins at a beginning.
Texts read_texts(const RecipeOptions& o) {
  Texts t{read_text_file(o.corpus), {}, {}};
  t.config["corpus"] = text_config(o.corpus, t.train);
  if (!o.validation.empty()) {
    t.validation = read_text_file(o.validation);
    t.config["validation"] = text_config(o.validation, t.validation);
    return t;
  }
  size_t at = size_t(double(t.train.size()) * (1 - o.validation_fraction));
  for (const char* mark : {"\n\n", "\n"})
    if (const size_t found = t.train.find(mark, at); found != std::string::npos && found - at < t.train.size() / 20) {
      at = found + std::string_view(mark).size();
      break;
    }
  t.validation = t.train.substr(at);
  t.train.resize(at);
  return t;
}

class Run {
 public:
  Run(const RecipeOptions& o, ModelSource& source, Device& device, TrainObserver& observer)
      : o_(o), device_(device), observer_(observer), checkpoints_(o.out, o.keep) {
    check_options(o);
    const Texts texts = read_texts(o);
    find_checkpoint();
    observer.preparing(fmt::format("{}: {}", o.corpus, format_bytes(texts.train.size())));
    auto tokenizer = from_.empty() ? source.tokenizer(texts.train) : checkpoint_tokenizer(from_);
    const ModelSpec spec = source.spec(*tokenizer);
    config_ = config_of(o, source, device, spec, texts.config);
    if (!from_.empty()) require_same_run();
    encode(texts, *tokenizer);
    require_room(spec);
    prepare_folder(o.out, disk_bytes(spec));
    if (!lock_) lock_.emplace(o.out);
    remove_leftovers(o.out);
    observer.preparing(fmt::format("{}: {:.2f} M weights", spec.name, double(parameter_count(spec)) * 1e-6));
    model_ = from_.empty() ? source.model(spec, device) : checkpoint_model(from_, spec, device);
    model_.tokenizer = std::move(tokenizer);
    TrainerOptions options = o.trainer;
    options.seed = o.seed;
    trainer_ = std::make_unique<Trainer>(device, model_, options);
    watcher_ = std::make_unique<Watcher>(o.watch, device, model_, options);
    if (from_.empty()) return;
    restore_trainer(from_, state_, model_, *trainer_);
    checkpoints_.tidy(state_);  // the run may have been killed before it did
  }

  TrainResult go() {
    const Schedule schedule = o_.rates();
    if (!from_.empty()) observer_.resumed(state_.step, from_);
    observer_.started({model_.spec, parameter_count(model_.spec), int64_t(train_ids_.size()),
                       int64_t(validation_ids_.size()), validation_bytes_, sampler_->windows_per_epoch(),
                       trainer_->planned_bytes() + watcher_->planned_bytes(), trainer_->plan()});
    const double begin = now();
    const int64_t first = state_.step;
    TrainResult::Reason reason = patience_over() ? TrainResult::patience : TrainResult::done;
    double training = 0;
    while (reason == TrainResult::done && state_.step < o_.steps) {
      step(schedule.at(state_.step), first, begin, training);
      const bool timed_out = o_.time_limit > 0 && now() - begin >= o_.time_limit, all = state_.step == o_.steps;
      if (timed_out && !all) reason = TrainResult::time;
      const bool ends = all || timed_out;
      if (ends || (o_.eval_every > 0 && state_.step % o_.eval_every == 0)) evaluate(ends);
      if (!ends && patience_over()) {
        reason = TrainResult::patience;
        if (!state_.eval->whole) evaluate(true);
      } else if (!ends && observer_.stop()) {
        reason = TrainResult::stopped;
      }
      if (reason == TrainResult::stopped || checkpoint_due(ends || reason == TrainResult::patience)) save_checkpoint();
    }
    TrainResult r{.model_path = {},
                  .checkpoint = checkpoints_.newest(),
                  .step = state_.step,
                  .final_loss = state_.loss,
                  .eval = state_.eval,
                  .seconds = 0,
                  .average_path = {},
                  .reason = reason};
    if (reason != TrainResult::stopped) {
      publish(r);
      require_success(r);
    }
    r.seconds = now() - begin;
    return r;
  }

 private:
  // One step of the optimizer. `first` and `begin`: the step and the time at which this process began; `training`: what
  // its steps have taken, in seconds.
  void step(double lr, int64_t first, double begin, double& training) {
    const int64_t count = o_.trainer.batch * o_.trainer.accumulate;
    const auto tell = [this](const runs::Event& e) { observer_.measured(e); };
    const Windows windows = sampler_->windows(state_.windows, count);
    watcher_->before(state_.step + 1, windows, *trainer_, tell);
    const double before = now();
    const StepResult r = trainer_->step(windows, lr);
    const double seconds = now() - before;
    training += seconds;
    ++state_.step;
    state_.updates = trainer_->updates();
    state_.windows += count;
    state_.loss = r.loss;
    state_.skipped = r.skipped ? state_.skipped + 1 : 0;
    const double done = double(state_.step - first);
    observer_.stepped({state_.step, o_.steps, r.loss, lr, r.grad_norm, r.skipped,
                       done * double(count * o_.trainer.tokens) / training,
                       (now() - begin) / done * double(o_.steps - state_.step), seconds});
    watcher_->after(state_.step, *trainer_, tell);
    if (state_.skipped >= o_.max_skipped) give_up();
  }

  void publish(TrainResult& r) {
    observer_.entered("save");
    require_finite();
    r.model_path = publish_model(model_, o_.out, o_.stored);
    if (has_average()) {
      const AveragedWeights averaged(model_.spec, *model_.params, trainer_->moments());
      r.average_path = average_path(o_.out);
      save_model(model_, r.average_path, o_.stored);
    }
    observer_.left("save");
  }

  // A run that changed next to nothing, or whose model ends up predicting nothing, has failed, however many steps it
  // made. There is no loss scaling here whose overflows would be the way of things: a step that is skipped is an
  // accident.
  void require_success(const TrainResult& r) const {
    if (2 * state_.updates < state_.step)
      fail_internal(
          "training failed: {} of {} steps were not finite and changed no weight. The weights are in {}. Try a smaller "
          "--lr, or others to start from",
          state_.step - state_.updates, state_.step, r.model_path);
    if (state_.eval && state_.eval->step == state_.step && !std::isfinite(state_.eval->loss))
      fail_internal(
          "training diverged: the validation loss behind step {} is {}. The weights are in {}. Try a smaller "
          "--lr",
          state_.step, state_.eval->loss, r.model_path);
  }

  // The average begins with the first update.
  bool has_average() const { return o_.trainer.optimizer.ema > 0 && trainer_->updates() > 0; }

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

  // Early stopping: so many validations in a row were no better than the best before them.
  bool patience_over() const { return o_.patience > 0 && state_.waited >= o_.patience; }

  // Looks at a validation; a loss that is not a number is no better.
  void judge(double loss) {
    const bool better = loss < state_.least - o_.min_delta;
    state_.waited = better ? 0 : state_.waited + 1;
    if (better) state_.least = loss;
  }

  // Where the run goes on, if it is to and there is something. Nothing of an earlier run is ever written over.
  void find_checkpoint() {
    if (std::filesystem::is_directory(o_.out)) lock_.emplace(o_.out);
    if (!o_.resume) {
      check(checkpoints_.count() == 0,
            "out: '{}' has checkpoints of an earlier run; go on with it (--resume), remove the folder {}, or choose "
            "another --out",
            o_.out, checkpoints_.root());
      return;
    }
    std::vector<std::string> told;
    from_ = checkpoints_.find(told);
    for (const std::string& text : told) observer_.warned(text);
    if (!from_.empty()) state_ = checkpoint_state(from_);
  }

  void require_same_run() {
    const nlohmann::ordered_json there = checkpoint_config(from_);
    const std::vector<std::string> changed = differences(there, config_);
    if (!changed.empty()) {
      const std::string list = fmt::format("{}", fmt::join(changed, ", "));
      check(o_.allow_changes,
            "resume: {} is of another run: {}. Give the options and texts that it had, --allow-changes to go on with "
            "these, or another --out",
            from_, list);
    }
    const nlohmann::ordered_json::json_pointer optimizer("/options/optimizer/kind");
    check(there.at(optimizer) == config_.at(optimizer),
          "resume: {} has the state of another optimizer, which this one cannot take over", from_);
    check(state_.step <= o_.steps, "resume: {} is behind step {}, --steps is {}", from_, state_.step, o_.steps);
    if (!changed.empty())
      observer_.warned(fmt::format("resuming {} with changes: {}", from_, fmt::join(changed, ", ")));
  }

  void encode(const Texts& texts, const Tokenizer& tokenizer) {
    train_ids_ = tokenizer.encode(texts.train);
    validation_ids_ = tokenizer.encode(texts.validation);
    validation_bytes_ = int64_t(texts.validation.size());
    if (!validation_ids_.empty()) validation_bytes_ -= int64_t(tokenizer.token_bytes(validation_ids_[0]).size());
    sampler_ = std::make_unique<WindowSampler>(train_ids_, o_.trainer.batch, o_.trainer.tokens, o_.seed);
  }

  // What the run will write beside what is there: the model, the averaged one, the checkpoints that are kept, the best,
  // the next one.
  size_t disk_bytes(const ModelSpec& spec) const {
    const size_t models = o_.trainer.optimizer.ema > 0 ? 2 : 1;
    const size_t model = models * size_t(parameter_count(spec)) * size_of(o_.stored);
    if (o_.checkpoint_every == 0) return model;
    const size_t most = size_t(o_.keep) + 2, there = std::min(checkpoints_.count(), most);
    return model + (most - there) * Checkpoints::bytes(spec, o_.trainer.optimizer);
  }

  // Evaluations that find a new best are kept too, so that the best is there and not merely near.
  bool checkpoint_due(bool last) const {
    if (o_.checkpoint_every == 0) return false;
    return last || state_.step % o_.checkpoint_every == 0 || (state_.best && state_.best->step == state_.step);
  }

  void save_checkpoint() {
    require_finite();
    observer_.checkpointed(checkpoints_.save(model_, *trainer_, config_, state_), state_.step);
  }

  // Weights that are not numbers are of no use to anybody: better no file than a broken one.
  void require_finite() const {
    for (const TensorSpec& t : tensors_of(model_.spec))
      for (const float w : model_.params->read(t.name))
        if (!std::isfinite(w))
          fail_internal("training diverged: '{}' holds {}; nothing was saved{}. Try a smaller --lr", t.name, w,
                        checkpoints_.newest().empty() ? "" : " since " + checkpoints_.newest());
  }

  // A first bound on the memory, before the weights are made: weights, gradients and moments.
  void require_room(const ModelSpec& spec) const {
    size_t moments = 0;
    for (const auto& [name, type] : moment_types(spec, o_.trainer.optimizer)) moments += type.bytes();
    require_memory(size_t(parameter_count(spec)) * 2 * sizeof(float) + moments,
                   fmt::format("training '{}' ({:.1f} M parameters)", spec.name, double(parameter_count(spec)) * 1e-6));
  }

  void evaluate(bool last) {
    if (validation_ids_.size() < 2) return;
    const int64_t limit = last ? 0 : o_.eval_tokens;
    observer_.entered("validation");
    const EvalResult r = trainer_->evaluate(validation_ids_, limit);
    observer_.left("validation");
    const double bytes = double(validation_bytes_) * double(r.tokens) / double(validation_ids_.size() - 1);
    TrainObserver::Eval e{state_.step, r.mean(), r.nats / bytes, r.tokens + 1 == int64_t(validation_ids_.size()), {}};
    if (has_average()) {
      const AveragedWeights averaged(model_.spec, *model_.params, trainer_->moments());
      e.average_loss = trainer_->evaluate(validation_ids_, limit).mean();
    }
    if (!state_.eval || state_.eval->step != e.step) judge(e.loss);  // not the whole text after a part of it
    state_.eval = e;
    const bool best = !state_.best || (state_.best->whole == e.whole && e.loss < state_.best->loss);
    if (best && std::isfinite(e.loss)) state_.best = e;
    if (o_.sample_tokens > 0) e.sample = sample(state_.step);
    observer_.evaluated(e);
  }

  // Continues the first tokens of the validation text.
  std::string sample(int64_t step) {
    if (!decoder_)
      decoder_ = std::make_unique<Decoder>(device_, model_,
                                           DecoderOptions{.sequences = 1,
                                                          .context = std::min(model_.spec.context, o_.trainer.tokens),
                                                          .max_rows = 64,
                                                          .check_finite = o_.trainer.check_finite});
    decoder_->state().reset(0);
    const size_t prompt = std::min<size_t>({8, validation_ids_.size(), size_t(decoder_->context() / 2)});
    std::vector<int32_t> ids(validation_ids_.begin(), validation_ids_.begin() + int64_t(prompt));
    GenerateOptions g{.max_tokens = std::min(o_.sample_tokens, decoder_->context() - int64_t(prompt)),
                      .sampler = {.temperature = 0.8, .seed = o_.seed + uint64_t(step)}};
    for (const GeneratedToken& t : generate(*decoder_, 0, std::vector<int32_t>(ids), model_.tokenizer->eos(), g))
      ids.push_back(t.chosen.id);
    return model_.tokenizer->decode(ids);
  }

  const RecipeOptions& o_;
  Device& device_;
  TrainObserver& observer_;
  std::optional<FolderLock> lock_;
  Checkpoints checkpoints_;
  std::string from_;  // the checkpoint that the run goes on from, or ""
  nlohmann::ordered_json config_;
  RunState state_;
  std::vector<int32_t> train_ids_, validation_ids_;
  int64_t validation_bytes_ = 0;
  std::unique_ptr<WindowSampler> sampler_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace

Schedule RecipeOptions::rates() const {
  check(warmup >= -1, "warmup is {}, expected 0 to the number of steps ({})", warmup, steps);
  check(decay_steps >= -1, "decay-steps is {}, expected 0 to the number of steps ({})", decay_steps, steps);
  Schedule s{.kind = schedule, .peak = lr, .warmup = warmup, .steps = steps, .decay = 0, .final_fraction = final_lr};
  if (warmup < 0) s.warmup = std::min<int64_t>(200, steps / 20);
  if (schedule == Schedule::wsd) s.decay = decay_steps >= 0 ? decay_steps : std::min(steps / 5, steps - s.warmup);
  s.validate();
  return s;
}

TrainResult run_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer) {
  return Run(options, source, device, observer).go();
}

}  // namespace toy
