#include "toy/train/recipes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/models/save_as.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// "eval-every" of "--eval-every" and "eval_every".
std::string key_of(std::string_view name) {
  std::string key(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::ranges::replace(key, '_', '-');
  return key;
}

// Reads what was given into the options of a recipe.
class Reader {
 public:
  Reader(Recipe& recipe, const std::vector<GivenOption>& given) : r_(recipe), o_(recipe.common()), given_(given) {}

  void read() {
    // First: the optimizer decides what others are by default.
    if (const auto* g = find("full"); g && r_.kind == Recipe::grpo)
      std::get<FineTuneOptions>(r_.options).full = g->values.back() == "true";
    if (const auto* g = find("adapter"); g && r_.of_encoders())
      std::get<FineTuneOptions>(r_.options).adapter = g->values.back() == "true";
    OptimizerOptions& optimizer = o_.trainer.optimizer;
    if (const auto* g = find("optimizer")) optimizer = parse_optimizer(g->values.back(), g->name);
    optimizer.weight_decay = r_.usual_weight_decay(optimizer), o_.lr = r_.usual_lr(optimizer);
    std::vector<std::string> known;
    Recipe::fields(r_, [&](const Option& option, auto& value) {
      known.push_back(option.flag().substr(2));
      const GivenOption* g = find(known.back());
      check(g || !option.required, "{} is missing ({})", known.back(), option.help);
      if (!g) return;
      const GivenOption* other = option.excludes.empty() ? nullptr : find(option.excludes);
      check(!other, "{} and {} exclude each other; give one of them", g->name, other ? other->name : "");
      const std::string wrong = set(option, *g, value);
      check(wrong.empty(), "{} {}", g->name, wrong);
    });
    for (const GivenOption& g : given_) {
      if (std::ranges::find(known, key_of(g.name)) != known.end()) continue;
      const std::string near = nearest(key_of(g.name), known);
      fail("unknown option '{}' of {}{}", g.name, name_in_list(r_.kind),
           near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    settle();
  }

 private:
  const GivenOption* find(std::string_view key) const {
    const auto it =
        std::ranges::find_if(given_, [&](const auto& g) { return key_of(g.name) == key && !g.values.empty(); });
    return it == given_.end() ? nullptr : &*it;
  }

  // Returns what is wrong.
  template <class T>
  std::string set(const Option& option, const GivenOption& g, T& value) {
    const std::string& last = g.values.back();
    if constexpr (std::is_same_v<T, OptimizerOptions>) {
      return {};  // it was read first
    } else if constexpr (std::is_same_v<T, Schedule::Kind>) {
      return set_schedule(o_, last, g.name), "";
    } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, double>>>) {
      for (const std::string& text : g.values) value.push_back(pattern_and_factor(g.name, text));
    } else if constexpr (std::is_same_v<T, std::vector<Watch>>) {
      for (const std::string& text : g.values)
        for (Watch& w : option.name == "op_timing" ? parse_op_timing(text) : std::vector{parse_watch(g.name, text)})
          value.push_back(std::move(w));
    } else if constexpr (std::is_same_v<T, DType>) {
      if (option.name == "stored") {
        const StoredAs as = parse_stored_as(g.name, last);
        if (r_.adapts() && !as.mix.empty()) return fmt::format("is {}; use f32, f16 or bf16 for an adapter", last);
        value = as.plain, o_.mix = as.mix;
        return {};
      }
      o_.auto_compute = last == "auto";
      if (last != "f32" && last != "bf16" && last != "auto") return fmt::format("is '{}'; use f32, bf16 or auto", last);
      value = last == "bf16" ? DType::bf16 : DType::f32;
    } else {
      return read_texts(option, g.values, value);
    }
    return {};
  }

  // What follows from several options.
  void settle() {
    const auto* final_lr = find("final-lr");
    check(o_.schedule != Schedule::constant || !final_lr,
          "--final-lr changes nothing with --schedule constant; remove one of them");
    check(find("patience") || !find("min-delta"), "--min-delta needs early stopping; add --patience");
    const bool rows = !o_.data.examples.empty();
    if (rows && !o_.epochs && !find("steps") && !o_.policy) o_.epochs = 3;
    if (o_.data.images && !o_.epochs && !find("steps")) o_.epochs = 50;
    o_.fit_tokens = rows && r_.kind != Recipe::dpo && !find("tokens");
    o_.fit_batch = o_.policy && !find("batch");
    if (r_.kind == Recipe::warm_start) settle_begin();
    auto* fine = std::get_if<FineTuneOptions>(&r_.options);
    if (fine && fine->lora) split(fine->lora->targets);
    const bool all = fine && (fine->full || (r_.of_encoders() && !fine->adapter));
    if (!all) return;
    LoraOptions::fields(*fine->lora, [&](const Option& option, const auto&) {
      check(option.group.empty() || !find(option.flag().substr(2)), "{} is of an adapter; {}", option.flag(),
            fine->full ? "leave it or --full out" : "add --adapter, or leave it out");
    });
    fine->lora.reset();
  }

  // A warm start begins with one of two.
  void settle_begin() {
    const bool init = find("init"), donor = find("donor");
    check(init != donor,
          "warm-start: {}; use --init to train a model further, or --donor to begin a model of another size",
          init ? "there are both --init and --donor" : "there is no model to begin with");
    for (const char* of_donor : {"size", "lens", "blocks"})
      check(donor || !find(of_donor),
            "--{} belongs to --donor, or to toy train from-scratch; with --init, leave it out", of_donor);
    r_.grows = donor;
  }

  // At commas.
  static void split(std::vector<std::string>& texts) {
    std::string all = fmt::format("{}", fmt::join(texts, ","));
    texts.clear();
    for (size_t begin = 0, end = 0; begin <= all.size(); begin = end + 1) {
      end = std::min(all.find(',', begin), all.size());
      if (end > begin) texts.push_back(all.substr(begin, end - begin));
    }
  }

  Recipe& r_;
  RecipeOptions& o_;
  const std::vector<GivenOption>& given_;
};

}  // namespace

std::pair<std::string, double> pattern_and_factor(const std::string& name, const std::string& text) {
  const size_t at = text.rfind('=');
  check(at != std::string::npos && at > 0, "{} is '{}'; use PATTERN=FACTOR, such as 'token_embd.*=0.1'", name, text);
  double factor = 0;
  const std::string wrong = read_number(std::string_view(text).substr(at + 1), {}, factor);
  check(wrong.empty(), "{} is '{}'; use a number instead of '{}'", name, text, text.substr(at + 1));
  return {text.substr(0, at), factor};
}

std::vector<GivenOption> given_options(std::string_view json, const std::string& what) {
  std::set<std::string> keys;
  const auto all = read_json<ordered_json>(what, std::string(json), [&](const std::string& key) {
    check(keys.insert(key_of(key)).second, "{}: '{}' is given twice; keep one of them", what, key);
  });
  check(all.is_object(), "{}: not a JSON object of options; use e.g. {{\"steps\": 500}}", what);
  std::vector<GivenOption> given;
  for (const auto& [key, value] : all.items()) {
    if (value.is_null()) continue;
    GivenOption& g = given.emplace_back(GivenOption{key, {}});
    for (const ordered_json& v : value.is_array() ? value : ordered_json::array({value})) {
      check(v.is_string() || v.is_number() || v.is_boolean(),
            "{}: '{}' is {}; use a number, a string, true or false, or a list of them", what, key, json_text(v));
      g.values.push_back(v.is_string() ? v.get<std::string>() : json_text(v));
    }
  }
  return given;
}

Recipe::Recipe(Kind k) : kind(k) {
  if (kind == warm_start) options = GrowOptions();
  if (kind == from_scratch || kind == warm_start) return;
  if (kind == vit) {
    VitOptions& o = options.emplace<VitOptions>();
    o.data.images.emplace();
    o.trainer.batch = 64;
    return;
  }
  FineTuneOptions& o = options.emplace<FineTuneOptions>();
  if (adapts()) o.lora.emplace();
  if (kind == grpo) {
    o.policy.emplace();
    o.data.questions = true, o.data.validation_fraction = 0;
    o.steps = 100, o.trainer.batch = 4;
    o.trainer.accumulate = 2;  // at least: a step has as many batches as its answers take
  }
  if (kind == contrastive) {
    o.lora.emplace();
    o.data.pairs.emplace(), o.trainer.contrastive.emplace();
    o.trainer.batch = 32, o.trainer.tokens = 1;  // the rows say how many
  }
  if (kind == classify) {
    o.lora.emplace();
    o.data.labels.emplace(), o.trainer.classes = Pooling::first;  // until the model is known
    o.trainer.batch = 32, o.trainer.tokens = 1;
  }
  if (kind != dpo) return;
  o.trainer.preference.emplace();
  o.trainer.batch = 4, o.trainer.tokens = 512;  // a row has both answers
}

RecipeOptions& Recipe::common() {
  return std::visit([](auto& o) -> RecipeOptions& { return o; }, options);
}

std::string* Recipe::init() {
  if (auto* o = std::get_if<GrowOptions>(&options)) return &o->init;
  auto* o = std::get_if<FineTuneOptions>(&options);
  return o ? &o->init : nullptr;
}

double Recipe::usual_lr(const OptimizerOptions& optimizer) const {
  constexpr double kParts[] = {1, 0.1, 0.1, 0.2, 0.05, 0.1, 1, 0.2, 0.2};  // of that for a new model
  constexpr double kAllOfGrpo = 0.01, kAllOfTexts = 0.03;                  // where no adapter is trained
  double part = kParts[kind];
  if (kind == grpo && !adapts()) part = kAllOfGrpo;
  if (of_encoders() && !adapts()) part = kAllOfTexts;
  return optimizer.usual_lr() * part;
}

TrainResult Recipe::train(Device& device, TrainObserver& observer) const {
  if (const auto* o = std::get_if<FromScratchOptions>(&options)) return train_from_scratch(*o, device, observer);
  if (const auto* o = std::get_if<FineTuneOptions>(&options)) return train_fine_tune(*o, device, observer);
  if (const auto* o = std::get_if<VitOptions>(&options)) return train_vit(*o, device, observer);
  const auto& o = std::get<GrowOptions>(options);
  return grows ? train_from_donor(o, device, observer) : train_warm_start(o, device, observer);
}

RunEstimate Recipe::estimate(Device& device, TrainObserver& observer) const {
  if (const auto* o = std::get_if<FromScratchOptions>(&options)) return estimate_from_scratch(*o, device, observer);
  if (const auto* o = std::get_if<FineTuneOptions>(&options)) return estimate_fine_tune(*o, device, observer);
  if (const auto* o = std::get_if<VitOptions>(&options)) return estimate_vit(*o, device, observer);
  const auto& o = std::get<GrowOptions>(options);
  return grows ? estimate_from_donor(o, device, observer) : estimate_warm_start(o, device, observer);
}

Recipe parse_recipe(Recipe::Kind kind, const std::vector<GivenOption>& given) {
  Recipe r(kind);
  Reader(r, given).read();
  return r;
}

Recipe parse_recipe(std::string_view name, std::string_view json) {
  Recipe::Kind kind;
  const std::string wrong = read_value(name, {}, kind);
  check(wrong.empty(), "recipe {}", wrong);
  Recipe r = parse_recipe(kind, given_options(json));
  ordered_json config;  // with the command line's names, so that it can resume the run
  const auto all = parse_json<ordered_json>(std::string(json));
  for (const auto& [key, value] : all.items()) config[key_of(key)] = value;
  r.common().record.config = {json_text(config)};
  return r;
}

}  // namespace toy
