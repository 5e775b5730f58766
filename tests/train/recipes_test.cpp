// Recipes told what people write: names, values, and what follows from them.
#include "toy/train/recipes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "testing/errors.h"

namespace toy::recipes_test {
namespace {

using testing::expect_contains;
using testing::message_of;

TEST(Recipes, TakesNamesAsTheyAreWritten) {
  const std::vector<GivenOption> given{
      {"--corpus", {"a.txt", "b.txt"}}, {"eval_every", {"7"}}, {"lr-for", {"a.*=0.5"}}, {"--pack", {"true"}},
      {"time-limit", {"1.5h"}},         {"memory", {"2G"}},    {"tap", {"x_final:3"}},  {"dtype", {"bf16"}}};
  Recipe r = parse_recipe(Recipe::from_scratch, given);
  const RecipeOptions& o = r.common();
  EXPECT_EQ(o.data.corpus, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(o.eval_every, 7);
  EXPECT_EQ(o.trainer.optimizer.lr_for, (std::vector<std::pair<std::string, double>>{{"a.*", 0.5}}));
  EXPECT_TRUE(o.data.pack);
  EXPECT_EQ(o.time_limit, 5400);
  EXPECT_EQ(o.memory, size_t(2) << 30);
  ASSERT_EQ(o.watch.taps.size(), 1u);
  EXPECT_EQ(o.watch.taps[0].every, 3);
  EXPECT_EQ(o.stored, DType::bf16);
  EXPECT_FALSE(o.epochs.has_value());
  EXPECT_FALSE(o.fit_tokens);
}

// What nobody says follows from recipe, optimizer and data; a null is as if it was left out.
TEST(Recipes, DefaultsFollowFromWhatIsGiven) {
  Recipe lora = parse_recipe("lora", R"j({"model": "m.gguf", "data": ["a.jsonl"], "targets": "attn_q=4,ffn_up",
                                         "steps": null, "lora_plus": 4, "optimizer": "lion(beta1=0.8)"})j");
  RecipeOptions& o = lora.common();
  EXPECT_EQ(o.epochs, 3);
  EXPECT_TRUE(o.fit_tokens);
  EXPECT_DOUBLE_EQ(o.lr, 2e-5);  // a fifth of lion's
  EXPECT_EQ(o.trainer.optimizer.weight_decay, 0);
  EXPECT_EQ(o.trainer.optimizer.beta1, 0.8);
  EXPECT_EQ(o.trainer.optimizer.beta2, 0.99);
  EXPECT_EQ(*lora.init(), "m.gguf");
  const LoraOptions& adapter = *std::get<FineTuneOptions>(lora.options).lora;
  EXPECT_EQ(adapter.targets, (std::vector<std::string>{"attn_q=4", "ffn_up"}));
  EXPECT_EQ(adapter.lr_ratio, 4);
  EXPECT_EQ(o.record.config.text.substr(0, 17), R"({"model":"m.gguf")");
  EXPECT_NE(parse_recipe("from-scratch", R"({"corpus": "a", "eval_every": 7})")
                .common()
                .record.config.text.find(R"("eval-every":7)"),
            std::string::npos);
  Recipe full = parse_recipe("full-finetune", R"({"model": "m.gguf", "data": "a.jsonl", "steps": 5, "tokens": 64})");
  EXPECT_FALSE(full.common().epochs.has_value());
  EXPECT_FALSE(full.common().fit_tokens);
  EXPECT_DOUBLE_EQ(full.common().lr, 1e-4);
  EXPECT_EQ(full.common().trainer.optimizer.weight_decay, 0.1);
  Recipe dpo = parse_recipe("dpo", R"({"model": "m.gguf", "data": "a.jsonl", "loss": "kto", "weight-decay": 0.2})");
  EXPECT_EQ(dpo.common().trainer.tokens, 512);
  EXPECT_EQ(dpo.common().epochs, 3);
  EXPECT_FALSE(dpo.common().fit_tokens);
  EXPECT_EQ(dpo.common().trainer.preference->loss, PreferenceLoss::kto);
  EXPECT_EQ(dpo.common().trainer.optimizer.weight_decay, 0.2);
  EXPECT_TRUE(parse_recipe("warm-start", R"({"donor": "m.gguf", "lens": "pca"})").grows);
}

TEST(Recipes, RefusesByTheNameThatWasWritten) {
  const auto message = [](const char* name, const char* json) { return message_of([&] { parse_recipe(name, json); }); };
  expect_contains(message("lorra", "{}"), "recipe is 'lorra'; use from-scratch, warm-start");
  expect_contains(message("from-scratch", "[]"), "not a JSON object");
  expect_contains(message("from-scratch", R"({"eval_every": 1, "eval-every": 2})"), "'eval-every' is given twice");
  expect_contains(message("from-scratch", R"({"steps": {}})"), "'steps' is {}");
  expect_contains(message("from-scratch", R"({"stepz": 3})"),
                  "unknown option 'stepz' of from-scratch; did you mean 'steps'");
  expect_contains(message("from-scratch", R"({"eval_every": -1})"), "eval_every is -1; use 0 or more");
  expect_contains(message("from-scratch", R"({"update": "later"})"), "update is 'later'; use gathered or streaming");
  expect_contains(message("from-scratch", R"({"compute": "f16"})"), "compute is 'f16'; use f32, bf16 or auto");
  expect_contains(message("from-scratch", R"({"corpus": ""})"), "corpus is empty; use the name of a file");
  expect_contains(message("from-scratch", R"({"corpus": "a", "data": "b"})"), "data and corpus exclude each other");
  expect_contains(message("from-scratch", R"j({"optimizer": "sgd(beta1=1)"})j"), "optimizer: sgd has no 'beta1'");
  expect_contains(message("from-scratch", R"({"lr_for": "a"})"), "lr_for is 'a'; use PATTERN=FACTOR");
  expect_contains(message("lora", R"({"data": "a"})"), "model is missing");
  expect_contains(message("lora", R"({"model": "a", "context": 64})"), "unknown option 'context'");
  expect_contains(message("lora", R"({"model": "a", "dtype": "q8_0"})"), "dtype is q8_0; use f32, f16 or bf16");
  expect_contains(message("dpo", R"({"model": "a", "data": "b", "pack": true})"), "unknown option 'pack'");
  expect_contains(message("warm-start", R"({"corpus": "a"})"), "no model to begin with");
  expect_contains(message("warm-start", R"({"init": "a", "blocks": "random"})"), "--blocks belongs to --donor");
}

// One list: no name is there twice, and each has a heading and a help.
TEST(Recipes, NamesAreUnique) {
  for (const auto& kind : NamesOf<Recipe::Kind>::list) {
    Recipe r(kind.second);
    std::set<std::string> names;
    Recipe::fields(r, [&](const Option& option, const auto&) {
      EXPECT_TRUE(names.insert(option.flag()).second) << name_in_list(r.kind) << " " << option.name;
      EXPECT_FALSE(option.help.empty()) << option.name;
    });
    EXPECT_GT(names.size(), 50u);
  }
}

}  // namespace
}  // namespace toy::recipes_test
