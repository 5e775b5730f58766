#include "train/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/json_text.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

ordered_json recipe_config(const RecipeOptions& o) {
  ordered_json j = json_of(o);
  // The rest of the data is in `texts`, but for where it is cached, which changes no number.
  if (o.data.validation.empty()) j["validation_fraction"] = o.data.validation_fraction;
  if (o.data.tokenizer_bytes != DataOptions().tokenizer_bytes) j["tokenizer_bytes"] = o.data.tokenizer_bytes;
  if (!o.mix.empty()) j["mix"] = o.mix;
  j.update(json_of(o.trainer));
  if (o.trainer.optimizer.lr_decay == 1) j["optimizer"].erase("lr_decay");  // which checkpoints had not from the start
  if (o.trainer.shards == 1) j.erase("shards");
  if (o.trainer.wire == TrainerOptions::Wire::f32) j.erase("wire");
  if (o.trainer.local_steps == 0)
    for (const char* name : {"local_steps", "outer_lr", "outer_momentum"}) j.erase(name);
  return j;
}

}  // namespace

bool is_free(std::string_view option) {
  constexpr std::string_view kFree[] = {
      "epochs",        "max_skipped", "time_limit",  "checkpoint_every", "keep",      "out",          "resume",
      "allow_changes", "memory",      "tensorboard", "check_finite",     "overwrite", "rank_timeout", "reward_timeout"};
  return std::find(std::begin(kFree), std::end(kFree), option) != std::end(kFree);
}

ordered_json config_of(const RecipeOptions& options, const ModelSource& source, const Device& device,
                       const ModelSpec& spec, ordered_json texts) {
  return {{"toy", TOY_VERSION},        {"recipe", source.config()},
          {"device", device.name()},   {"arithmetic", device.arithmetic(options.trainer.compute)},
          {"texts", std::move(texts)}, {"options", recipe_config(options)},
          {"model", to_json(spec)}};
}

ordered_json effective_options(const RecipeOptions& o) {
  ordered_json j{{"optimizer", optimizer_text(o.trainer.optimizer)},
                 {"lr", o.lr},
                 {"weight-decay", o.trainer.optimizer.weight_decay},
                 {"warmup", o.rates().warmup},
                 {"schedule", schedule_text(o)}};
  if (o.epochs || o.fit_tokens) j["steps"] = o.steps, j["tokens"] = o.trainer.tokens;
  return j;
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
