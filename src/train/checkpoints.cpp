#include "train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/data/corpus.h"
#include "toy/formats/safetensors.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Eval = TrainObserver::Eval;

constexpr const char* kConfig = "config.json";
constexpr const char* kState = "state.json";
constexpr const char* kMoments = "state.safetensors";
constexpr const char* kWeights = "weights.gguf";
constexpr const char* kBest = "best";
constexpr const char* kWide = "weights/";  // in front of weights that the device holds in more than f32

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }
double number(const ordered_json& j) { return j.is_null() ? std::nan("") : j.get<double>(); }

ordered_json eval_json(const std::optional<Eval>& e) {
  if (!e) return nullptr;
  ordered_json j{
      {"step", e->step}, {"loss", number(e->loss)}, {"nats_per_byte", number(e->nats_per_byte)}, {"whole", e->whole}};
  if (e->average_loss) j["average_loss"] = number(*e->average_loss);
  return j;
}

std::optional<Eval> eval_of(const ordered_json& j) {
  if (j.is_null()) return std::nullopt;
  Eval e{j.at("step"), number(j.at("loss")), number(j.at("nats_per_byte")), j.at("whole"), {}};
  if (j.contains("average_loss")) e.average_loss = number(j.at("average_loss"));
  return e;
}

ordered_json read_object(const std::string& path) {
  ordered_json j = read_json<ordered_json>(path, read_text_file(path));
  check(j.is_object(), "{}: not a JSON object", path);
  return j;
}

bool is_wide(const View& weight) { return weight.dtype != DType::f32; }

// Into `to`, which has a store's memory.
void copy_tensor(const safetensors::File& file, const std::string& name, const View& to) {
  const auto it = file.tensors().find(name);
  check(it != file.tensors().end(), "{}: there is no tensor '{}': optimizer, average or device was another",
        file.path(), name);
  const View& from = it->second;
  check(from.dtype == to.dtype && from.shape == to.shape, "{}: tensor '{}' is {} {}, this run needs {} {}", file.path(),
        name, name_of(from.dtype), from.shape.str(), name_of(to.dtype), to.shape.str());
  if (to.count() > 0) std::memcpy(to.data, from.data, to.bytes());
}

}  // namespace

size_t Checkpoints::bytes(const ModelSpec& spec, const OptimizerOptions& optimizer) {
  size_t n = size_t(parameter_count(spec)) * sizeof(float);
  for (const auto& [name, type] : moment_types(spec, optimizer)) n += type.bytes();
  return n;
}

Checkpoints::Found Checkpoints::newest_whole() const {
  std::vector<int64_t> steps = checkpoint_steps(root_);
  Found found;
  for (; !steps.empty(); steps.pop_back()) {
    std::string damage = checkpoint_damage(root_, steps.back());
    if (damage.empty()) break;
    found.damaged.emplace_back(steps.back(), std::move(damage));
  }
  if (steps.empty() && !found.damaged.empty())
    fail("{}: no checkpoint is whole ({}: {}); to begin anew, remove the folder", root_,
         checkpoint_path(root_, found.damaged[0].first), found.damaged[0].second);
  if (!steps.empty()) found.path = checkpoint_path(root_, steps.back());
  return found;
}

std::string Checkpoints::find(std::vector<std::string>& told) {
  clean_checkpoints(root_);
  const Found found = newest_whole();
  newest_ = found.path;
  for (const auto& [step, damage] : found.damaged) {
    const std::string before = checkpoint_path(root_, step), aside = set_checkpoint_aside(root_, step);
    told.push_back(
        fmt::format("{} is damaged: {}; it is now {}, and the run goes on from {}", before, damage, aside, newest_));
  }
  return newest_;
}

std::string Checkpoints::look(std::vector<std::string>& told) const {
  const Found found = newest_whole();
  for (const auto& [step, damage] : found.damaged)
    told.push_back(fmt::format("{} is damaged: {}; the run would go on from {}", checkpoint_path(root_, step), damage,
                               found.path));
  return found.path;
}

std::string Checkpoints::save(const Model& model, const Trainer& trainer, const ordered_json& config,
                              const RunState& s) {
  try {
    CheckpointWriter writer(root_, s.step);
    write_text(writer.path(kConfig), json_text(config, 2) + "\n");
    const ordered_json state{{"step", s.step},
                             {"updates", s.updates},
                             {"windows", s.windows},
                             {"random", {{"generator", "philox4x32-10"}, {"seed", config.at("options").at("seed")}}},
                             {"loss", number(s.loss)},
                             {"eval", eval_json(s.eval)},
                             {"best", eval_json(s.best)},
                             {"skipped", s.skipped},
                             {"waited", s.waited},
                             {"least", number(s.least)}};
    write_text(writer.path(kState), json_text(state, 2) + "\n");
    safetensors::Writer tensors;
    for (const std::string& name : trainer.moments().names()) tensors.add(name, trainer.moments().get(name));
    for (const std::string& name : model.params->names())
      if (const View w = model.params->get(name); is_wide(w)) tensors.add(kWide + name, w);
    tensors.finish(writer.path(kMoments));
    save_model(model, writer.path(kWeights));
    newest_ = writer.commit();
    tidy(s);
  } catch (const Error& e) {
    std::string rest = "there is none yet to go on from";
    std::error_code unknown;
    if (!newest_.empty() && fs::exists(newest_, unknown))
      rest = fmt::format("{} is whole, and --resume goes on from it", newest_);
    else if (!newest_.empty())
      rest = fmt::format("{}, the one before, is no longer there either", newest_);
    throw Error(e.code(),
                fmt::format("the checkpoint of step {} could not be written: {}; {}", s.step, e.what(), rest));
  }
  return newest_;
}

void Checkpoints::tidy(const RunState& s) const {
  const std::string link = root_ + "/" + kBest;
  if (s.best) {
    const std::string best = checkpoint_path(root_, s.best->step);
    std::error_code error;
    if (fs::exists(best) && fs::read_symlink(link, error) != fs::path(best).filename())
      link_checkpoint(root_, kBest, s.best->step);
  }
  std::vector<int64_t> steps = checkpoint_steps(root_);
  steps.resize(steps.size() - std::min(steps.size(), size_t(keep_)));
  for (const int64_t step : steps)
    if (!s.best || s.best->step != step) remove_checkpoint(root_, step);
}

ordered_json checkpoint_config(const std::string& path) { return read_object(path + "/" + kConfig); }

RunState checkpoint_state(const std::string& path) {
  const std::string file = path + "/" + kState;
  const ordered_json j = read_object(file);
  try {
    RunState s{.step = j.at("step"),
               .updates = j.at("updates"),
               .windows = j.at("windows"),
               .loss = number(j.at("loss")),
               .eval = eval_of(j.at("eval")),
               .best = eval_of(j.at("best")),
               .skipped = j.at("skipped"),
               .waited = j.at("waited")};
    check(s.step >= 0 && s.updates >= 0 && s.windows >= 0, "{}: a negative count of steps, updates or windows", file);
    if (!j.at("least").is_null()) s.least = j.at("least");  // else none was found yet
    return s;
  } catch (const ordered_json::exception& e) {
    fail("{}: {}", file, e.what());
  }
}

std::unique_ptr<Tokenizer> checkpoint_tokenizer(const std::string& path) {
  auto tokenizer = load_tokenizer(gguf::File::open(path + "/" + kWeights));
  check(tokenizer != nullptr, "{}/{}: there is no tokenizer in it", path, kWeights);
  return tokenizer;
}

Model checkpoint_model(const std::string& path, const ModelSpec& spec, const Device& device) {
  Model model = load_model(path + "/" + kWeights, device, LoadMode::trainable);
  for (const TensorSpec& t : tensors_of(spec)) {
    check(model.params->has(t.name), "{}/{}: the model has no tensor '{}'", path, kWeights, t.name);
    const Shape& shape = model.params->type(t.name).shape;
    check(shape == t.shape, "{}/{}: tensor '{}' is {}, this run needs {}", path, kWeights, t.name, shape.str(),
          t.shape.str());
  }
  model.spec = spec;
  return model;
}

void restore_trainer(const std::string& path, const RunState& state, const Model& model, Trainer& trainer) {
  const auto file = safetensors::File::open(path + "/" + kMoments);
  for (const std::string& name : trainer.moments().names()) copy_tensor(file, name, trainer.moments().get(name));
  for (const std::string& name : model.params->names())
    if (const View w = model.params->get(name); is_wide(w)) copy_tensor(file, kWide + name, w);
  trainer.resume(state.step, state.updates);
}

std::optional<DType> checkpoint_compute(const std::string& out) {
  std::vector<std::string> told;  // by the run itself, which looks again
  const std::string path = Checkpoints(out, 1).look(told);
  if (path.empty()) return std::nullopt;
  return checkpoint_config(path).at("options").at("compute") == name_of(DType::bf16) ? DType::bf16 : DType::f32;
}

}  // namespace toy
