#include "train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "toy/base/atomic_file.h"
#include "toy/base/checksum.h"
#include "toy/base/json_text.h"
#include "toy/base/run_files.h"
#include "toy/data/text_files.h"
#include "toy/formats/safetensors.h"
#include "toy/models/adapter.h"
#include "train/publish.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using runs::kAdapterFile, runs::kConfigFile, runs::kFinishedFile, runs::kWeightsFile;

constexpr const char* kState = "state.json";
constexpr const char* kMoments = "state.safetensors";
constexpr const char* kBest = "best";
constexpr const char* kExact = "weights/";  // in front of weights that kWeightsFile does not hold exactly

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

// The fields of a JSON object in a file. A checksum vouches for the bytes of a checkpoint, not for who wrote them.
class Fields {
 public:
  /// `advice`: what to do about a malformed file.
  Fields(const ordered_json& j, std::string where, const char* advice = "use another checkpoint")
      : j_(j), where_(std::move(where)), advice_(advice) {
    check(j.is_object(), "{} is {}, expected an object; {}", where_, shortened(j), advice_);
  }
  const ordered_json& at(const char* key) const {
    const auto it = j_.find(key);
    check(it != j_.end(), "{} is missing; {}", name(key), advice_);
    return *it;
  }
  Fields object(const char* key) const { return {at(key), name(key), advice_}; }
  int64_t count(const char* key) const {
    constexpr int64_t kMost = int64_t(1) << 53;  // numbers of JSON are exact up to there, and sums cannot overflow
    return json_number<int64_t>(at(key), name(key), 0, kMost);
  }
  double number(const char* key) const {  // null: not finite
    return at(key).is_null() ? std::nan("") : json_number<double>(at(key), name(key));
  }
  bool flag(const char* key) const {
    check(at(key).is_boolean(), "{} is {}, expected true or false; {}", name(key), shortened(at(key)), advice_);
    return at(key).get<bool>();
  }
  std::string text(const char* key) const {
    check(at(key).is_string(), "{} is {}, expected text in quotes; {}", name(key), shortened(at(key)), advice_);
    return at(key).get<std::string>();
  }
  bool has(const char* key) const { return j_.contains(key); }

 private:
  std::string name(const char* key) const { return fmt::format("{}: '{}'", where_, key); }
  static std::string shortened(const ordered_json& j) {
    constexpr size_t kMost = 40;
    const std::string text = json_text(j);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }
  const ordered_json& j_;
  std::string where_;
  const char* advice_;
};

ordered_json eval_json(const std::optional<Evaluation>& e) {
  if (!e) return nullptr;
  ordered_json j{
      {"step", e->step}, {"loss", number(e->loss)}, {"nats_per_byte", number(e->nats_per_byte)}, {"whole", e->whole}};
  if (e->average_loss) j["average_loss"] = number(*e->average_loss);
  runs::Eval::each_part(*e, [&](const char* name, const auto& value, const char*) {
    if (value) j[name] = *value;
  });
  return j;
}

std::optional<Evaluation> eval_of(const Fields& state, const char* key) {
  if (state.at(key).is_null()) return std::nullopt;
  const Fields f = state.object(key);
  Evaluation e;
  e.loss = f.number("loss"), e.nats_per_byte = f.number("nats_per_byte");
  e.whole = f.flag("whole"), e.step = f.count("step");
  if (f.has("average_loss")) e.average_loss = f.number("average_loss");
  runs::Eval::each_part(e, [&](const char* name, auto& value, const char*) {
    if (f.has(name)) value = f.number(name);
  });
  return e;
}

ordered_json read_file(const std::string& path) { return read_json<ordered_json>(path, read_text_file(path)); }

FinishedRun parse_finished(const std::string& out, const std::string& file) {
  constexpr const char* kAdvice = "remove this file";
  const ordered_json j = read_file(file);
  const Fields f(j, file, kAdvice);
  const bool adapter = f.has("adapter") && f.flag("adapter");
  FinishedRun run{.config = f.at("config"),
                  .result = {.model_path = model_path(out, adapter), .step = f.count("step")}};
  f.object("config");
  run.result.final_loss = f.number("loss");
  run.result.eval = eval_of(f, "eval");
  if (f.flag("average")) run.result.average_path = average_path(out, adapter);
  const std::string reason = f.text("reason");
  for (const auto known : {TrainResult::done, TrainResult::patience})
    if (reason == name_of(known)) run.result.reason = known;
  check(reason == name_of(run.result.reason), "{}: 'reason' is '{}', expected done or patience; {}", file, reason,
        kAdvice);
  if (f.has("init")) run.init = f.at("init");
  f.object("model");
  run.model = f.at("model");
  return run;
}

// Names of trained weights that the device holds in more than f32, of those of which a model file holds another value,
// and of all where some are frozen: then there is no model file.
std::vector<std::string> inexact(const Model& model) {
  const bool all = has_frozen(model.spec);
  std::vector<std::string> names;
  for (const TensorSpec& t : trained_tensors(model.spec))
    if (all || model.params->stored(t.name) != DType::f32 || t.in_file != TensorSpec::InFile::same)
      names.push_back(t.name);
  return names;
}

// Numbers in the file of the adapter that is trained.
int64_t adapter_count(const ModelSpec& spec) {
  int64_t n = 0;
  for (const TensorSpec& t : tensors_of(spec))
    if (t.adapter >= 0 && t.adapter + 1 == int(spec.adapters.size())) n += t.shape.count();
  return n;
}

void copy_tensor(const safetensors::File& file, const std::string& stored, ParamStore& store, const std::string& name) {
  const auto it = file.tensors().find(stored);
  check(it != file.tensors().end(), "{}: there is no tensor '{}': optimizer, average or device was another",
        file.path(), stored);
  const View& from = it->second;
  const Shape& shape = store.type(name).shape;
  check(from.dtype == store.stored(name) && from.shape == shape, "{}: tensor '{}' is {} {}, this run needs {} {}",
        file.path(), stored, name_of(from.dtype), from.shape.str(), name_of(store.stored(name)), shape.str());
  store.write(name, from);
}

}  // namespace

size_t Checkpoints::bytes(const ModelSpec& spec, const OptimizerOptions& optimizer) {
  size_t n = size_t(trained_count(spec) + adapter_count(spec)) * sizeof(float);
  for (const auto& [name, type] : moment_types(spec, optimizer)) n += type.bytes();
  return n;
}

const std::string& Checkpoints::look() {
  std::vector<int64_t> steps = checkpoint_steps(root_);
  damaged_.clear();
  for (; !steps.empty(); steps.pop_back()) {
    std::string damage = checkpoint_damage(root_, steps.back());
    if (damage.empty()) break;
    damaged_.emplace_back(steps.back(), std::move(damage));
  }
  if (steps.empty() && !damaged_.empty())
    fail("{}: every checkpoint is damaged ({}: {}); remove the folder to start at step 1", root_,
         checkpoint_path(root_, damaged_[0].first), damaged_[0].second);
  return newest_ = steps.empty() ? "" : checkpoint_path(root_, steps.back());
}

std::vector<std::string> Checkpoints::settle(bool writes) const {
  if (writes) clean_checkpoints(root_);
  std::vector<std::string> told;
  for (const auto& [step, damage] : damaged_) {
    const std::string before = checkpoint_path(root_, step);
    const std::string now = writes ? fmt::format("; it is now {}", set_checkpoint_aside(root_, step)) : "";
    told.push_back(fmt::format("{} is damaged: {}{}; resuming from {}", before, damage, now, newest_));
  }
  return told;
}

std::string Checkpoints::save(const Model& model, Trainer& trainer, const ordered_json& config, const RunState& s) {
  try {
    CheckpointWriter writer(root_, s.step);
    write_text(writer.path(kConfigFile), json_text(config, 2) + "\n");
    ordered_json state{{"step", s.step},
                       {"updates", s.updates},
                       {"windows", s.windows},
                       {"random", {{"generator", "philox4x32-10"}, {"seed", config.at("options").at("seed")}}},
                       {"loss", number(s.loss)},
                       {"eval", eval_json(s.eval)},
                       {"best", eval_json(s.best)},
                       {"skipped", s.skipped},
                       {"waited", s.waited},
                       {"least", number(s.least)}};
    if (s.unmixed > 0) state["unmixed"] = s.unmixed, state["cut"] = s.cut;
    write_text(writer.path(kState), json_text(state, 2) + "\n");
    safetensors::Writer tensors;
    std::deque<HostTensor> kept;  // until they are written
    const auto add = [&](const std::string& stored, const ParamStore& store, const std::string& name) {
      tensors.add(stored, kept.emplace_back(store.host(name)).view());
    };
    for (const auto& [name, type] : trainer.all_moments()) {
      if (trainer.moments().has(name)) {
        add(name, trainer.moments(), name);
        continue;
      }
      // Of another rank: it comes when it is written, piece by piece.
      const DType stored = trainer.moments().device().storage(type.dtype);
      tensors.add(name, stored, type.shape,
                  [&trainer, of = name](const safetensors::Writer::Sink& sink) { trainer.read_moment(of, sink); });
    }
    for (const std::string& name : inexact(model)) add(kExact + name, *model.params, name);
    tensors.finish(writer.path(kMoments));
    if (!model.spec.adapters.empty())
      save_adapter(model, model.spec.adapters.size() - 1, writer.path(kAdapterFile));
    else if (!has_frozen(model.spec))
      save_model(model, writer.path(kWeightsFile));
    newest_ = writer.commit();
  } catch (const Error& e) {
    const std::string said = fmt::format("the checkpoint of step {} could not be written: {}", s.step, e.what());
    if (newest_.empty()) throw Error(e.code(), said + "; there is no earlier one to resume from");
    std::error_code unknown;
    if (fs::exists(newest_, unknown)) throw with_resume_hint(Error(e.code(), said));
    throw Error(e.code(), fmt::format("{}; {}, the one before, is no longer there either", said, newest_));
  }
  tidy(s);
  return newest_;
}

Error Checkpoints::with_resume_hint(const Error& error) const {
  constexpr const char* kResume = "--resume continues from it";
  const std::string said = error.what();
  if (newest_.empty() || said.find(kResume) != std::string::npos) return error;
  return Error(error.code(), fmt::format("{}; {} is complete: {}", said, newest_, kResume));
}

void Checkpoints::tidy(const RunState& s) const {
  try {
    if (s.best && fs::exists(checkpoint_path(root_, s.best->step))) link_checkpoint(root_, kBest, s.best->step);
  } catch (const Error& e) {
    throw with_resume_hint(e);
  }
  std::vector<int64_t> steps = checkpoint_steps(root_);
  steps.resize(steps.size() - std::min(steps.size(), size_t(keep_)));
  for (const int64_t step : steps)
    if (!s.best || s.best->step != step) remove_checkpoint(root_, step);
}

void Checkpoints::require_places() const {
  std::error_code error;
  check(!fs::exists(root_, error) || fs::is_directory(root_, error),
        "out: '{}' is not a folder; checkpoints are to be written there", root_);
  require_link_place(root_, kBest);
}

size_t disk_bytes(const RecipeOptions& o, const ModelSpec& spec, const Checkpoints& checkpoints, int64_t step) {
  const size_t models = o.trainer.optimizer.ema > 0 ? 2 : 1;
  int64_t parameters = adapter_count(spec);
  if (spec.adapters.empty())
    for (const FileTensor& t : file_tensors(spec)) parameters += t.shape.count();
  // What is quantized is written in f32 first.
  const size_t model = models * size_t(parameters) * (size_of(o.stored) + (o.mix.empty() ? 0 : size_of(DType::f32)));
  // Ranks that train apart have weights and moments each, and for all of them a start and a velocity.
  const size_t ranks = o.trainer.local_steps > 0 ? size_t(o.trainer.shards) : 1,
               together = ranks > 1 ? 2 * size_t(trained_count(spec)) * sizeof(float) : 0;
  const size_t one = ranks * Checkpoints::bytes(spec, o.trainer.optimizer) + together;
  if (o.checkpoint_every == 0) return model + (o.time_limit > 0 ? one : 0);
  const int64_t ahead = (o.steps - step) / o.checkpoint_every + 1;
  const size_t most = size_t(std::min<int64_t>(o.keep, ahead)) + 2, there = std::min(checkpoints.count(), most);
  return model + (most - there) * one;
}

ordered_json checkpoint_config(const std::string& path) {
  const std::string file = path + "/" + kConfigFile;
  ordered_json j = read_file(file);
  const Fields options = Fields(j, file).object("options");
  options.text("compute"), options.object("optimizer").text("kind");  // what is read apart from the comparison
  return j;
}

RunState checkpoint_state(const std::string& path) {
  const std::string file = path + "/" + kState;
  const ordered_json j = read_file(file);
  const Fields f(j, file);
  RunState s{.step = f.count("step"),
             .updates = f.count("updates"),
             .windows = f.count("windows"),
             .loss = f.number("loss"),
             .eval = eval_of(f, "eval"),
             .best = eval_of(f, "best"),
             .skipped = f.count("skipped"),
             .waited = f.count("waited")};
  if (!f.at("least").is_null()) s.least = f.number("least");  // else none was found yet
  if (j.contains("unmixed")) s.unmixed = f.count("unmixed"), s.cut = f.count("cut");
  return s;
}

std::shared_ptr<const Tokenizer> checkpoint_tokenizer(const std::string& path) {
  if (std::error_code error; !fs::exists(path + "/" + kWeightsFile, error)) return nullptr;
  auto tokenizer = load_tokenizer(gguf::File::open(path + "/" + kWeightsFile));
  check(tokenizer != nullptr, "{}/{}: there is no tokenizer in it", path, kWeightsFile);
  return tokenizer;
}

Model checkpoint_model(const std::string& path, const ModelSpec& spec, const Device& device) {
  Model model = load_model(path + "/" + kWeightsFile, device, LoadMode::trainable);
  for (const TensorSpec& t : tensors_of(spec)) {
    check(model.params->has(t.name), "{}/{}: the model has no tensor '{}'", path, kWeightsFile, t.name);
    const Shape& shape = model.params->type(t.name).shape;
    check(shape == t.shape, "{}/{}: tensor '{}' is {}, this run needs {}", path, kWeightsFile, t.name, shape.str(),
          t.shape.str());
  }
  model.spec = spec;
  return model;
}

void restore_trainer(const std::string& path, const RunState& state, const Model& model, Trainer& trainer) {
  const auto file = safetensors::File::open(path + "/" + kMoments);
  for (const std::string& name : inexact(model)) copy_tensor(file, kExact + name, *model.params, name);
  trainer.resume(std::max(state.step, state.updates), state.updates);  // a step may have several updates
  trainer.each_moment(true, [&](ParamStore& store, const std::string& name) { copy_tensor(file, name, store, name); });
}

ordered_json content_of(const std::string& path) {
  if (path.empty()) return nullptr;
  uint64_t bytes = 0;
  const uint64_t sum = xxh64_of_file(path, bytes);
  return {{"bytes", bytes}, {"xxh64", checksum_text(sum)}};
}

void write_finished(const std::string& out, const FinishedRun& run) {
  const TrainResult& r = run.result;
  ordered_json j{{"step", r.step}, {"loss", number(r.final_loss)}, {"eval", eval_json(r.eval)}};
  j["reason"] = name_of(r.reason);
  j["average"] = !r.average_path.empty();
  if (r.model_path != model_path(out)) j["adapter"] = true;
  j["model"] = content_of(r.model_path);
  if (!run.init.is_null()) j["init"] = run.init;
  j["config"] = run.config;
  write_text((fs::path(out) / kFinishedFile).string(), json_text(j, 2) + "\n");
}

std::optional<FinishedRun> read_finished(const std::string& out, const std::string& checkpoint, Teller& tell) {
  const std::string file = (fs::path(out) / kFinishedFile).string();
  std::error_code error;
  const bool there = fs::exists(model_path(out), error) || fs::exists(model_path(out, true), error);
  if (!fs::exists(file, error) || !there) return std::nullopt;
  try {
    FinishedRun run = parse_finished(out, file);
    const std::string& average = run.result.average_path;
    const bool whole = fs::exists(run.result.model_path, error) && (average.empty() || fs::exists(average, error));
    if (whole && run.model == content_of(run.result.model_path)) return run;
  } catch (const Error& e) {
    if (checkpoint.empty()) throw;
    tell.note(fmt::format("{}; resuming from {}", e.what(), checkpoint));
  }
  return std::nullopt;
}

void forget_finished(const std::string& out) {
  std::error_code none;
  fs::remove(fs::path(out) / kFinishedFile, none);
}

std::optional<DType> checkpoint_compute(const std::string& out) {
  const std::string path = Checkpoints(out, 1).look();
  if (path.empty()) return std::nullopt;
  return checkpoint_config(path)["options"]["compute"] == name_of(DType::bf16) ? DType::bf16 : DType::f32;
}

}  // namespace toy
