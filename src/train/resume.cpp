#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/base/shell_word.h"
#include "train/config.h"
#include "train/publish.h"

namespace toy {
namespace fs = std::filesystem;
namespace {
const nlohmann::ordered_json::json_pointer kSteps("/options/steps");

// Weights of other shapes, which no state of training fits.
bool has_other_sizes(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b) {
  const auto size = [](const nlohmann::ordered_json& config, const char* key) {
    return config.value(nlohmann::ordered_json::json_pointer(fmt::format("/model/{}", key)), nlohmann::ordered_json());
  };
  const auto width = [&](const nlohmann::ordered_json& config, const char* heads) {
    const nlohmann::ordered_json n = size(config, heads), d_head = size(config, "d_head");
    return n.is_number() && d_head.is_number() ? n.get<double>() * d_head.get<double>() : 0;
  };
  return std::ranges::any_of(std::array{"vocab", "d_model", "n_layers", "d_ff"},
                             [&](const char* key) { return size(a, key) != size(b, key); }) ||
         width(a, "n_heads") != width(b, "n_heads") || width(a, "n_kv") != width(b, "n_kv");
}
}  // namespace

void choose_compute(RecipeOptions& o, Device& device, Teller& tell) {
  if (!o.auto_compute) return;
  const std::optional<DType> before = o.resume ? checkpoint_compute(o.out) : std::nullopt;
  if (before) return void(o.trainer.compute = *before);
  const auto [type, why] = faster_compute(device);
  tell.note(why);
  o.trainer.compute = type;
}

std::string Resume::result_path() const { return model_path(o_.out, source_.adapts()); }

Resume::Resume(const RecipeOptions& options, ModelSource& source, Teller& tell, bool writes)
    : o_(options), source_(source), tell_(tell), writes_(writes), checkpoints_(o_.out, o_.keep) {
  if (writes_ && fs::is_directory(o_.out)) lock_.emplace(o_.out);
  if (!o_.resume) {
    check(checkpoints_.count() == 0,
          "out: '{}' has checkpoints of an earlier run{}; resume it (--resume), remove the folder {}, or choose "
          "another --out",
          o_.out, o_.overwrite ? ", which --overwrite keeps" : "", checkpoints_.root());
    const std::string there = earlier_result();
    check(!writes_ || o_.overwrite || there.empty(),
          "out: '{}' is {} and would be lost; choose another --out, or add --overwrite to replace it", there,
          replaces_its_source() ? "the model that this run begins with" : "of an earlier run");
    return;
  }
  from_ = checkpoints_.look();
  finished_ = read_finished(o_.out, from_, tell_);
  if (!from_.empty()) {
    state_ = checkpoint_state(from_);
    check(state_.updates <= state_.step * (o_.policy ? PolicyOptions::kMostIterations : 1),
          "{}/state.json: {} updates in {} steps cannot be; use another checkpoint", from_, state_.updates,
          state_.step);
    return;
  }
  std::error_code unknown;
  const std::string model = result_path();
  check(finished_ || !fs::exists(model, unknown) || replaces_its_source(),
        "resume: {} is there, but no checkpoint and no record of a complete run. Use --overwrite instead of --resume "
        "to start at step 1 and replace it, or choose another --out",
        model);
}

// What an earlier run made, "" if there is nothing.
std::string Resume::earlier_result() const {
  std::error_code unknown;
  for (const bool adapter : {source_.adapts(), !source_.adapts()})
    if (std::string path = model_path(o_.out, adapter); fs::exists(path, unknown)) return path;
  return {};
}

// A warm start from the model that it will replace, which its options name.
bool Resume::replaces_its_source() const {
  std::error_code not_there;
  return fs::equivalent(source_.file(), result_path(), not_there);
}

std::shared_ptr<const Tokenizer> Resume::tokenizer() const {
  if (!from_.empty()) return checkpoint_tokenizer(from_);
  if (source_.adapts()) return nullptr;
  return finished_ ? load_tokenizer(gguf::File::open(result_path())) : nullptr;
}

nlohmann::ordered_json Resume::earlier(const char* place) const {
  if (!finished_ && from_.empty()) return nullptr;
  const nlohmann::ordered_json config = from_.empty() ? finished_->config : checkpoint_config(from_);
  return config.value(nlohmann::ordered_json::json_pointer(place), nlohmann::ordered_json());
}

void Resume::compare(const nlohmann::ordered_json& config) {
  init_ = content_of(source_.file());
  if (finished_) compare_with_finished(config);
  if (!complete_ && !from_.empty()) compare_with_checkpoint(config);
}

// "toy train warm-start --init out/a --corpus book.txt --out out/a-2 trains its model further"; "" of what is no model
// of texts.
std::string Resume::how_to_train_further() const {
  const DataOptions& d = o_.data;
  if (source_.adapts() || d.images || d.labels || d.pairs || d.masks || d.questions) return {};
  fs::path out = fs::path(o_.out).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  std::string command = "toy train warm-start --init " + shell_quoted(out.string()), next;
  for (const std::string& path : d.corpus) command += " --corpus " + shell_quoted(path);
  for (const std::string& path : d.examples) command += " --data " + shell_quoted(path);
  for (int n = 2; next.empty() || fs::exists(next); ++n) next = fmt::format("{}-{}", out.string(), n);
  return fmt::format("{} --out {} trains its model further", command, shell_quoted(next));
}

// Refuses to replace the finished model of another run.
void Resume::compare_with_finished(const nlohmann::ordered_json& config) {
  std::vector<std::string> changed = differences(finished_->config, config);
  const bool other_init = changed.empty() && finished_->init != init_ && !replaces_its_source();
  if (other_init) changed.push_back(fmt::format("{} has changed since", source_.file()));
  const std::string further = how_to_train_further();
  if (!from_.empty() && !finished_->init.is_null()) init_ = finished_->init;  // the checkpoint's weights began there
  if (changed.empty()) {
    complete_ = finished_->result;
    complete_->out = o_.out;
    complete_->checkpoint = from_;
    complete_->was_complete = true;
    return tell_.note(fmt::format("{}: this run is complete, after step {} of {}{}{}", o_.out, complete_->step,
                                  o_.steps, further.empty() ? "" : "; ", further));
  }
  // More steps, perhaps: the rate of learning has already fallen to its end, so that is another run.
  nlohmann::ordered_json with_steps_of_it = config;
  with_steps_of_it[kSteps] = finished_->config.value(kSteps, int64_t(0));
  const bool longer = changed.size() == 1 && differences(finished_->config, with_steps_of_it).empty();
  check(!longer || !from_.empty() || further.empty() || replaces_its_source(), "resume: the run {} is complete: {}. {}",
        o_.out, changed[0], further);
  check((!from_.empty() && (!other_init || o_.allow_changes)) || replaces_its_source(),
        "resume: {} is the finished model of another run: {}. Use --overwrite instead of --resume to replace it, or "
        "choose another --out",
        result_path(), short_list(changed));
}

void Resume::compare_with_checkpoint(const nlohmann::ordered_json& config) {
  const nlohmann::ordered_json there = checkpoint_config(from_);
  const std::vector<std::string> changed = differences(there, config);
  const nlohmann::ordered_json::json_pointer shards("/options/shards");
  const auto before = there.value(shards, int64_t(1));
  check(before == o_.trainer.shards || o_.allow_changes,
        "resume: {} was trained with --shards {}, this is --shards {}, which would round sums differently; give "
        "--shards {}, or --allow-changes",
        from_, before, o_.trainer.shards, before);
  const auto same = [&](const char* key) { return there.value(key, "") == config.value(key, ""); };
  const char* const bits =
      same("device") && same("arithmetic") ? "" : "; sums round differently there, so bits may differ";
  const bool was_complete = state_.step >= o_.steps && state_.step == there.value(kSteps, int64_t(0));
  const std::string further = how_to_train_further();
  check(changed.empty() || o_.allow_changes || !was_complete || further.empty(),
        "resume: the run {} is complete, with other options: {}. {}", o_.out, short_list(changed), further);
  check(!has_other_sizes(there, config),
        "resume: {} is of another run: {}. Its weights have other sizes; give the options and texts that it had, or "
        "another --out",
        from_, short_list(changed));
  check(changed.empty() || o_.allow_changes,
        "resume: {} is of another run: {}{}. Give the options and texts that it had, --allow-changes to resume with "
        "these, or another --out",
        from_, short_list(changed), bits);
  const nlohmann::ordered_json::json_pointer rounds("/options/local_steps");
  const auto local = there.value(rounds, int64_t(0));
  check(local == 0 || state_.step % local == 0 || (local == o_.trainer.local_steps && before == o_.trainer.shards),
        "resume: {} is inside a round of --local-steps {} in {} ranks, each with weights of its own, which would be "
        "lost; resume with these options to a step that is a multiple of {} (--steps), and change them there",
        from_, local, before, local);
  const nlohmann::ordered_json::json_pointer optimizer("/options/optimizer/kind");
  check(there.at(optimizer) == config.at(optimizer),
        "resume: {} has the state of another optimizer, which this one cannot take over", from_);
  // A and B are differences from what these say they began with.
  for (const char* part : {"pissa", "alpha", "rslora", "targets"}) {
    const nlohmann::ordered_json::json_pointer at(fmt::format("/recipe/{}", part)), pissa("/recipe/pissa");
    const bool matters = part == std::string_view("pissa") || config.value(pissa, false);
    check(!matters || there.value(at, nlohmann::ordered_json()) == config.value(at, nlohmann::ordered_json()),
          "resume: {} has another --{}, which its adapter cannot take over with PiSSA", from_, part);
  }
  const nlohmann::ordered_json::json_pointer base("/recipe/base");
  if (config.contains(base))
    check(
        there.contains(base) && there.at(base) == config.at(base),
        "resume: {} belongs to another base than {}, whose length and checksum are {} (there: {}); give the file that "
        "the run began with",
        from_, source_.file(), json_text(config.at(base)), there.contains(base) ? json_text(there.at(base)) : "none");
  check(state_.step <= o_.steps, "resume: {} is after step {}, --steps is {}", from_, state_.step, o_.steps);
  for (const char* measure : {"/texts", "/options/eval_tokens"})  // losses before do not compare with those to come
    if (const nlohmann::ordered_json::json_pointer at(measure); !there.contains(at) || there.at(at) != config.at(at)) {
      state_.best.reset(), state_.waited = 0;
      state_.least = RunState().least;
    }
  if (!changed.empty()) tell_.warn(fmt::format("resuming {} with changes: {}{}", from_, short_list(changed), bits));
}

void Resume::prepare_to_write(const ModelSpec& spec) {
  if (from_.empty() && o_.resume) tell_.note(fmt::format("no checkpoint in {}: starting at step 1", o_.out));
  for (const std::string& text : checkpoints_.settle(writes_ && !from_.empty())) tell_.warn(text);
  if (!writes_) return;
  prepare_folder(o_.out, disk_bytes(o_, spec, checkpoints_, state_.step));
  if (!lock_) {  // the folder was not there when this run began to prepare
    lock_.emplace(o_.out);
    check(checkpoints_.count() == 0,
          "out: another run has made the folder '{}' and written checkpoints there in the meantime; resume it "
          "(--resume), or choose another --out",
          o_.out);
    check(o_.resume || o_.overwrite || earlier_result().empty(),
          "out: another run has made '{}' in the meantime; choose another --out", earlier_result());
  }
  remove_leftovers(o_.out);
  clean_checkpoints(checkpoints_.root());
  std::error_code unknown;
  if (from_.empty() && fs::exists(result_path(), unknown))
    tell_.note(
        fmt::format("out: {} is of an earlier run; this run's model takes its place when it is done", result_path()));
}

}  // namespace toy
