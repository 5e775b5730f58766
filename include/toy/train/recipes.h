// The recipes by name, told what people write: where command lines, configurations and bindings begin.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "toy/train/vit.h"
#include "toy/train/warm_start.h"

namespace toy {

/// An option as it was written: its name, with or without dashes ("--eval-every", "eval_every"), and its values.
struct GivenOption {
  std::string name;
  std::vector<std::string> values;
};
/// Those of a JSON object: {"eval-every": 100, "corpus": ["a.txt", "b.txt"]}. A null is as if it was left out. Throws
/// Error{bad_input}, which begins with `what`, for other texts.
std::vector<GivenOption> given_options(std::string_view json, const std::string& what = "options");

/// A recipe and all that it may be told.
struct Recipe {
  enum Kind { from_scratch, warm_start, full_finetune, lora, dpo, grpo, vit, contrastive, classify } kind;
  std::variant<FromScratchOptions, GrowOptions, FineTuneOptions, VitOptions> options;
  bool grows = false;  ///< of warm_start: GrowOptions::init is a donor

  /// With its defaults.
  explicit Recipe(Kind kind);
  /// What all recipes are told.
  RecipeOptions& common();
  /// The model file that it begins with; nullptr: it begins with none.
  std::string* init();
  /// The learning rate where nothing else is said: a trained model is soon unlearnt.
  double usual_lr(const OptimizerOptions& optimizer) const;
  /// And the weight decay.
  double usual_weight_decay(const OptimizerOptions& optimizer) const { return adapts() ? 0 : optimizer.weight_decay; }
  bool adapts() const {
    const auto* o = std::get_if<FineTuneOptions>(&options);
    return kind == lora || kind == dpo || (kind == grpo && o && !o->full) || (of_encoders() && o && o->adapter);
  }
  /// Rows are texts of an encoder, for which all weights or an adapter are trained.
  bool of_encoders() const { return kind == contrastive || kind == classify; }
  /// Calls f(Option, member) for each option of the recipe; see toy/base/options.h.
  static void fields(auto& recipe, auto&& f) {
    const auto each = [&](const Option& option, auto& value) {
      constexpr std::string_view kOfTexts[] = {"corpus", "train_on", "documents", "pack", "binary", "data_cache"};
      // Answers are drawn: nothing is cut into rows, or computed in another way than they were drawn.
      constexpr std::string_view kNotOfAnswers[] = {"corpus_weight", "bad_rows",    "map",     "epochs",
                                                    "accumulate",    "updates",     "dropout", "compute",
                                                    "sample_tokens", "lora_dropout"};
      constexpr std::pair<std::string_view, std::string_view> kOfAnswers[] = {
          {"data", "JSON Lines file of questions with their answers"},
          {"val", "File of questions to validate on (default: none, or see --val-fraction)"},
          {"val_fraction", "Fraction of the questions to validate on, the last ones"},
          {"eval_tokens", "Questions to ask per validation; 0 asks all"},
          {"min_delta", "Improvement of the mean reward that --patience counts"}};
      constexpr std::string_view kNotOfPictures[] = {
          "corpus",   "train_on", "documents",     "pack",          "binary",  "data_cache", "corpus_weight",
          "bad_rows", "map",      "chat_template", "sample_tokens", "context", "fit_tokens", "tokens"};
      constexpr std::pair<std::string_view, std::string_view> kOfPictures[] = {
          {"val", "Folder of pictures to validate on (default: a part of --data)"},
          {"val_fraction", "Fraction of the pictures to validate on"},
          {"steps", "Optimizer steps; by default 50 epochs"},
          {"epochs", "Instead of --steps: how often each picture is learned"},
          {"batch", "Pictures per step"},
          {"eval_tokens", "Pictures to read per validation; 0 reads all"},
          {"min_delta", "Improvement in nats per picture that --patience counts"},
          {"name", "Name of the new model (default: toy)"}};
      constexpr std::string_view kNotOfPairs[] = {"corpus",  "train_on",      "documents",     "pack",
                                                  "binary",  "data_cache",    "corpus_weight", "chat_template",
                                                  "context", "sample_tokens", "fit_tokens",    "tokens"};
      constexpr std::pair<std::string_view, std::string_view> kOfPairs[] = {
          {"data", "JSON Lines file of pairs: anchor, positive, and perhaps a negative"},
          {"val", "File of pairs to validate on (default: the last rows of --data)"},
          {"val_fraction", "Fraction of the pairs to validate on"},
          {"map", "Fields of --data with other names, such as anchor=title,positive=body"},
          {"batch", "Pairs per step; those of others are an anchor's wrong answers"},
          {"eval_tokens", "Pairs to read per validation; 0 reads all"},
          {"min_delta", "Improvement in nats per pair that --patience counts"}};
      constexpr std::pair<std::string_view, std::string_view> kOfLabels[] = {
          {"data", "JSON Lines file of texts with labels"},
          {"val", "File of texts with labels to validate on (default: a part of --data)"},
          {"val_fraction", "Fraction of each class to validate on"},
          {"map", "Fields of --data with other names, such as text=review,label=stars"},
          {"batch", "Texts per step"},
          {"eval_tokens", "Texts to read per validation; 0 reads all"},
          {"min_delta", "Improvement in nats per text that --patience counts"}};
      const bool of_texts = std::ranges::find(kOfTexts, option.name) != std::end(kOfTexts);
      const bool of_rows = std::ranges::find(kNotOfAnswers, option.name) != std::end(kNotOfAnswers);
      if (option.group.empty() || ((recipe.adapts() || recipe.kind == grpo) && option.name == "context") ||
          ((recipe.kind == dpo || recipe.kind == grpo) && of_texts) || (recipe.kind == grpo && of_rows) ||
          (recipe.kind == vit && std::ranges::find(kNotOfPictures, option.name) != std::end(kNotOfPictures)) ||
          (recipe.of_encoders() && std::ranges::find(kNotOfPairs, option.name) != std::end(kNotOfPairs)))
        return;
      Option here = option;
      if (recipe.kind == grpo) {
        here.required |= option.name == "data";
        for (const auto& [name, help] : kOfAnswers)
          if (option.name == name) here.help = help;
      }
      if (recipe.kind == dpo && option.name == "data")
        here.required = true, here.help = "JSON Lines file of chosen and rejected answers to train on";
      if (recipe.kind == vit) {
        for (const auto& [name, help] : kOfPictures)
          if (option.name == name) here.help = help;
      }
      if (recipe.of_encoders()) {
        here.required |= option.name == "data";
        for (const auto& [name, help] : recipe.kind == classify ? std::span(kOfLabels) : std::span(kOfPairs))
          if (option.name == name) here.help = help;
      }
      if (recipe.kind != dpo && option.name == "tokens")
        here.help = "Tokens per sequence; by default what rows of --data take";
      if (recipe.adapts() && option.name == "stored") here.text = "f32|f16|bf16", here.help = "Type in the file";
      f(here, value);
    };
    std::visit(
        [&](auto& o) {
          std::decay_t<decltype(o)>::fields(o, each);
          if (o.data.images) ImageOptions::fields(*o.data.images, each);
          DataOptions::fields(o.data, [&](const Option& option, auto& value) {
            if (!o.data.images || option.name != "data") each(option, value);
          });
          TrainerOptions::fields(o.trainer, each);
          RecipeOptions::fields(static_cast<RecipeOptions&>(o), each);
          OptimizerOptions::fields(o.trainer.optimizer, each);
          WatchOptions::fields(o.watch, each);
        },
        recipe.options);
  }

  /// Runs it.
  TrainResult train(Device& device, TrainObserver& observer) const;
  /// What that will need. Writes nothing.
  RunEstimate estimate(Device& device, TrainObserver& observer) const;
};
/// Their names.
template <>
struct NamesOf<Recipe::Kind> {
  static constexpr std::array list = {std::pair("from-scratch", Recipe::from_scratch),
                                      std::pair("warm-start", Recipe::warm_start),
                                      std::pair("full-finetune", Recipe::full_finetune),
                                      std::pair("lora", Recipe::lora),
                                      std::pair("dpo", Recipe::dpo),
                                      std::pair("grpo", Recipe::grpo),
                                      std::pair("vit", Recipe::vit),
                                      std::pair("contrastive", Recipe::contrastive),
                                      std::pair("classify", Recipe::classify)};
};

/// "PATTERN=FACTOR", cut at the last '='. Throws Error{bad_input}, which begins with the option's name.
std::pair<std::string, double> pattern_and_factor(const std::string& name, const std::string& text);

/// The recipe with these options. What is not given follows from what is: steps from rows of --data, rates from the
/// optimizer. Throws Error{bad_input} naming an option as it was written: one that the recipe lacks, with the nearest
/// that it has, a value that it does not take, and options that do not go together.
Recipe parse_recipe(Recipe::Kind kind, const std::vector<GivenOption>& given);

/// The same by name and of a JSON object, which the run's folder keeps:
///
///     Recipe recipe = parse_recipe("lora", R"({"model": "base.gguf", "data": "chats.jsonl", "rank": 8})");
///     const TrainResult result = recipe.train(*device, observer);
Recipe parse_recipe(std::string_view name, std::string_view json);

}  // namespace toy
