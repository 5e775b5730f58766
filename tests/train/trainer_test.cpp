// The training engine: bit-identical losses for any number of threads, and what it saves is what it has.
#include "toy/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "train_testing.h"

namespace toy::trainer_test {
namespace {

using testing::all_f32;
using testing::gpt2_spec;
using testing::losses;
using testing::odd_spec;
using testing::small_model;
using testing::walk;

// bf16 rounds operands to 8 bits: the losses stay near, and have the same bits for any number of threads. Near:
// rounding is off by up to 2^-9 of an operand, 2^-9 / sqrt(3) on average, so a product of two is off by sqrt(2/3) 2^-9.
// A logit has passed 2 layers of 7 products and the output's: sqrt(15) such errors of numbers of size 1, which norms
// keep; a token's loss is the difference of two such. Twice that, for the spread.
TEST(Trainer, Bf16ProductsTrainLikeF32) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    if (!make_test_device(1)->has_products(DType::bf16)) GTEST_SKIP() << "this CPU has no bf16 dot product";
    const auto run = [&](int threads, DType compute) {
      const auto device = make_test_device(threads);
      Model model = random_model(spec, *device, 9);
      return losses(*device, model, 30, 3, 23, compute);
    };
    const auto f32 = run(2, DType::f32), bf16 = run(1, DType::bf16);
    for (const int threads : {2, 3}) EXPECT_EQ(run(threads, DType::bf16), bf16) << threads;
    EXPECT_NE(bf16, f32);
    for (size_t i = 0; i < f32.size(); ++i) EXPECT_NEAR(bf16[i], f32[i], 2 * std::sqrt(2.0 * 15 * 2 / 3) * 0x1p-9) << i;
    EXPECT_LT(bf16.back(), bf16.front() - 0.2);
  }
}

TEST(Trainer, RefusesProductsThatTheDeviceDoesNotHave) {
  const auto device = make_reference_device();
  Model model = random_model(odd_spec(true), *device, 9);
  try {
    Trainer(*device, model, {.batch = 1, .tokens = 4, .compute = DType::bf16});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "compute: device 'reference' on this machine has no products in bf16; use f32");
  }
}

// d loss / d tensor of a batch of 2 x 8.
std::vector<double> gradient_of(Device& device, Model& model, const Windows& w, const std::string& name) {
  const TrainerOptions options{.batch = 2, .tokens = 8};
  const TrainGraph t = build_train_graph(model.spec, all_f32, options);
  std::vector<Value> outputs;
  const auto tensors = tensors_of(model.spec);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) outputs.push_back(t.gradients[i]);
  const auto plan = std::make_shared<const Plan>(compile(*t.graph, outputs, {}, device));
  Session session(device, plan, {model.params.get()});
  session.set("tokens", w.inputs);
  session.set("targets", w.targets);
  session.set("weight", std::vector<float>(16, 1.0f / 16));
  session.set("sequence", std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  session.set("position", std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  session.run();
  const std::vector<float> g = session.values(0);
  return {g.begin(), g.end()};
}

TEST(Trainer, SameBitsForAnyNumberOfThreads) {
  for (const ModelSpec& spec : {odd_spec(true), odd_spec(false), gpt2_spec()}) {
    std::vector<double> first;
    std::vector<float> first_weights;
    for (const int threads : {1, 2, 3, 8}) {
      const auto device = make_test_device(threads);
      Model model = random_model(spec, *device, 9);
      const auto l = losses(*device, model, 12);
      const auto w = model.params->read("token_embd.weight");
      if (first.empty()) first = l, first_weights = w;
      EXPECT_EQ(l, first) << threads;
      EXPECT_EQ(std::memcmp(w.data(), first_weights.data(), w.size() * 4), 0) << threads;
    }
  }
}

TEST(Trainer, RunToRun) {
  std::vector<double> first;
  for (int run = 0; run < 3; ++run) {
    const auto device = make_test_device(2);
    Model model = random_model(odd_spec(true), *device, 9);
    const auto l = losses(*device, model, 8);
    if (first.empty()) first = l;
    EXPECT_EQ(l, first) << run;
  }
}

// Losses of B copies of one window: each has the bits that it has alone.
TEST(Trainer, IdenticalRowsOfABatch) {
  const auto device = make_test_device(2);
  const Model model = random_model(odd_spec(false), *device, 9, 2.0);
  const int64_t tokens = 37;
  const auto ids = walk(size_t(tokens) + 1);
  const auto nll_of = [&](int64_t batch) {
    LossGraph l = build_loss_graph(model.spec, all_f32, batch, tokens);
    auto plan = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.nll}, {}, *device));
    Session session(*device, plan, {model.params.get()});
    std::vector<int32_t> inputs, targets, sequence, position;
    for (int64_t i = 0; i < batch * tokens; ++i) {
      inputs.push_back(ids[size_t(i % tokens)]), targets.push_back(ids[size_t(i % tokens) + 1]);
      sequence.push_back(int32_t(i / tokens)), position.push_back(int32_t(i % tokens));
    }
    session.set("tokens", inputs), session.set("targets", targets);
    session.set("sequence", sequence), session.set("position", position);
    session.set("weight", std::vector<float>(inputs.size(), 1.0f));
    session.run();
    return session.values(0);
  };
  const auto one = nll_of(1);
  for (const int64_t batch : {2, 3, 16}) {
    const auto many = nll_of(batch);
    for (int64_t b = 0; b < batch; ++b)
      EXPECT_EQ(std::memcmp(many.data() + b * tokens, one.data(), size_t(tokens) * 4), 0) << b << " of " << batch;
  }
}

int count_nodes(const Graph& g, std::string_view op) {
  int n = 0;
  for (const Node& node : g.nodes()) n += node.op && node.op->name() == op;
  return n;
}

// Behind the embedding, each mixer and each ffn, once forward and once backward; without it the graph has nothing of
// it.
TEST(Trainer, DropoutStandsWhereItBelongs) {
  const ModelSpec spec = odd_spec(true);
  const TrainGraph with = build_train_graph(spec, all_f32, {.batch = 2, .tokens = 8, .dropout = 0.1});
  EXPECT_EQ(count_nodes(*with.graph, "dropout"), 2 * (1 + 2 * int(spec.layers.size())));
  EXPECT_TRUE(with.graph->find("random"));
  const TrainGraph without = build_train_graph(spec, all_f32, {.batch = 2, .tokens = 8});
  EXPECT_EQ(count_nodes(*without.graph, "dropout"), 0);
  EXPECT_FALSE(without.graph->find("random"));
  EXPECT_EQ(with.graph->nodes().size(),
            without.graph->nodes().size() + size_t(count_nodes(*with.graph, "dropout")) + 1);
}

// The mask follows from seed and step: equal bits for any number of threads and from run to run, another loss with
// another seed, and validation without it.
TEST(Trainer, DropoutDependsOnSeedAndStepAlone) {
  const auto ids = walk(4000);
  const WindowSampler sampler(ids, 3, 23, 1);
  const auto run = [&](int threads, double dropout, uint64_t seed, double& validation) {
    const auto device = make_test_device(threads);
    Model model = random_model(odd_spec(true), *device, 9);
    Trainer trainer(*device, model, {.batch = 3, .tokens = 23, .dropout = dropout, .seed = seed});
    validation = trainer.evaluate(std::span(ids).first(200)).mean();
    std::vector<double> result;
    for (int i = 0; i < 6; ++i) result.push_back(trainer.step(sampler.batch(0), 3e-3).loss);
    return result;
  };
  double validation = 0, plain_validation = 0;
  const auto base = run(1, 0.3, 5, validation), plain = run(1, 0, 5, plain_validation);
  EXPECT_EQ(validation, plain_validation);
  for (const int threads : {1, 2, 3}) EXPECT_EQ(run(threads, 0.3, 5, validation), base) << threads;
  for (const uint64_t seed : {uint64_t(6), uint64_t(5) | uint64_t(1) << 32})
    EXPECT_NE(run(2, 0.3, seed, validation)[0], base[0]);
  EXPECT_NE(plain[0], base[0]);
}

// With a learning rate of nothing the weights stay, and steps differ by their masks alone.
TEST(Trainer, EveryStepDropsOthers) {
  const auto device = make_test_device(2);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto ids = walk(500);
  const Windows windows = WindowSampler(ids, 3, 23, 1).batch(0);
  Trainer trainer(*device, model, {.batch = 3, .tokens = 23, .dropout = 0.01});
  const double first = trainer.step(windows, 0).loss, second = trainer.step(windows, 0).loss;
  EXPECT_NE(first, second);
}

TEST(Trainer, Learns) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto device = make_test_device(2);
    Model model = random_model(spec, *device, 9);
    const auto l = losses(*device, model, 300, 8, 32);
    EXPECT_NEAR(l.front(), std::log(97.0), 0.2);
    EXPECT_LT(l.back(), 1.5);  // the walk itself has log 3 = 1.1 nats a token
  }
}

// No value of a step is further than n + 16 roundings from what its operands say, n = 97 being the longest sum. What
// that does to the losses is measured on the reference: they move where every weight is off by so much at random. Twice
// the root mean square of 8 such runs, for its spread, and one rounding of the loss itself.
TEST(Trainer, CpuFollowsTheReference) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto cpu = make_test_device(2), reference = make_reference_device();
    const auto run = [&](Device& device, uint64_t draw) {
      Model model = random_model(spec, device, 9);
      for (const TensorSpec& t : tensors_of(model.spec)) {
        const Philox random(draw, t.name);
        const HostTensor weight = model.params->host(t.name);
        for (int64_t i = 0; draw > 0 && i < weight.view().count(); ++i)
          weight.view().as<double>()[i] *= 1 + (97 + 16) * 0x1p-24 * random.normal(uint64_t(i));
      }
      return losses(device, model, 5);
    };
    const auto expected = run(*reference, 0), actual = run(*cpu, 0);
    std::vector<double> moved(expected.size());
    constexpr int kDraws = 8;
    for (int d = 1; d <= kDraws; ++d) {
      const auto other = run(*reference, uint64_t(d));
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += std::pow(other[i] - expected[i], 2) / kDraws;
    }
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 2 * std::sqrt(moved[i]) + 0x1p-24 * expected[i]) << i;
  }
}

TEST(Trainer, NonFiniteGradientSkipsTheStep) {
  const auto device = make_test_device(1);
  Model model = random_model(odd_spec(false), *device, 9);
  auto w = model.params->read("output.weight");
  w[5] = INFINITY;
  model.params->write("output.weight", w);
  const auto before = model.params->read("blk.0.attn_q.weight");
  const auto ids = walk(500);
  Trainer trainer(*device, model, {.batch = 2, .tokens = 16});
  const StepResult r = trainer.step(WindowSampler(ids, 2, 16, 1).batch(0), 1e-2);
  EXPECT_FALSE(std::isfinite(*r.grad_norm));
  EXPECT_TRUE(r.skipped);
  EXPECT_EQ(model.params->read("blk.0.attn_q.weight"), before);
}

TEST(Trainer, StreamingUpdatesGiveTheSameBitsInLessMemory) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto device = make_test_device(2);
    const auto ids = walk(4000);
    const WindowSampler sampler(ids, 3, 23, 1);
    std::vector<std::vector<double>> all;
    std::vector<std::vector<float>> weights;
    std::vector<size_t> bytes;
    for (const auto updates : {TrainerOptions::gathered, TrainerOptions::streaming}) {
      Model model = random_model(spec, *device, 9);
      Trainer trainer(*device, model, {.batch = 3, .tokens = 23, .optimizer = {.clip = 0}, .updates = updates});
      all.emplace_back();
      for (int i = 0; i < 8; ++i) {
        const StepResult r = trainer.step(sampler.batch(i), 3e-3);
        all.back().push_back(r.loss);
        EXPECT_EQ(r.grad_norm.has_value(), updates == TrainerOptions::gathered);
      }
      weights.push_back(model.params->read("blk.1.ffn_down.weight"));
      // With few rows gradients are most of the arena.
      Model small = random_model(model_spec("small"), *device, 9);
      const TrainerOptions few{.batch = 1, .tokens = 2, .optimizer = {.clip = 0}, .updates = updates};
      bytes.push_back(Trainer(*device, small, few).plan().arena_bytes);
    }
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_LT(bytes[1], bytes[0] * 3 / 4);
  }
}

TEST(Trainer, StreamingSkipsALossThatIsNotFinite) {
  const auto device = make_test_device(1);
  Model model = random_model(odd_spec(false), *device, 9);
  auto w = model.params->read("output.weight");
  w[5] = INFINITY;
  model.params->write("output.weight", w);
  const auto before = model.params->read("blk.0.attn_q.weight");
  const auto ids = walk(500);
  Trainer trainer(*device, model,
                  {.batch = 2, .tokens = 16, .optimizer = {.clip = 0}, .updates = TrainerOptions::streaming});
  EXPECT_TRUE(trainer.step(WindowSampler(ids, 2, 16, 1).batch(0), 1e-2).skipped);
  EXPECT_EQ(trainer.updates(), 0);
  EXPECT_EQ(model.params->read("blk.0.attn_q.weight"), before);
  EXPECT_THROW(Trainer(*device, model, {.batch = 2, .tokens = 16, .updates = TrainerOptions::streaming}), Error);
}

TEST(Trainer, EvaluationCountsEveryTokenOnce) {
  const auto device = make_test_device(2);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto ids = walk(333);
  Trainer trainer(*device, model, {.batch = 3, .tokens = 16});
  const EvalResult r = trainer.evaluate(ids);
  EXPECT_EQ(r.tokens, 332);
  EXPECT_NEAR(r.mean(), std::log(97.0), 0.2);
  EXPECT_EQ(trainer.evaluate(ids, 100).tokens, 100);
}

// Train, save, load, decode: the same logits to the bit, alone and through the file.
TEST(Trainer, SavedModelGivesTheSameLogits) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto device = make_test_device(2);
    Model model = random_model(spec, *device, 9);
    model.tokenizer = nullptr;
    losses(*device, model, 5);
    const testing::Folder folder;
    const std::string path = folder.path("m.gguf");
    save_model(model, path);
    const Model loaded = load_model(path, *device);
    EXPECT_EQ(loaded.spec.rope, model.spec.rope);
    EXPECT_EQ(loaded.spec.norm_eps, model.spec.norm_eps);
    std::vector<DecodeRow> rows;
    for (const int32_t id : walk(50)) rows.push_back({0, id, true});
    Decoder a(*device, model, {}), b(*device, loaded, {});
    a.decode(rows);
    b.decode(rows);
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(std::memcmp(a.logits(i).data(), b.logits(i).data(), 97 * 4), 0) << i;
    for (const TensorSpec& t : tensors_of(model.spec))
      EXPECT_EQ(loaded.params->read(t.name), model.params->read(t.name));
  }
}

// Training's forward pass and decoding compute the same bits.
TEST(Trainer, TrainingForwardEqualsDecoding) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto device = make_test_device(2);
    const Model model = random_model(spec, *device, 9, 2.0);
    const auto ids = walk(64);
    LossGraph l = build_loss_graph(model.spec, all_f32, 1, 64);
    auto plan = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *device));
    Session session(*device, plan, {model.params.get()});
    std::vector<int32_t> position;
    for (int32_t i = 0; i < 64; ++i) position.push_back(i);
    session.set("tokens", ids);
    session.set("sequence", std::vector<int32_t>(64, 0));
    session.set("position", position);
    session.run();
    const auto training = session.values(0);
    Decoder d(*device, model, {});
    std::vector<DecodeRow> rows;
    for (const int32_t id : ids) rows.push_back({0, id, true});
    d.decode(rows);
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(std::memcmp(d.logits(i).data(), training.data() + i * 97, 97 * 4), 0) << i;
  }
}

TEST(Trainer, WindowsEndWhereLearnedPositionsDo) {
  const auto device = make_test_device(1);
  Model model = random_model(gpt2_spec(), *device, 9);
  EXPECT_NO_THROW(Trainer(*device, model, {.batch = 1, .tokens = 64}));
  EXPECT_THROW(Trainer(*device, model, {.batch = 1, .tokens = 65}), Error);
}

TEST(Trainer, MappedWeightsCannotBeTrained) {
  const auto device = make_cpu_device(1);  // others get a copy
  const std::string path = std::string(TOY_SOURCE_DIR) + "/tests/golden/llama_tied.model.gguf";
  Model model = load_model(path, *device);
  EXPECT_THROW(Trainer(*device, model, {.batch = 1, .tokens = 8}), Error);
}

// The first loss of a loaded model is its loss on that batch, and the same bits as going on without the file.
TEST(Trainer, GoesOnFromASavedModel) {
  const auto device = make_test_device(2);
  Model model = random_model(odd_spec(false), *device, 9);
  losses(*device, model, 20);
  const testing::Folder folder;
  const std::string path = folder.path("m.gguf");
  save_model(model, path);
  Model loaded = load_model(path, *device, LoadMode::trainable);
  const auto ids = walk(4000);
  const Windows w = WindowSampler(ids, 1, 24, 2).batch(0);
  std::vector<int32_t> text = w.inputs;
  text.push_back(w.targets.back());
  Trainer on(*device, loaded, {.batch = 1, .tokens = 24}), without(*device, model, {.batch = 1, .tokens = 24});
  const double eval = on.evaluate(text).mean(), loss = on.step(w, 1e-3).loss;
  EXPECT_NEAR(loss, eval, 24 * 0x1p-24 * eval);  // the step sums in f32, evaluate() in f64
  EXPECT_EQ(loss, without.step(w, 1e-3).loss);
  EXPECT_EQ(loaded.params->read("output.weight"), model.params->read("output.weight"));
  EXPECT_LT(loss, std::log(97.0));
}

// Three steps of SGD beside a plain statement of it, from the gradients of the plan. Only the weights and, with
// momentum, one number more for each are held.
TEST(Trainer, SgdIsItsDefinition) {
  const auto device = make_test_device(2);
  const auto ids = walk(400);
  const WindowSampler sampler(ids, 2, 8, 1);
  const double lr = 0.05;
  for (const OptimizerOptions& o : std::vector<OptimizerOptions>{
           {.kind = OptimizerOptions::sgd, .momentum = 0, .weight_decay = 0.1, .clip = 0},
           {.kind = OptimizerOptions::sgd, .momentum = 0.9, .weight_decay = 0.1, .clip = 0},
           {.kind = OptimizerOptions::sgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0, .clip = 0}}) {
    Model model = random_model(odd_spec(true), *device, 9);
    Trainer trainer(*device, model, {.batch = 2, .tokens = 8, .optimizer = o});
    const std::string name = "blk.1.ffn_up.weight";
    EXPECT_EQ(trainer.moments().has(name + ".v"), o.momentum > 0);
    EXPECT_FALSE(trainer.moments().has(name + ".m"));
    EXPECT_EQ(trainer.moments().bytes(), o.momentum > 0 ? model.params->bytes() : 0);
    EXPECT_EQ(trainer.plan().param_bytes(*device), model.params->bytes() + trainer.moments().bytes());
    constexpr double u = 0x1p-24;
    std::vector<double> v(model.params->read(name).size()), v_error(v.size());
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> before = model.params->read(name);
      const std::vector<double> g = gradient_of(*device, model, sampler.batch(step), name);
      trainer.step(sampler.batch(step), lr);
      const std::vector<float> after = model.params->read(name);
      for (size_t i = 0; i < v.size(); ++i) {
        const double gi = g[i] + o.weight_decay * before[i];
        const double G = std::fabs(g[i]) + std::fabs(o.weight_decay * before[i]), V = std::fabs(o.momentum * v[i]) + G;
        v[i] = o.momentum * v[i] + gi;
        const double move = lr * (o.nesterov ? gi + o.momentum * v[i] : v[i]);
        // src/backend/cpu/optimizer/sgd.cpp: v' within 6u V and what v was off; w' within u |w'| and 9u lr V, or 12u lr
        // (G + momentum V), one u more for the learning rate, which the engine takes in f32, and what v' is off.
        v_error[i] = o.momentum * v_error[i] + 6 * u * V;
        const double step_error = o.nesterov ? 13 * u * (G + o.momentum * V) + o.momentum * o.momentum * v_error[i]
                                             : 10 * u * V + o.momentum * v_error[i];
        ASSERT_NEAR(after[i], before[i] - move, u * std::fabs(after[i]) + lr * step_error) << step << " " << i;
      }
    }
  }
}

TEST(Trainer, RefusesImpossibleOptimizers) {
  const auto device = make_test_device(1);
  Model model = random_model(odd_spec(true), *device, 9);
  const auto make = [&](const OptimizerOptions& o) {
    const Trainer trainer(*device, model, {.batch = 1, .tokens = 8, .optimizer = o});
  };
  EXPECT_NO_THROW(make({}));
  for (const OptimizerOptions& o :
       std::vector<OptimizerOptions>{{.beta1 = 1},
                                     {.beta1 = -0.1},
                                     {.beta2 = 1},
                                     {.beta2 = NAN},
                                     {.eps = 0},
                                     {.eps = -1},
                                     {.eps = INFINITY},
                                     {.kind = OptimizerOptions::sgd, .momentum = 1},
                                     {.kind = OptimizerOptions::sgd, .momentum = -0.1},
                                     {.kind = OptimizerOptions::sgd, .momentum = 0, .nesterov = true},
                                     {.nesterov = true},
                                     {.weight_decay = -1},
                                     {.clip = -1}})
    EXPECT_THROW(make(o), Error);
}

}  // namespace
}  // namespace toy::trainer_test
