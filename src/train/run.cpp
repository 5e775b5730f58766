#include "train/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "toy/base/memory.h"
#include "toy/decode/generate.h"

namespace toy {
namespace {

constexpr const char* kModelFile = "model.gguf";
constexpr const char* kAverageFile = "model-ema.gguf";

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
  check(o.sample_tokens >= 0, "sample is {}, expected 0 (none) or more", o.sample_tokens);
  check(o.context == 0 || o.context >= o.trainer.tokens, "context is {}, smaller than the window of {} tokens",
        o.context, o.trainer.tokens);
}

// The folder is made, and proven writable, before any time is spent.
void prepare_folder(const std::string& out, const ModelSpec& spec, DType stored) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  check(!error, "out: cannot make the folder '{}': {}", out, error.message());
  check(std::filesystem::is_directory(out), "out: '{}' is not a folder", out);
  check(access(out.c_str(), W_OK | X_OK) == 0, "out: the folder '{}' is not writable", out);
  for (const char* file : {kModelFile, kAverageFile}) {
    const auto target = std::filesystem::path(out) / file;
    check(!std::filesystem::is_directory(target, error), "out: '{}' is a folder; the model is to be written there",
          target.string());
  }
  const auto space = std::filesystem::space(out, error);
  const size_t needed = size_t(parameter_count(spec)) * size_of(stored);
  check(error || space.available >= needed, "disk: '{}' has {} free, the model needs {}", out,
        format_bytes(space.available), format_bytes(needed));
}

struct Texts {
  std::string train, validation;
};

// The validation part is the end of the text, from the next blank line (or line) on, so that it begins at a beginning.
Texts read_texts(const RecipeOptions& o) {
  Texts t{read_text_file(o.corpus), {}};
  if (!o.validation.empty()) {
    t.validation = read_text_file(o.validation);
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

// Early stopping: the run is over when `limit` validations in a row were no better than the best by `min_delta`.
class Patience {
 public:
  Patience(int64_t limit, double min_delta) : limit_(limit), min_delta_(min_delta) {}
  // Looks at a validation once; a loss that is not a number is no better.
  bool over(const std::optional<TrainObserver::Eval>& eval) {
    if (limit_ == 0 || !eval || eval->step == seen_) return false;
    seen_ = eval->step;
    if (eval->loss < best_ - min_delta_) {
      best_ = eval->loss, waited_ = 0;
      return false;
    }
    return ++waited_ >= limit_;
  }

 private:
  int64_t limit_, waited_ = 0, seen_ = 0;
  double min_delta_, best_ = std::numeric_limits<double>::infinity();
};

class Run {
 public:
  Run(const RecipeOptions& o, ModelSource& source, Device& device, TrainObserver& observer)
      : o_(o), device_(device), observer_(observer) {
    check_options(o);
    const Texts texts = read_texts(o);
    validation_bytes_ = int64_t(texts.validation.size());
    observer.preparing(fmt::format("{}: {}", o.corpus, format_bytes(texts.train.size())));
    auto tokenizer = source.tokenizer(texts.train);
    train_ids_ = tokenizer->encode(texts.train);
    validation_ids_ = tokenizer->encode(texts.validation);
    if (!validation_ids_.empty()) validation_bytes_ -= int64_t(tokenizer->token_bytes(validation_ids_[0]).size());
    sampler_ = std::make_unique<WindowSampler>(train_ids_, o.trainer.batch, o.trainer.tokens, o.seed);
    const ModelSpec spec = source.spec(*tokenizer);
    require_room(spec);
    prepare_folder(o.out, spec, o.stored);
    observer.preparing(fmt::format("{}: {:.2f} M weights", spec.name, double(parameter_count(spec)) * 1e-6));
    model_ = source.model(spec, device);
    model_.tokenizer = std::move(tokenizer);
    TrainerOptions options = o.trainer;
    options.seed = o.seed;
    trainer_ = std::make_unique<Trainer>(device, model_, options);
    watcher_ = std::make_unique<Watcher>(o.watch, device, model_, options);
  }

  TrainResult go() {
    TrainResult result;
    const Schedule schedule = o_.rates();
    observer_.started({model_.spec, parameter_count(model_.spec), int64_t(train_ids_.size()),
                       int64_t(validation_ids_.size()), validation_bytes_, sampler_->windows_per_epoch(),
                       trainer_->planned_bytes() + watcher_->planned_bytes(), trainer_->plan()});
    const auto tell = [this](const runs::Event& e) { observer_.measured(e); };
    const double begin = now();
    double training = 0;
    for (int64_t step = 0; step < o_.steps; ++step) {
      const Windows windows = sampler_->batch(step);
      watcher_->before(step + 1, windows, *trainer_, tell);
      const double before = now();
      const double lr = schedule.at(step);
      const StepResult r = trainer_->step(windows, lr);
      const double seconds = now() - before;
      training += seconds;
      result.final_loss = r.loss;
      const double rate = double((step + 1) * o_.trainer.batch * o_.trainer.tokens) / training;
      observer_.stepped({step + 1, o_.steps, r.loss, lr, r.grad_norm, r.skipped, rate,
                         (now() - begin) / double(step + 1) * double(o_.steps - step - 1), seconds});
      watcher_->after(step + 1, *trainer_, tell);
      result.steps = step + 1;
      watch_skipped(step + 1, r.skipped);
      const bool timed_out = o_.time_limit > 0 && now() - begin >= o_.time_limit, last = step + 1 == o_.steps;
      if (timed_out && !last) result.reason = TrainResult::time;
      const bool ends = last || timed_out;
      if (ends || (o_.eval_every > 0 && (step + 1) % o_.eval_every == 0)) result.eval = evaluate(step + 1, ends);
      if (ends) break;
      if (patience_.over(result.eval)) {
        result.reason = TrainResult::patience;
        if (!result.eval->whole) result.eval = evaluate(step + 1, true);
        break;
      }
    }
    observer_.entered("save");
    save(result);
    observer_.left("save");
    result.seconds = now() - begin;
    return result;
  }

 private:
  void save(TrainResult& result) {
    result.model_path = (std::filesystem::path(o_.out) / kModelFile).string();
    require_finite();
    save_model(model_, result.model_path, o_.stored);
    if (!has_average()) return;
    const AveragedWeights averaged(model_.spec, *model_.params, trainer_->moments());
    result.average_path = (std::filesystem::path(o_.out) / kAverageFile).string();
    save_model(model_, result.average_path, o_.stored);
  }

  // The average begins with the first update.
  bool has_average() const { return o_.trainer.optimizer.ema > 0 && trainer_->updates() > 0; }

  // Skipped steps change nothing, so the weights are those of the last good step: they are kept.
  void watch_skipped(int64_t step, bool skipped) {
    skipped_ = skipped ? skipped_ + 1 : 0;
    if (skipped_ < o_.max_skipped) return;
    TrainResult result;
    save(result);
    fail_internal(
        "training diverged: the {} of {} steps in a row, up to step {}, was not finite, and these steps were skipped. "
        "The weights before them are in {}. Try a smaller --lr",
        o_.trainer.updates == TrainerOptions::gathered ? "gradient" : "loss", skipped_, step, result.model_path);
  }

  // Weights that are not numbers are of no use to anybody: better no file than a broken one.
  void require_finite() const {
    for (const TensorSpec& t : tensors_of(model_.spec))
      for (const float w : model_.params->read(t.name))
        if (!std::isfinite(w))
          fail_internal("training diverged: '{}' holds {}; nothing was saved. Try a smaller --lr", t.name, w);
  }

  // A first bound on the memory, before the weights are made: weights, gradients and moments.
  void require_room(const ModelSpec& spec) const {
    size_t moments = 0;
    for (const auto& [name, type] : moment_types(spec, o_.trainer.optimizer)) moments += type.bytes();
    require_memory(size_t(parameter_count(spec)) * 2 * sizeof(float) + moments,
                   fmt::format("training '{}' ({:.1f} M parameters)", spec.name, double(parameter_count(spec)) * 1e-6));
  }

  std::optional<TrainObserver::Eval> evaluate(int64_t step, bool last) {
    if (validation_ids_.size() < 2) return std::nullopt;
    const int64_t limit = last ? 0 : o_.eval_tokens;
    observer_.entered("validation");
    const EvalResult r = trainer_->evaluate(validation_ids_, limit);
    observer_.left("validation");
    const double bytes = double(validation_bytes_) * double(r.tokens) / double(validation_ids_.size() - 1);
    TrainObserver::Eval e{step, r.mean(), r.nats / bytes, r.tokens + 1 == int64_t(validation_ids_.size()), {}};
    if (has_average()) {
      const AveragedWeights averaged(model_.spec, *model_.params, trainer_->moments());
      e.average_loss = trainer_->evaluate(validation_ids_, limit).mean();
    }
    if (o_.sample_tokens > 0) e.sample = sample(step);
    observer_.evaluated(e);
    return e;
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
  std::vector<int32_t> train_ids_, validation_ids_;
  int64_t validation_bytes_ = 0;
  std::unique_ptr<WindowSampler> sampler_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Decoder> decoder_;
  Patience patience_{o_.patience, o_.min_delta};
  int64_t skipped_ = 0;  // in a row
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
