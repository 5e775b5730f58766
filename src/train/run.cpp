#include "train/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

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
  check(o.steps >= 1, "steps is {}, expected at least 1", o.steps);
  check(o.lr > 0 && std::isfinite(o.lr), "lr is {}, expected a positive number", o.lr);
  check(o.final_lr >= 0 && o.final_lr <= 1, "final-lr is {}, expected a fraction of the peak, 0 to 1", o.final_lr);
  check(o.warmup >= -1 && o.warmup <= o.steps, "warmup is {}, expected 0 to the number of steps ({})", o.warmup,
        o.steps);
  check(o.validation_fraction >= 0 && o.validation_fraction < 1, "val-fraction is {}, expected 0 to below 1",
        o.validation_fraction);
  check(o.eval_every >= 0, "eval-every is {}, expected 0 (only at the end) or more", o.eval_every);
  check(o.eval_tokens >= 0, "eval-tokens is {}, expected 0 (all) or more", o.eval_tokens);
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
  const std::string target = model_path(out);
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
    observer.preparing(fmt::format("{}: {:.2f} M weights", spec.name, double(parameter_count(spec)) * 1e-6));
    model_ = from_.empty() ? source.model(spec, device) : checkpoint_model(from_, spec, device);
    model_.tokenizer = std::move(tokenizer);
    TrainerOptions options = o.trainer;
    options.seed = o.seed;
    trainer_ = std::make_unique<Trainer>(device, model_, options);
    if (from_.empty()) return;
    restore_trainer(from_, state_, model_, *trainer_);
    checkpoints_.tidy(state_);  // the run may have been killed before it did
  }

  TrainResult go() {
    const CosineSchedule schedule{o_.lr, o_.warmup >= 0 ? o_.warmup : std::min<int64_t>(200, o_.steps / 20), o_.steps,
                                  o_.final_lr};
    observer_.started({model_.spec, parameter_count(model_.spec), int64_t(train_ids_.size()),
                       int64_t(validation_ids_.size()), validation_bytes_, sampler_->windows_per_epoch(),
                       trainer_->planned_bytes(), trainer_->plan()});
    if (!from_.empty()) observer_.resumed(state_.step);
    const double begin = now();
    const int64_t first = state_.step, windows = o_.trainer.batch * o_.trainer.accumulate;
    double training = 0;
    while (state_.step < o_.steps) {
      const double before = now();
      const double lr = schedule.at(state_.step);
      const StepResult r = trainer_->step(sampler_->windows(state_.windows, windows), lr);
      training += now() - before;
      ++state_.step;
      state_.updates = trainer_->updates();
      state_.windows += windows;
      state_.loss = r.loss;
      const double done = double(state_.step - first);
      observer_.stepped({state_.step, o_.steps, r.loss, lr, r.grad_norm, r.skipped,
                         done * double(windows * o_.trainer.tokens) / training,
                         (now() - begin) / done * double(o_.steps - state_.step)});
      const bool last = state_.step == o_.steps;
      if (last || (o_.eval_every > 0 && state_.step % o_.eval_every == 0)) evaluate(last);
      const bool stop = !last && observer_.stop();
      if (stop || checkpoint_due(last)) save_checkpoint();
      if (stop) return result({}, now() - begin);
    }
    require_finite();
    return result(publish_model(model_, o_.out, o_.stored), now() - begin);
  }

 private:
  TrainResult result(const std::string& path, double seconds) const {
    return {path, checkpoints_.newest(), state_.step, state_.loss, state_.eval, seconds};
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
    const std::vector<std::string> changed = differences(checkpoint_config(from_), config_);
    if (!changed.empty()) {
      const std::string list = fmt::format("{}", fmt::join(changed, ", "));
      check(o_.allow_changes,
            "resume: {} is of another run: {}. Give the options and texts that it had, --allow-changes to go on with "
            "these, or another --out",
            from_, list);
      observer_.warned(fmt::format("resuming {} with changes: {}", from_, list));
    }
    check(state_.step <= o_.steps, "resume: {} is behind step {}, --steps is {}", from_, state_.step, o_.steps);
  }

  void encode(const Texts& texts, const Tokenizer& tokenizer) {
    train_ids_ = tokenizer.encode(texts.train);
    validation_ids_ = tokenizer.encode(texts.validation);
    validation_bytes_ = int64_t(texts.validation.size());
    if (!validation_ids_.empty()) validation_bytes_ -= int64_t(tokenizer.token_bytes(validation_ids_[0]).size());
    sampler_ = std::make_unique<WindowSampler>(train_ids_, o_.trainer.batch, o_.trainer.tokens, o_.seed);
  }

  // What the run will write beside what is there: the model, the checkpoints that are kept, the best, the next one.
  size_t disk_bytes(const ModelSpec& spec) const {
    const size_t model = size_t(parameter_count(spec)) * size_of(o_.stored);
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
    const EvalResult r = trainer_->evaluate(validation_ids_, limit);
    const double bytes = double(validation_bytes_) * double(r.tokens) / double(validation_ids_.size() - 1);
    TrainObserver::Eval e{state_.step, r.mean(), r.nats / bytes, r.tokens + 1 == int64_t(validation_ids_.size()), {}};
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
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace

TrainResult run_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer) {
  return Run(options, source, device, observer).go();
}

}  // namespace toy
