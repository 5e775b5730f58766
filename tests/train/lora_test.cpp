// Adapters: what they compute, what is trained, and over which weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/graph/op_def.h"
#include "toy/models/adapter.h"
#include "toy/tensor/quantize.h"
#include "train_testing.h"

namespace toy::lora_test {
namespace {

using testing::expect_contains;
using testing::message_of;

// Rows of 256 hold whole blocks of every type.
ModelSpec wide_spec() {
  return testing::small_model(
      "tiny", {.vocab = 97, .d_model = 256, .context = 64, .heads = 4, .kv_heads = 2, .d_head = 64, .d_ff = 512});
}

void adapt(Model& model, const LoraOptions& options, uint64_t seed = 5) {
  model.spec.adapters.push_back(lora_adapter(model.spec, options));
  model.spec.roles.train = {"*.lora_[abm]"};
  add_adapter_weights(model, seed);
}

// b = 0 learns nothing of a.
void randomize(Model& model, const Device& device, const std::string& end = ".lora_b") {
  const Philox random(8, "b");
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (!t.name.ends_with(end)) continue;
    std::vector<float> values(size_t(t.shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(0.05 * random.normal(i + hash_name(t.name) % 999983));
    model.params->write(t.name, values);
  }
}

Windows windows(int64_t batch, int64_t tokens) {
  const auto ids = testing::walk(4000);
  return WindowSampler(ids, batch, tokens, 1).batch(0);
}

double loss_of(Device& device, Model& model) {
  const auto ids = testing::walk(200);
  Trainer trainer(device, model, {.batch = 2, .tokens = 32});
  return trainer.evaluate(TokenView(ids)).nats;
}

TEST(Lora, ANewAdapterChangesNoBit) {
  const auto device = make_test_device(2);
  for (const ModelSpec& spec : {testing::odd_spec(true), testing::gpt2_spec(), model_spec("hybrid-tiny", 97)}) {
    Model base = random_model(spec, *device, 3), adapted = random_model(spec, *device, 3);
    adapt(adapted, {.rank = 4});
    EXPECT_EQ(loss_of(*device, adapted), loss_of(*device, base)) << spec.architecture;
    randomize(adapted, *device);
    EXPECT_NE(loss_of(*device, adapted), loss_of(*device, base)) << spec.architecture;
  }
}

// With w' = w + s b a, and dw' the gradient of w': da = s b^T dw' and db = s dw' a^T. In f64.
TEST(Lora, GradientsAreThoseOfTheMergedWeights) {
  const auto device = make_reference_device();
  ModelSpec experts = testing::odd_spec(true);
  for (LayerSpec& l : experts.layers) l.experts = {.count = 3, .used = 2};
  for (const ModelSpec& spec : {testing::odd_spec(false), experts, model_spec("hybrid-tiny", 97)}) {
    const Windows w = windows(2, 16);
    Model adapted = random_model(spec, *device, 9, 2.0), merged = random_model(spec, *device, 9, 2.0);
    adapt(adapted, {.rank = 3, .alpha = 6});
    randomize(adapted, *device);
    struct Pair {
      std::vector<float> a, b;
    };
    std::map<std::string, Pair> pairs;
    for (const auto& [name, map] : adapted.spec.adapters[0].maps) {
      Pair& p = pairs[name];
      p.a = adapted.params->read(name + ".lora_a"), p.b = adapted.params->read(name + ".lora_b");
      const Shape shape = adapted.params->type(name).shape;
      const int64_t rows = shape.back(1), columns = shape.back(0), r = map.rank;
      std::vector<float> values = merged.params->read(name);
      std::vector<double> sums(values.begin(), values.end());
      for (int64_t e = 0; e < shape.count() / (rows * columns); ++e)
        for (int64_t o = 0; o < rows; ++o)
          for (int64_t i = 0; i < columns; ++i)
            for (int64_t k = 0; k < r; ++k)
              sums[size_t((e * rows + o) * columns + i)] += double(map.scale) *
                                                            double(p.b[size_t((e * rows + o) * r + k)]) *
                                                            double(p.a[size_t((e * r + k) * columns + i)]);
      merged.params->write(name, View(sums.data(), DType::f64, shape));
    }
    const auto gradients = [&](Model& model) {
      Trainer trainer(*device, model, testing::bare(2, 16));
      testing::Gradient g{{}, trainer.step(w, 1e-9).loss, 0};
      for (const TensorSpec& t : trained_tensors(model.spec)) {
        const HostTensor velocity = trainer.moments().host(t.name + ".v");
        for (int64_t i = 0; i < velocity.view().count(); ++i) g.of[t.name].push_back(element(velocity.view(), i));
      }
      return g;
    };
    testing::Gradient of_merged = gradients(merged), of_adapter = gradients(adapted);
    EXPECT_NEAR(of_adapter.loss, of_merged.loss, 1e-12);
    EXPECT_EQ(of_adapter.of.size(), 2 * pairs.size());
    double largest = 0;
    for (const auto& [name, map] : adapted.spec.adapters[0].maps) {
      const Pair& p = pairs[name];
      const Shape shape = adapted.params->type(name).shape;
      const int64_t rows = shape.back(1), columns = shape.back(0), r = map.rank;
      const std::vector<double>&dw = of_merged.of[name], &da = of_adapter.of[name + ".lora_a"],
            &db = of_adapter.of[name + ".lora_b"];
      for (int64_t e = 0; e < shape.count() / (rows * columns); ++e)
        for (int64_t k = 0; k < r; ++k) {
          for (int64_t i = 0; i < columns; ++i) {
            double want = 0;
            for (int64_t o = 0; o < rows; ++o)
              want += double(map.scale) * double(p.b[size_t((e * rows + o) * r + k)]) *
                      dw[size_t((e * rows + o) * columns + i)];
            EXPECT_NEAR(da[size_t((e * r + k) * columns + i)], want, 1e-12) << name;
            largest = std::max(largest, std::fabs(want));
          }
          for (int64_t o = 0; o < rows; ++o) {
            double want = 0;
            for (int64_t i = 0; i < columns; ++i)
              want += double(map.scale) * double(p.a[size_t((e * r + k) * columns + i)]) *
                      dw[size_t((e * rows + o) * columns + i)];
            EXPECT_NEAR(db[size_t((e * rows + o) * r + k)], want, 1e-12) << name;
          }
        }
    }
    EXPECT_GT(largest, 1e-4);
  }
}

// The ops of a step that make gradients of weights, and those below the first block that is trained.
TEST(Lora, NoGradientOfAFrozenWeight) {
  ModelSpec spec = testing::odd_spec(false);
  spec.adapters = {lora_adapter(spec, {.rank = 4, .targets = {"blk.1.attn_[qv]"}})};
  spec.roles.train = {"*.lora_[ab]"};
  const TrainGraph t = build_train_graph(spec, testing::all_f32, {.batch = 1, .tokens = 8});
  std::map<std::string, int> ops;
  for (const Node& n : t.graph->nodes()) {
    if (n.kind != NodeKind::op || n.phase != Phase::backward) continue;
    ++ops[std::string(n.op->name())];
    EXPECT_EQ(n.layer.path.find("blk.0"), std::string::npos) << n.op->name();
  }
  EXPECT_EQ(ops["linear_grad_w"], 4);  // a and b of two maps
  EXPECT_EQ(ops["embedding_grad"], 0);
  EXPECT_EQ(t.gradients.size(), 4u);
}

const LoraOptions kPissa{.rank = 4, .pissa = true}, kDora{.rank = 4, .dora = true},
    kOutput{.rank = 4, .targets = {"attn_q", "token_embd", "output"}};

// An adapter over quantized weights is trained as one over the same weights in f32, bit for bit.
void expect_quantized_is_dequantized(Device& device, const LoraOptions& options, DType type, int steps, int64_t batch,
                                     int64_t tokens) {
  const ModelSpec spec = wide_spec();
  const Model source = random_model(spec, device, 3);
  Model quantized{spec, std::make_unique<ParamStore>(device), nullptr}, plain = random_model(spec, device, 3);
  for (const TensorSpec& t : tensors_of(spec)) {
    const std::vector<float> values = source.params->read(t.name);
    if (t.shape.rank() < 2) {
      quantized.params->add(t.name, {DType::f32, t.shape, 0});
      quantized.params->write(t.name, values);
      continue;
    }
    const auto blocks = std::make_shared<std::vector<std::byte>>(bytes_of(type, t.shape.count()));
    quantize(type, values, std::vector<float>(size_t(t.shape.back(0)), 1.0f), blocks->data());
    quantized.params->bind(t.name, View(blocks->data(), type, t.shape), blocks);
    std::vector<float> back(values.size());
    dequantize(type, blocks->data(), back);
    plain.params->write(t.name, back);
  }
  std::vector<std::vector<double>> losses;
  for (Model* model : {&quantized, &plain}) {
    adapt(*model, options);
    losses.push_back(testing::losses(device, *model, steps, batch, tokens));
  }
  EXPECT_EQ(losses[0], losses[1]) << name_of(type);
  EXPECT_NE(losses[0].front(), losses[0].back());
  for (const TensorSpec& t : trained_tensors(plain.spec))
    EXPECT_EQ(quantized.params->read(t.name), plain.params->read(t.name)) << t.name;
}

TEST(Lora, QuantizedBaseIsTheDequantizedOne) {
  const LoraOptions all{.rank = 8};
  for (const auto& [options, type] :
       {std::pair(all, DType::q8_0), std::pair(all, DType::q4_k), std::pair(all, DType::mxfp4),
        std::pair(all, DType::q6_k), std::pair(all, DType::q5_0), std::pair(all, DType::iq4_nl),
        std::pair(kPissa, DType::q8_0), std::pair(kPissa, DType::q4_k), std::pair(kDora, DType::q8_0),
        std::pair(kDora, DType::q4_k), std::pair(kDora, DType::mxfp4), std::pair(kOutput, DType::q8_0),
        std::pair(kOutput, DType::q4_k), std::pair(kOutput, DType::mxfp4)})
    for (const int threads : {1, 3})
      expect_quantized_is_dequantized(*make_test_device(threads), options, type, 4, 2, 24);
}

TEST(Lora, QuantizedBaseOnGpus) {
  const auto device = make_emulated_device();
  for (const DType type : {DType::q8_0, DType::q4_k})
    expect_quantized_is_dequantized(*device, {.rank = 4, .targets = {"attn_q", "ffn_down"}}, type, 2, 1, 5);
}

TEST(Lora, TargetsAndRanks) {
  const ModelSpec spec = testing::odd_spec(true);
  EXPECT_EQ(lora_targets(spec, {"all-linear"}).size(), 14u);
  EXPECT_EQ(lora_targets(spec, {"attn_q", "v_proj"}).size(), 4u);
  EXPECT_EQ(lora_targets(spec, {"blk.1.ffn_*"}).size(), 3u);
  expect_contains(message_of([&] { lora_targets(spec, {"attn_kk"}); }), "Did you mean 'attn_k'?");
  EXPECT_EQ(lora_targets(spec, {"embed_tokens", "lm_head"}).size(), 2u);
  expect_contains(message_of([&] { lora_targets(spec, {"output_norm.weight"}); }), "no linear map fits");
  expect_contains(message_of([&] { lora_adapter(spec, {.dora = true, .targets = {"output"}}); }),
                  "dora: 'output.weight' has none");
  expect_contains(message_of([&] { lora_adapter(spec, {.dora = true, .dropout = 0.1}); }), "lora-dropout is 0.1");
  expect_contains(message_of([&] { lora_adapter(spec, {.rank = 20}); }),
                  "use a rank of at most 14, or give small maps one of their own: --targets all-linear,");
  expect_contains(message_of([&] { lora_adapter(spec, {.dora = true, .pissa = true}); }), "pissa");
  expect_contains(message_of([&] { lora_adapter(spec, {.pissa = true, .targets = {"output"}}); }),
                  "pissa: 'output.weight' has none");
  EXPECT_FLOAT_EQ(lora_adapter(spec, {.rank = 4, .alpha = 8, .rslora = true}).maps.begin()->second.scale, 4);

  // Ranks and alphas by pattern: the last one that fits.
  const AdapterSpec by_pattern =
      lora_adapter(spec, {.rank = 4, .alpha = 8, .targets = {"all-linear", "attn_*=2", "blk.1.attn_q=3:12"}});
  using Map = AdapterSpec::Map;
  EXPECT_EQ(by_pattern.maps.size(), 14u);
  EXPECT_EQ(by_pattern.maps.at("blk.1.ffn_up.weight"), (Map{4, 2}));
  EXPECT_EQ(by_pattern.maps.at("blk.0.attn_q.weight"), (Map{2, 4}));
  EXPECT_EQ(by_pattern.maps.at("blk.1.attn_q.weight"), (Map{3, 4}));
  for (const char* bad : {"attn_q=", "attn_q=x", "attn_q=3:", "attn_q=3:y", "attn_q=3:4z", "attn_q=3.5"})
    expect_contains(message_of([&] { lora_adapter(spec, {.targets = {bad}}); }), "use PATTERN=RANK");
  expect_contains(message_of([&] { lora_adapter(spec, {.targets = {"attn_q=0"}}); }), "rank is 0");
  expect_contains(message_of([&] { lora_adapter(spec, {.targets = {"attn_q=2:-1"}}); }), "alpha is -1");
  expect_contains(message_of([&] { lora_adapter(spec, {.targets = {"ffn_up=999"}}); }), "rank is 999");
}

TEST(Lora, FilesKeepEveryBit) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  Model model = random_model(testing::odd_spec(true), *device, 3),
        other = random_model(testing::odd_spec(true), *device, 3);
  adapt(model, {.rank = 5, .alpha = 7});
  randomize(model, *device);
  const std::string path = folder.path("adapter.gguf");
  save_adapter(model, 0, path);
  const gguf::File file = gguf::File::open(path);
  EXPECT_EQ(file.get_string("general.type"), "adapter");
  EXPECT_EQ(file.get_string("adapter.type"), "lora");
  EXPECT_EQ(file.get_f32("adapter.lora.alpha"), 7);
  EXPECT_EQ(file.require("blk.0.attn_k.weight.lora_a").shape, (Shape{5, 36}));
  EXPECT_EQ(file.require("blk.0.attn_k.weight.lora_b").shape, (Shape{14, 5}));
  load_adapter(other, path);
  EXPECT_EQ(other.spec.adapters, model.spec.adapters);
  EXPECT_EQ(loss_of(*device, other), loss_of(*device, model));
  // Twice at half its scale is once, but for rounding.
  Model twice = random_model(testing::odd_spec(true), *device, 3);
  load_adapter(twice, path, 0.5), load_adapter(twice, path, 0.5);
  EXPECT_NEAR(loss_of(*device, twice), loss_of(*device, model), 1e-3);
  Model small = random_model(
      testing::small_model(
          "tiny", {.vocab = 97, .d_model = 32, .context = 64, .heads = 2, .kv_heads = 1, .d_head = 16, .d_ff = 50}),
      *device, 3);
  expect_contains(message_of([&] { load_adapter(small, path); }),
                  "it is an adapter of another model: 'blk.0.attn_q.weight.lora_a' is [5,36]");
  Model gpt2 = random_model(testing::gpt2_spec(), *device, 3);
  expect_contains(message_of([&] { load_adapter(gpt2, path); }),
                  "it is an adapter of another model: its architecture is llama, and this one's gpt2");
}

// Of magnitudes, and of output and embeddings, tied (then merging makes them two tensors) or not.
TEST(Lora, EveryKindInFilesAndMerged) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  for (const bool tied : {true, false})
    for (const LoraOptions& options : {kDora, kOutput}) {
      const ModelSpec spec = testing::odd_spec(tied);
      const std::string path = folder.path("adapter.gguf"), what = options.dora ? "dora" : "output";
      Model base = random_model(spec, *device, 3), model = random_model(spec, *device, 3),
            again = random_model(spec, *device, 3);
      adapt(model, options);
      EXPECT_EQ(loss_of(*device, model), loss_of(*device, base)) << what;
      randomize(model, *device), randomize(model, *device, "token_embd.weight.lora_a");
      for (const TensorSpec& t : tensors_of(model.spec)) {
        if (!t.name.ends_with(".lora_m")) continue;
        std::vector<float> m = model.params->read(t.name);
        for (size_t i = 0; i < m.size(); i += 2) m[i] *= 1.25f;
        model.params->write(t.name, m);
      }
      save_adapter(model, 0, path);
      EXPECT_EQ(gguf::File::open(path).get_string("adapter.type"), options.dora ? "dora" : "lora");
      EXPECT_EQ(unknown_to_llama_cpp(spec, model.spec.adapters[0]).empty(), !options.dora && !tied);
      load_adapter(again, path);
      for (const TensorSpec& t : tensors_of(model.spec))
        if (t.adapter == 0 && !t.name.ends_with(".lora_n")) {
          EXPECT_EQ(again.params->read(t.name), model.params->read(t.name)) << t.name;
        }
      const double before = loss_of(*device, base), with = loss_of(*device, model);
      EXPECT_NEAR(loss_of(*device, again), with, 1e-5 * std::fabs(with)) << what;
      EXPECT_GT(std::fabs(with - before), 1e-3 * std::fabs(with)) << what;
      merge_adapters(again);
      EXPECT_EQ(again.spec.tied, tied && options.dora) << what;
      EXPECT_NEAR(loss_of(*device, again), with, 1e-4 * std::fabs(with)) << what;
      save_model(again, folder.path("merged.gguf"));
      Model merged = load_model(folder.path("merged.gguf"), *device, LoadMode::trainable);
      EXPECT_NEAR(loss_of(*device, merged), with, 1e-4 * std::fabs(with)) << what;
    }
}

// A model begins as its base, and what is saved belongs to that base: a difference of twice the rank. With experts, and
// with maps that are parts of a file's tensor.
// As llama-cpp-python 0.3.36 does.
TEST(Lora, WhatLlamaCppIgnoresIsSaid) {
  const testing::Folder folder;
  const auto unknown = [&](const std::string& sizes, const std::string& target) {
    folder.write("size.json", "{" + sizes + R"(, "d_model": 32, "n_heads": 2, "n_kv": 1, "d_head": 16, "d_ff": 48})");
    const ModelSpec spec = model_spec(folder.path("size.json"), 90);
    return unknown_to_llama_cpp(spec, lora_adapter(spec, {.rank = 2, .targets = {target}}));
  };
  const std::string kimi =
      R"("architecture": "kimi-linear", "n_layers": 2, "tied": false, "delta_value_heads": 2, "delta_width": 8,)"
      R"("latent_width": 18, "latent_key": 12, "latent_shared_key": 4, "latent_value": 10,)"
      R"x("experts": 4, "experts_used": 2, "shared_d_ff": 48, "layers": "kda(experts=0,experts_used=0,shared_d_ff=0),mla")x";
  expect_contains(unknown(kimi, "attn_[qkv]"), "llama.cpp ignores what an adapter changes in 'blk.0.attn_k.weight'");
  expect_contains(unknown(kimi, "attn_output"), "'blk.0.attn_output.weight'");
  EXPECT_EQ(unknown(kimi, "blk.1.attn_output"), "");
  expect_contains(unknown(kimi, "output"), "'output.weight'");
  const std::string gemma4 = R"("architecture": "gemma4", "n_layers": 2, "tied": true, "layer_embedding": 8)";
  expect_contains(unknown(gemma4, "token_embd"), "llama.cpp aborts with an adapter of embeddings");
  expect_contains(unknown(gemma4, "output"), "llama.cpp refuses an adapter of the output");
  expect_contains(unknown(gemma4, "per_layer_model_proj"), "'per_layer_model_proj.weight'");
  EXPECT_EQ(unknown(gemma4, "attn_q"), "");
  EXPECT_EQ(unknown(kimi, "ffn_*"), "");
}

// A family whose files cannot say that embeddings and output differ.
TEST(Lora, WhereTiedTensorsCannotBeTwo) {
  const testing::Folder folder;
  folder.write("size.json", R"({"architecture": "gemma", "n_layers": 1, "d_model": 32, "n_heads": 2, "d_ff": 48})");
  const auto device = make_test_device(1);
  Model model = random_model(model_spec(folder.path("size.json"), 90), *device, 3);
  adapt(model, {.rank = 2, .targets = {"all-linear"}});
  EXPECT_TRUE(can_be_merged(model.spec, model.spec.adapters[0]));
  model.spec.adapters.clear();
  adapt(model, {.rank = 2, .targets = {"output", "token_embd"}});
  EXPECT_FALSE(can_be_merged(model.spec, model.spec.adapters[0]));
  expect_contains(message_of([&] { merge_adapters(model); }), "use it with --lora");
}

TEST(Lora, PissaIsADifferenceInFiles) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  ModelSpec experts = testing::odd_spec(true);
  for (LayerSpec& l : experts.layers) l.experts = {.count = 3, .used = 2};
  for (const ModelSpec& spec : {testing::odd_spec(false), experts, testing::gpt2_spec()}) {
    Model base = random_model(spec, *device, 3), model = random_model(spec, *device, 3);
    adapt(model, kPissa);
    const double before = loss_of(*device, base);
    EXPECT_NEAR(loss_of(*device, model), before, 1e-5 * before);
    testing::losses(*device, model, 4, 2, 24);
    const double after = loss_of(*device, model);
    EXPECT_GT(std::fabs(after - before), 2e-4 * before);
    save_adapter(model, 0, folder.path("a.gguf"));
    Model loaded = random_model(spec, *device, 3);
    load_adapter(loaded, folder.path("a.gguf"));
    const auto& [weight, map] = *loaded.spec.adapters[0].maps.begin();
    EXPECT_EQ(map.rank % 8, 0) << weight;
    EXPECT_FALSE(map.principal);
    EXPECT_NEAR(loss_of(*device, loaded), after, 1e-5 * after);
    merge_adapters(model), model.spec.roles = {};
    EXPECT_NEAR(loss_of(*device, model), after, 1e-5 * after);
  }
}

// A weight of zeros, one of rank 1 and an expert of zeros have no singular values to begin with; they learn all the
// same, from a random `a`.
TEST(Lora, PissaTrainsWeightsOfZeros) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  ModelSpec spec = testing::odd_spec(true);
  for (LayerSpec& l : spec.layers) l.experts = {.count = 3, .used = 2};
  const std::string zeros = "blk.0.attn_output.weight", thin = "blk.1.attn_output.weight",
                    experts = "blk.0.ffn_down_exps.weight";
  const auto make = [&] {
    Model model = random_model(spec, *device, 3);
    model.params->write(zeros, std::vector<float>(model.params->read(zeros).size()));
    std::vector<float> one_column = model.params->read(thin), one_expert = model.params->read(experts);
    const size_t columns = size_t(model.params->type(thin).shape.back(0));
    for (size_t i = 0; i < one_column.size(); ++i) one_column[i] = i % columns == 0 ? one_column[i] : 0;
    std::fill_n(one_expert.begin(), one_expert.size() / 3, 0.0f);
    model.params->write(thin, one_column), model.params->write(experts, one_expert);
    return model;
  };
  Model base = make(), model = make();
  adapt(model, kPissa);
  const auto b_of = [&](const std::string& name) { return model.params->read(AdapterNames(name, 0).b); };
  for (const std::string& name : {zeros, thin, experts}) {
    const std::vector<float> a = model.params->read(AdapterNames(name, 0).a);
    const size_t width = size_t(model.params->type(name).shape.back(0));
    for (size_t at = 0; at < a.size(); at += width)
      EXPECT_TRUE(std::any_of(&a[at], &a[at] + width, [](float v) { return v != 0; })) << name << " " << at / width;
  }
  for (const float v : b_of(zeros)) EXPECT_EQ(v, 0);
  const double before = loss_of(*device, base);
  EXPECT_NEAR(loss_of(*device, model), before, 1e-5 * before);
  const std::vector<float> thin_b = b_of(thin), experts_b = b_of(experts);
  testing::losses(*device, model, 4, 2, 24);
  const auto learned = [&](const std::string& name, const std::vector<float>& from, size_t begin, size_t end) {
    const std::vector<float> b = b_of(name);
    for (size_t i = begin; i < end; ++i) EXPECT_NE(b[i], from[i]) << name << " " << i;
  };
  learned(zeros, std::vector<float>(b_of(zeros).size()), 0, b_of(zeros).size());
  learned(thin, thin_b, 0, thin_b.size());
  learned(experts, experts_b, 0, experts_b.size() / 3);
  const double after = loss_of(*device, model);
  save_adapter(model, 0, folder.path("a.gguf"));
  Model loaded = make();
  load_adapter(loaded, folder.path("a.gguf"));
  EXPECT_NEAR(loss_of(*device, loaded), after, 1e-5 * after);
}

TEST(Lora, WhatPissaSubtractsIsInThePlan) {
  const auto device = make_cpu_device(1);
  const auto bytes = [&](bool pissa) {
    ModelSpec spec = testing::odd_spec(false);
    spec.adapters = {lora_adapter(spec, {.rank = 4, .pissa = pissa})};
    spec.roles.train = {"*.lora_[ab]"};
    return compile_training(*device, spec, testing::all_f32, {.batch = 1, .tokens = 8}).bytes(*device);
  };
  ModelSpec spec = testing::odd_spec(false);
  spec.adapters = {lora_adapter(spec, {.rank = 4})}, spec.roles.train = {"*.lora_[ab]"};
  EXPECT_GE(bytes(true), bytes(false) + size_t(trained_count(spec)) * sizeof(float));
}

// PEFT divides by zero there.
TEST(Lora, DoraOfARowOfZerosIsRefused) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  const ModelSpec spec = testing::odd_spec(false);
  const std::string name = "blk.1.ffn_up.weight";
  Model model = random_model(spec, *device, 3), other = random_model(spec, *device, 3);
  adapt(model, kDora);
  save_adapter(model, 0, folder.path("a.gguf"));
  std::vector<float> w = other.params->read(name);
  std::fill_n(w.begin() + 2 * 36, 36, 0.0f);
  other.params->write(name, w);
  expect_contains(message_of([&] { load_adapter(other, folder.path("a.gguf")); }), "row 2 of 'blk.1.ffn_up.weight'");
  Model fresh = random_model(spec, *device, 3);
  fresh.params->write(name, w);
  expect_contains(message_of([&] { adapt(fresh, kDora); }), "row 2 of 'blk.1.ffn_up.weight' is all zeros");
}

TEST(Lora, MergedIsUnmerged) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  Model model = random_model(testing::odd_spec(true), *device, 3),
        merged = random_model(testing::odd_spec(true), *device, 3);
  adapt(model, {.rank = 4});
  randomize(model, *device);
  save_adapter(model, 0, folder.path("a.gguf"));
  const double before = loss_of(*device, merged), with = loss_of(*device, model);
  load_adapter(merged, folder.path("a.gguf")), load_adapter(merged, folder.path("a.gguf"), -0.5);
  load_adapter(merged, folder.path("a.gguf"), 0.5);
  merge_adapters(merged);
  EXPECT_TRUE(merged.spec.adapters.empty());
  // Rounding of weights, and of sums in another order: about 2^-24 of each of some hundred terms.
  EXPECT_NEAR(loss_of(*device, merged), with, 1e-4 * std::fabs(with));
  EXPECT_GT(std::fabs(with - before), 1e-3 * std::fabs(with));
}

}  // namespace
}  // namespace toy::lora_test
