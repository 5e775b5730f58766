#include "train/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/json_text.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// The bindings below name every field of a struct, so that a new field does not compile until it is dealt with here.
ordered_json optimizer_config(const OptimizerOptions& o) {
  const auto& [kind, beta1, beta2, eps, momentum, nesterov, weight_decay, clip, decay_rate, update_clip, relative_step,
               muon_scale, adamw_factor, lr_for, no_decay, ema, lr_decay] = o;
  const auto info =
      std::find_if(optimizers().begin(), optimizers().end(), [&o](const OptimizerInfo& i) { return i.kind == o.kind; });
  ordered_json j{{"kind", info->name},
                 {"beta1", beta1},
                 {"beta2", beta2},
                 {"eps", eps},
                 {"momentum", momentum},
                 {"nesterov", nesterov},
                 {"weight_decay", weight_decay},
                 {"clip", clip},
                 {"decay_rate", decay_rate},
                 {"update_clip", update_clip},
                 {"relative_step", relative_step},
                 {"muon_scale", muon_scale == OptimizerOptions::match_rms ? "match-rms" : "original"},
                 {"adamw_factor", adamw_factor},
                 {"lr_for", lr_for},
                 {"no_decay", no_decay},
                 {"ema", ema}};
  if (lr_decay != 1) j["lr_decay"] = lr_decay;
  return j;
}

ordered_json trainer_config(const TrainerOptions& o) {
  const auto& [batch, tokens, accumulate, optimizer, updates, compute, dropout, seed, check_finite, preference,
               recompute] = o;
  (void)seed, (void)check_finite, (void)preference, (void)recompute;  // the recipe's; change no number
  return {{"batch", batch},
          {"tokens", tokens},
          {"accumulate", accumulate},
          {"optimizer", optimizer_config(optimizer)},
          {"updates", updates == TrainerOptions::gathered ? "gathered" : "streaming"},
          {"compute", name_of(compute)},
          {"dropout", dropout}};
}

ordered_json recipe_config(const RecipeOptions& o) {
  const auto& [data, trainer, steps, epochs, fit_tokens, lr, schedule, warmup, decay_steps, final_lr, max_skipped,
               patience, min_delta, time_limit, seed, context, eval_every, eval_tokens, sample_tokens, memory, stored,
               mix, out, tensorboard, name, checkpoint_every, keep, resume, allow_changes, watch, record, choose] = o;
  (void)epochs, (void)fit_tokens;  // steps and tokens follow
  (void)out, (void)tensorboard, (void)checkpoint_every, (void)keep, (void)resume, (void)allow_changes, (void)record;
  (void)choose;                                                    // compute says what was chosen
  (void)max_skipped, (void)time_limit, (void)watch, (void)memory;  // when a run ends early, what is looked at
  ordered_json j{{"steps", steps},
                 {"lr", lr},
                 {"schedule", name_of(schedule)},
                 {"warmup", warmup},
                 {"decay_steps", decay_steps},
                 {"final_lr", final_lr},
                 {"patience", patience},
                 {"min_delta", min_delta},
                 {"seed", seed},
                 {"context", context},
                 {"eval_every", eval_every},
                 {"eval_tokens", eval_tokens},
                 {"sample_tokens", sample_tokens},
                 {"stored", name_of(stored)},
                 {"name", name}};
  // The rest of the data is in `texts`, but for where it is cached, which changes no number.
  if (data.validation.empty()) j["validation_fraction"] = data.validation_fraction;
  if (data.tokenizer_bytes != DataOptions().tokenizer_bytes) j["tokenizer_bytes"] = data.tokenizer_bytes;
  if (!mix.empty()) j["mix"] = mix;
  j.update(trainer_config(trainer));
  return j;
}

}  // namespace

ordered_json config_of(const RecipeOptions& options, const ModelSource& source, const Device& device,
                       const ModelSpec& spec, ordered_json texts) {
  return {{"toy", TOY_VERSION},        {"recipe", source.config()},
          {"device", device.name()},   {"arithmetic", device.arithmetic(options.trainer.compute)},
          {"texts", std::move(texts)}, {"options", recipe_config(options)},
          {"model", to_json(spec)}};
}

std::vector<std::string> differences(const ordered_json& there, const ordered_json& here) {
  const ordered_json a = there.flatten(), b = here.flatten();
  std::vector<std::string> list;
  const auto compare = [&](const std::string& key) {
    if (key.ends_with("/path")) return;
    const auto value = [&](const ordered_json& j) { return j.contains(key) ? json_text(j.at(key)) : "absent"; };
    if (value(a) == value(b)) return;
    std::string name = key.substr(1);
    for (char& c : name)
      if (c == '/') c = '.';
    list.push_back(fmt::format("{} is {} there and {} here", name, value(a), value(b)));
  };
  for (const auto& [key, v] : a.items()) compare(key);
  for (const auto& [key, v] : b.items())
    if (!a.contains(key)) compare(key);
  return list;
}

std::string short_list(const std::vector<std::string>& differences) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(kShown, differences.size()), rest = differences.size() - shown;
  const auto end = differences.begin() + int64_t(shown);
  return fmt::format("{}{}", fmt::join(differences.begin(), end, ", "),
                     rest > 0 ? fmt::format(", and {} more", rest) : "");
}

}  // namespace toy
