// The optimizers in training: same bits whatever the threads, streaming or fused; what they keep; groups of tensors;
// averages of weights. The ops have their own tests (tests/ops), ten steps against PyTorch are in golden_test.cpp.
#include "toy/train/optimizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "testing/errors.h"
#include "testing/option_table.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/tensor/convert.h"
#include "toy/train/trainer.h"
#include "train_testing.h"

namespace toy::optimizer_test {
namespace {

using Options = OptimizerOptions;
using testing::walk;

// Matrices on both sides of the 4096 elements from which moments rest in 8 bits.
ModelSpec small_spec() {
  return testing::small_model(
      "tiny",
      {.vocab = 97, .d_model = 36, .context = 64, .tied = false, .heads = 3, .kv_heads = 1, .d_head = 14, .d_ff = 130});
}

std::vector<Options> all_kinds() {
  std::vector<Options> list;
  for (const auto& [name, kind] : NamesOf<Options::Kind>::list) list.push_back(Options::of(kind));
  list.push_back(Options::of(Options::adafactor));
  list.back().relative_step = true;
  list.push_back(Options::of(Options::muon));
  list.back().muon_scale = Options::match_rms, list.back().adamw_factor = 1;
  return list;
}

std::string name_of(const Options& o) { return name_in_list(o.kind); }

// Losses of some steps, then every weight and everything that the optimizer keeps.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> tensors;
  bool operator==(const Outcome&) const = default;
};
Outcome train(const Options& o, int threads, int steps, TrainerOptions::Updates updates = TrainerOptions::gathered,
              bool check_finite = false, double lr = 0) {
  const auto device = make_test_device(threads);
  Model model = random_model(small_spec(), *device, 9);
  const auto ids = walk(4000);
  const WindowSampler sampler(ids, 3, 23, 1);
  Trainer trainer(*device, model,
                  {.batch = 3, .tokens = 23, .optimizer = o, .updates = updates, .check_finite = check_finite});
  Outcome out;
  for (int i = 0; i < steps; ++i) out.losses.push_back(trainer.step(sampler.batch(i), lr > 0 ? lr : o.usual_lr()).loss);
  for (const ParamStore* store : {model.params.get(), &trainer.moments()})
    for (const std::string& name : store->names()) {
      const HostTensor tensor = store->host(name);
      const View& v = tensor.view();
      for (int64_t i = 0; i < v.count(); ++i) out.tensors[name].push_back(element(v, i));
    }
  return out;
}

TEST(Optimizer, SettingsStandInBrackets) {
  for (const auto& [name, kind] : NamesOf<Options::Kind>::list) {
    const Options usual = Options::of(kind), o = parse_optimizer(optimizer_text(usual));
    EXPECT_EQ(o.kind, kind);
    EXPECT_EQ(optimizer_text(o), optimizer_text(usual));
    EXPECT_EQ(o.weight_decay, usual.weight_decay);
  }
  const Options muon = parse_optimizer("muon(momentum=0, scale=match-rms)");
  EXPECT_EQ(optimizer_text(muon),
            "muon(beta1=0.9, beta2=0.95, eps=1e-08, momentum=0, nesterov=false, scale=match-rms, adamw_factor=1)");
  EXPECT_EQ(parse_optimizer("muon(scale=match-rms, adamw_factor=0.5)").adamw_factor, 0.5);
  for (const char* bad :
       {"", "adam", "adamw(momentum=0.9)", "sgd(nesterov=1)", "lion(beta1=1)", "sgd(0.9)", "sgd;lion"})
    EXPECT_THROW(parse_optimizer(bad), Error) << bad;
}

TEST(Optimizer, DocsHaveTheSettings) {
  std::string defaults, settings;
  for (const auto& [name, kind] : NamesOf<Options::Kind>::list) {
    const Options o = Options::of(kind);
    defaults += fmt::format("| `{}` | {} | {} |\n", optimizer_text(o), o.usual_lr(), o.weight_decay);
  }
  const Options any;
  Options::fields(any, [&](const Option& option, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (is_plain_value<T>)
      if (!option.of.empty())
        settings += fmt::format("| `{}` | {} | {} | {} |\n", option.name_in_brackets(), option.of,
                                takes<T>(option.limits), option.help);
  });
  const std::string page = testing::page("training.md");
  EXPECT_NE(page.find(defaults), std::string::npos) << defaults;
  EXPECT_NE(page.find(settings), std::string::npos) << settings;
}

TEST(Optimizer, SameBitsForAnyNumberOfThreads) {
  for (Options o : all_kinds()) {
    o.ema = 0.9;
    const Outcome one = train(o, 1, 5);
    for (const int threads : {2, 3}) EXPECT_EQ(train(o, threads, 5), one) << name_of(o) << " " << threads;
  }
}

TEST(Optimizer, StreamingAndGatheredUpdatesAreTheSame) {
  for (Options o : all_kinds()) {
    o.clip = 0;
    o.ema = 0.9;
    EXPECT_EQ(train(o, 2, 4, TrainerOptions::streaming), train(o, 2, 4)) << name_of(o);
  }
}

// check_finite compiles the step without fusion.
TEST(Optimizer, FusionChangesNoBit) {
  for (const Options& o : all_kinds())
    EXPECT_EQ(train(o, 2, 4, TrainerOptions::gathered, true), train(o, 2, 4)) << name_of(o);
}

// The walk has log 3 = 1.1 nats a token; a new model begins at log 97 = 4.6. A few steps want more than the usual rate.
TEST(Optimizer, EachLearns) {
  for (const Options& o : all_kinds()) {
    const double haste = o.kind == Options::sgd ? 1 : o.kind == Options::muon ? 3 : 10;
    const auto losses = train(o, 2, 60, TrainerOptions::gathered, false, haste * o.usual_lr()).losses;
    EXPECT_NEAR(losses.front(), std::log(97.0), 0.3) << name_of(o);
    EXPECT_LT(losses.back(), losses.front() - 0.5) << name_of(o);
  }
}

TEST(Optimizer, KeepsWhatItSays) {
  const auto device = make_test_device(1);
  for (Options o : all_kinds()) {
    for (const double ema : {0.0, 0.9}) {
      o.ema = ema;
      Model model = random_model(small_spec(), *device, 9);
      const Trainer trainer(*device, model, {.batch = 1, .tokens = 8, .optimizer = o});
      std::set<std::string> listed, used;
      for (const auto& [name, type] : moment_types(model.spec, o)) {
        EXPECT_TRUE(listed.insert(name).second) << name;
        EXPECT_EQ(trainer.moments().type(name), type) << name;
      }
      for (const PlanLeaf& p : trainer.plan().params)
        if (!model.params->has(p.name)) used.insert(p.name);
      EXPECT_EQ(used, listed) << name_of(o);
    }
  }
}

// Bytes a parameter of a large matrix: docs/training.md.
TEST(Optimizer, MemoryOfTheMoments) {
  const ModelSpec spec = model_spec("smollm2-135m");
  const auto bytes_of = [&](const Options& o, const std::string& tensor) {
    size_t bytes = 0;
    for (const auto& [name, type] : moment_types(spec, o))
      if (name.starts_with(tensor + ".")) bytes += type.bytes();
    return double(bytes);
  };
  const std::string matrix = "blk.3.ffn_up.weight", embedding = "token_embd.weight";
  const double n = 1536.0 * 576;
  EXPECT_EQ(bytes_of(Options::of(Options::adamw), matrix), 8 * n);
  EXPECT_EQ(bytes_of(Options::of(Options::adamw8), matrix), 2 * n + 8 * n / 256);
  EXPECT_EQ(bytes_of(Options::of(Options::adamw8), embedding), 8 * 49152.0 * 576);
  EXPECT_EQ(bytes_of(Options::of(Options::sgd), matrix), 4 * n);
  EXPECT_EQ(bytes_of({.kind = Options::sgd, .momentum = 0}, matrix), 0);
  EXPECT_EQ(bytes_of(Options::of(Options::lion), matrix), 4 * n);
  EXPECT_EQ(bytes_of(Options::of(Options::adafactor), matrix), 4 * (1536.0 + 576));
  EXPECT_EQ(bytes_of(Options::of(Options::muon), matrix), 4 * n);
  EXPECT_EQ(bytes_of(Options::of(Options::muon), embedding), 8 * 49152.0 * 576);
}

TEST(Optimizer, MuonIsForTheMatricesBetweenEmbeddingAndOutput) {
  const ModelSpec spec = small_spec();
  const auto tensors = tensors_of(spec);
  const auto updates = tensor_updates(spec, Options::of(Options::muon));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    const bool hidden = name.starts_with("blk.") && name.find("norm") == std::string::npos;
    EXPECT_EQ(updates[i].rule == TensorUpdate::muon, hidden) << name;
    EXPECT_EQ(updates[i].lr_factor, hidden ? 1 : 0.05) << name;
  }
}

// A gradient that is not finite leaves weights, moments and averages as they are, in both kinds of updates.
TEST(Optimizer, SkippedStepsChangeNothing) {
  const auto device = make_test_device(2);
  const auto ids = walk(500);
  for (Options o : all_kinds())
    for (const auto updates : {TrainerOptions::gathered, TrainerOptions::streaming}) {
      o.clip = 0;
      o.ema = 0.9;
      Model model = random_model(small_spec(), *device, 9);
      Trainer trainer(*device, model, {.batch = 2, .tokens = 16, .optimizer = o, .updates = updates});
      const WindowSampler sampler(ids, 2, 16, 1);
      trainer.step(sampler.batch(0), o.usual_lr());
      const auto good = model.params->read("output.weight");
      auto broken = good;
      broken[5] = INFINITY;
      model.params->write("output.weight", broken);
      const auto bytes = [&] {
        std::vector<std::vector<double>> all;
        for (const ParamStore* store : {model.params.get(), &trainer.moments()})
          for (const std::string& name : store->names()) {
            all.emplace_back();
            const HostTensor tensor = store->host(name);
            for (int64_t i = 0; i < tensor.view().count(); ++i) all.back().push_back(element(tensor.view(), i));
          }
        return all;
      };
      const auto before = bytes();
      EXPECT_TRUE(trainer.step(sampler.batch(1), o.usual_lr()).skipped) << name_of(o);
      EXPECT_EQ(bytes(), before) << name_of(o);
      EXPECT_EQ(trainer.updates(), 1);
    }
}

// ---- groups

TEST(Groups, FactorsAndDecayByName) {
  const ModelSpec spec = small_spec();
  Options o{.lr_for = {{"blk.*", 0.5}, {"blk.1.*", 0}, {"token_embd.weigh?", 3}}, .no_decay = {"*attn_[qk].weight"}};
  const auto tensors = tensors_of(spec);
  const auto updates = tensor_updates(spec, o);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    const double factor = name.starts_with("blk.1.")       ? 0  // the last one that fits counts
                          : name.starts_with("blk.")       ? 0.5
                          : name.starts_with("token_embd") ? 3
                                                           : 1;
    EXPECT_EQ(updates[i].lr_factor, factor) << name;
    const bool spared = name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight");
    EXPECT_EQ(updates[i].weight_decay, tensors[i].decays() && !spared ? 0.1 : 0) << name;
  }
}

// The last block is one step below the output, embeddings one below the first block; patterns multiply.
TEST(Groups, RatesDecayByDepth) {
  const ModelSpec spec = small_spec();
  const auto tensors = tensors_of(spec);
  const auto updates = tensor_updates(spec, {.lr_for = {{"blk.1.ffn_up.*", 3}}, .lr_decay = 0.5});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    const double factor = name == "blk.1.ffn_up.weight"    ? 1.5
                          : name.starts_with("blk.1.")     ? 0.5
                          : name.starts_with("blk.0.")     ? 0.25
                          : name.starts_with("token_embd") ? 0.125
                                                           : 1;
    EXPECT_EQ(updates[i].lr_factor, factor) << name;
  }
}

// lr times factor in the graph is lr times factor outside: one tensor's factor of 1/4 is a run of a quarter of the rate
// for that tensor, to the bit (a power of two), after one step from the same weights.
TEST(Groups, AFactorIsALearningRate) {
  const auto device = make_test_device(2);
  const auto ids = walk(500);
  const auto after = [&](const Options& o, double lr) {
    Model model = random_model(small_spec(), *device, 9);
    Trainer trainer(*device, model, {.batch = 2, .tokens = 16, .optimizer = o});
    trainer.step(WindowSampler(ids, 2, 16, 1).batch(0), lr);
    return std::pair(model.params->read("blk.0.ffn_up.weight"), model.params->read("blk.1.ffn_up.weight"));
  };
  for (Options o : all_kinds()) {
    const double lr = 0x1p-6;
    const auto whole = after(o, lr), quarter = after(o, lr / 4);
    o.lr_for = {{"blk.0.ffn_up.*", 0.25}};
    const auto grouped = after(o, lr);
    EXPECT_EQ(grouped.first, quarter.first) << name_of(o);
    EXPECT_EQ(grouped.second, whole.second) << name_of(o);
    EXPECT_NE(grouped.first, whole.first) << name_of(o);
  }
}

TEST(Groups, APatternThatFitsNothingIsAnError) {
  const auto message = [](const Options& o) { return testing::message_of([&] { tensor_updates(small_spec(), o); }); };
  EXPECT_EQ(message({.lr_for = {{"blk.7.*", 0.5}}}),
            "lr-for: no trained tensor's name fits 'blk.7.*'; did you mean 'blk.0.*'?");
  EXPECT_EQ(message({.no_decay = {"ffn_up"}}),
            "no-decay: no trained tensor's name fits 'ffn_up'; did you mean '*ffn_up*'?");
  EXPECT_EQ(message({.no_decay = {"ffn_up*"}}),
            "no-decay: no trained tensor's name fits 'ffn_up*'; did you mean '*ffn_up*'?");
  EXPECT_EQ(message({.no_decay = {""}}), "no-decay: no trained tensor's name fits ''; names are like 'output.weight'");
  EXPECT_EQ(message({.no_decay = {"ffn_upp"}}),
            "no-decay: no trained tensor's name fits 'ffn_upp'; did you mean 'blk.*.ffn_up.*'?");
  EXPECT_EQ(message({.no_decay = {"model.layers.0.mlp*"}}),  // as Hugging Face names it
            "no-decay: no trained tensor's name fits 'model.layers.0.mlp*'; did you mean 'blk.0.*'?");
  EXPECT_EQ(message({.no_decay = {"completely different"}}),
            "no-decay: no trained tensor's name fits 'completely different'; names are like 'output.weight'");
}

// ---- averages

// The average is the plain statement of it: decay min(0.9, n / (9 + n)) behind n updates. One product and two sums a
// step, 3u (|avg| + |w|), and errors of before shrink.
TEST(Average, IsItsDefinition) {
  const auto device = make_test_device(2);
  const auto ids = walk(900);
  const WindowSampler sampler(ids, 2, 16, 1);
  const Options o{.ema = 0.75};
  Model model = random_model(small_spec(), *device, 9);
  Trainer trainer(*device, model, {.batch = 2, .tokens = 16, .optimizer = o});
  std::vector<double> average(model.params->read("output.weight").size());
  for (int n = 0; n < 40; ++n) {
    trainer.step(sampler.batch(n), 1e-2);
    const auto w = model.params->read("output.weight"), found = trainer.moments().read("output.weight.ema");
    const double decay = std::min(0.75, n / (9.0 + n));
    for (size_t i = 0; i < w.size(); ++i) {
      average[i] = decay * average[i] + (1 - decay) * double(w[i]);
      // Sum over steps of decay^k = 1 / (1 - decay) = 4 times one step's error.
      ASSERT_NEAR(found[i], average[i], 4 * 4 * 0x1p-24 * (std::fabs(average[i]) + std::fabs(w[i]) + 0.1)) << n;
    }
  }
}

TEST(Average, ChangesPlacesWithTheWeights) {
  const auto device = make_test_device(2);
  const auto ids = walk(900);
  Model model = random_model(small_spec(), *device, 9);
  Trainer trainer(*device, model, {.batch = 2, .tokens = 16, .optimizer = {.ema = 0.9}});
  for (int i = 0; i < 5; ++i) trainer.step(WindowSampler(ids, 2, 16, 1).batch(i), 1e-2);
  const auto w = model.params->read("output.weight"), average = trainer.moments().read("output.weight.ema");
  const double plain = trainer.evaluate(ids, 200).mean();
  {
    const AveragedWeights averaged(model.spec, *model.params, trainer.moments());
    EXPECT_EQ(model.params->read("output.weight"), average);
    EXPECT_EQ(trainer.moments().read("output.weight.ema"), w);
    EXPECT_NE(trainer.evaluate(ids, 200).mean(), plain);
  }
  EXPECT_EQ(model.params->read("output.weight"), w);
  EXPECT_EQ(trainer.evaluate(ids, 200).mean(), plain);
}

TEST(Optimizer, RefusesImpossibleNumbers) {
  for (const Options& o : std::vector<Options>{{.decay_rate = 0},
                                               {.update_clip = 0},
                                               {.adamw_factor = -1},
                                               {.lr_for = {{"*", -1}}},
                                               {.lr_for = {{"*", NAN}}},
                                               {.ema = 1},
                                               {.ema = -0.5},
                                               {.lr_decay = 0},
                                               {.lr_decay = 1.5},
                                               {.lr_decay = NAN},
                                               {.kind = Options::lion, .nesterov = true},
                                               {.kind = Options::muon, .momentum = 0, .nesterov = true}})
    EXPECT_THROW(o.validate(), Error);
  for (const Options& o : all_kinds()) EXPECT_NO_THROW(o.validate()) << name_of(o);
}

}  // namespace
}  // namespace toy::optimizer_test
