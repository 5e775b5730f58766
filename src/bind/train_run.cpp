#include "bind/train_run.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "bind/adapters.h"
#include "bind/json_options.h"
#include "bind/shared_device.h"
#include "toy/base/error.h"
#include "toy/train/recipes.h"

namespace toy::bind {
namespace {

using nlohmann::ordered_json;

class Observer final : public TrainObserver {
 public:
  explicit Observer(const TrainCalls& calls) : calls_(calls) {}
  void preparing(const std::string& what) override {
    if (calls_.preparing) calls_.preparing(what);
  }
  void event(const runs::Event& e) override {
    if (calls_.event) calls_.event(runs::to_json_line(e));
  }
  bool stop() override { return calls_.stop && calls_.stop(); }

 private:
  const TrainCalls& calls_;
};

ordered_json path_or_null(const std::string& path) { return path.empty() ? ordered_json() : ordered_json(path); }

}  // namespace

std::string train(std::string_view name, std::string_view json, const TrainCalls& calls) {
  auto all = read_json<ordered_json>(name, json);
  check(all.is_object(), "{}: not a JSON object of options; use e.g. {{\"steps\": 500}}", name);
  ordered_json of_device = ordered_json::object();
  DeviceOptions device;
  DeviceOptions::fields(device, [&](const Option& option, const auto&) {
    if (const auto found = all.find(option.name); found != all.end()) of_device[found.key()] = *found;
    all.erase(std::string(option.name));
  });
  JsonOptions(std::string(name), json_text(of_device)).read(device);
  Recipe recipe = parse_recipe(name, json_text(all));
  const ModelFinder finder;
  const RecipeOptions& common = recipe.common();
  if (std::string* init = recipe.init())
    *init = common.resume ? finder.model_of_resumed(*init, common.out) : finder.model(*init);
  if (auto* o = std::get_if<FromScratchOptions>(&recipe.options)) o->tokenizer = finder.tokenizer(o->tokenizer);
  const auto dev = make_device(device.device, {.threads = device.threads});
  Observer observer(calls);
  const TrainResult r = recipe.train(*dev, observer);
  return json_text(ordered_json{{"out", r.out},
                                {"model", path_or_null(r.model_path)},
                                {"checkpoint", path_or_null(r.checkpoint)},
                                {"adapter_peft", path_or_null(r.peft_path)},
                                {"step", r.step},
                                {"loss", std::isfinite(r.final_loss) ? ordered_json(r.final_loss) : ordered_json()},
                                {"seconds", r.seconds},
                                {"end", name_of(r.reason)}});
}

}  // namespace toy::bind
