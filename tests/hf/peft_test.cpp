// Adapters of PEFT: the one that tests/golden/make_lora_golden.py trained, and where rows and columns of every family
// are.
#include "toy/hf/peft.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/files.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/tensor/convert.h"

namespace toy::peft_test {
namespace {

using testing::expect_contains;
using testing::message_of;

const std::string kGolden = TOY_SOURCE_DIR "/tests/golden/";

std::vector<float> floats(const View& v) {
  std::vector<float> out(size_t(v.count()));
  convert(v, View(out.data(), DType::f32, v.shape));
  return out;
}

// What PEFT has of a tensor in the end; of PiSSA with what it subtracts.
std::vector<float> trained(const gguf::File& golden, const std::string& name) {
  const auto read = [&](const char* when) {
    const gguf::TensorInfo& t = golden.require(when + name);
    const auto* v = reinterpret_cast<const float*>(t.data);
    return std::vector<float>(v, v + t.shape.count());
  };
  const std::vector<float> end = read("end.");
  if (golden.get_u32("pissa", 0) == 0) return end;
  const std::vector<float> start = read("start.");
  const bool is_b = name.ends_with(".lora_b");
  const size_t row = is_b ? golden.get_u32("rank") : end.size();
  std::vector<float> both;
  for (size_t at = 0; at < end.size(); at += row)
    for (const auto* part : {&end, &start})
      for (size_t i = at; i < at + row; ++i) both.push_back((*part)[i] * (part == &start && is_b ? -1.0f : 1.0f));
  return both;
}

class PeftGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftGolden, ReadsWhatPeftWrote) {
  const std::string kind = GetParam();
  const auto device = make_cpu_device(1);
  Model model = load_model(kGolden + "llama_bias.model.gguf", *device);
  const std::string of_peft = kGolden + (kind == "llama" ? "lora_peft" : "lora_" + kind + "_peft");
  hf::load_peft(model, of_peft);
  const gguf::File golden = gguf::File::open(kGolden + "lora_" + kind + ".golden.gguf");
  size_t compared = 0, ends = 0;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter < 0 || t.name.ends_with(".lora_n")) continue;
    EXPECT_EQ(model.params->read(t.name), trained(golden, t.name)) << t.name;
    ++compared;
  }
  for (const gguf::TensorInfo& t : golden.tensors()) ends += t.name.starts_with("end.");
  EXPECT_EQ(compared, ends);
  if (kind != "plus") {
    for (const auto& [weight, map] : model.spec.adapters[0].maps) EXPECT_EQ(map.scale, 2) << weight;
  }

  // PEFT's logits with it: f32 sums here, f64 there.
  const auto* inputs = reinterpret_cast<const int32_t*>(golden.require("inputs").data);
  const int64_t tokens = golden.get_u32("tokens"),
                last = (int64_t(golden.get_u32("steps")) - 1) * golden.get_u32("batch") * tokens;
  const auto* want = reinterpret_cast<const float*>(golden.require("logits").data);
  Decoder decoder(*device, model, {.exact = true});
  for (int64_t i = 0; i < tokens; ++i) {
    decoder.decode(std::vector<DecodeRow>{{0, inputs[last + i], true}});
    const std::span<const float> logits = decoder.logits(0);
    for (size_t v = 0; v < logits.size(); ++v)
      ASSERT_NEAR(logits[v], want[size_t(i) * logits.size() + v], 2e-5) << kind << " " << i << " " << v;
  }

  // And back: the same tensors.
  const testing::Folder folder;
  hf::save_peft(model, 0, folder.path("peft"));
  const auto before = safetensors::File::open(of_peft + "/adapter_model.safetensors"),
             after = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
  size_t bases = 0;  // which PEFT writes beside adapters of output and embeddings
  for (const auto& [name, view] : before.tensors()) bases += name.ends_with(".base_layer.weight");
  ASSERT_EQ(after.tensors().size() + bases, before.tensors().size());
  for (const auto& [name, view] : before.tensors()) {
    if (name.ends_with(".base_layer.weight")) continue;
    ASSERT_TRUE(after.tensors().contains(name)) << name;
    EXPECT_EQ(after.tensors().find(name)->second.shape, view.shape) << name;
    EXPECT_EQ(floats(after.tensors().find(name)->second), floats(view)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PeftGolden, ::testing::Values("llama", "plus", "dora", "pissa", "output"),
                         [](const auto& of) { return std::string(of.param); });

// Adapters of experts, as parameters (one after the other, and in turns) and as modules: PEFT's logits, in f64 there.
TEST(Peft, ReadsExperts) {
  const auto device = make_cpu_device(1);
  for (const auto& [name, family, maps] : {std::tuple("mixtral", "mixtral", 4), std::tuple("gpt_oss", "gpt_oss", 2),
                                           std::tuple("mixtral_modules", "mixtral", 3)}) {
    Model model = load_model(testing::GoldenFamily(family).write(), *device);
    hf::load_peft(model, kGolden + "lora_experts_" + name + "_peft");
    EXPECT_EQ(model.spec.adapters[0].maps.size(), model.spec.layers.size() * size_t(maps)) << name;
    const gguf::File golden = gguf::File::open(kGolden + "lora_experts_" + name + ".golden.gguf");
    const gguf::TensorInfo& ids = golden.require("ids");
    const auto* want = reinterpret_cast<const float*>(golden.require("logits").data);
    Decoder decoder(*device, model, {.exact = true});
    for (int64_t i = 0; i < ids.shape.count(); ++i) {
      decoder.decode(std::vector<DecodeRow>{{0, reinterpret_cast<const int32_t*>(ids.data)[i], true}});
      for (const float logit : decoder.logits(0)) ASSERT_NEAR(logit, *want++, 2e-5) << name;
    }
  }
}

// What an adapter adds to a folder's weights is B A of its PEFT files, in the folder's order of rows and columns.
TEST(Peft, AddsToTheFoldersWeights) {
  const auto device = make_cpu_device(1);
  const testing::Folder sizes;
  sizes.write("bamba.json",  // half of a head turns
              R"({"architecture": "granitehybrid", "d_model": 32, "n_layers": 4, "n_heads": 2, "n_kv": 1, "d_ff": 48,)"
              R"("context": 64, "mamba2_heads": 4, "mamba2_width": 16, "mamba2_state": 8, "mamba2_groups": 2,)"
              R"("rope": "global", "rope_dims": 8})");
  for (const std::string& size : {std::string("tiny"), std::string("hybrid-tiny"), sizes.path("bamba.json")}) {
    const testing::Folder folder;
    Model model = random_model(model_spec(size, 256), *device, 3);
    save_model(model, folder.path("base.gguf"));
    model.spec.adapters = {lora_adapter(model.spec, {.rank = 2, .alpha = 3})};
    add_adapter_weights(model, 1);
    for (const auto& [name, map] : model.spec.adapters[0].maps) {
      std::vector<float> b = model.params->read(name + ".lora_b");
      const Philox random(4, name);
      for (size_t i = 0; i < b.size(); ++i) b[i] = float(random.normal(i));
      model.params->write(name + ".lora_b", b);
    }
    hf::save_peft(model, 0, folder.path("peft"));
    Model again = load_model(folder.path("base.gguf"), *device);
    hf::load_peft(again, folder.path("peft"));
    EXPECT_EQ(again.spec.adapters, model.spec.adapters) << size;
    for (const TensorSpec& t : tensors_of(model.spec))
      if (t.adapter == 0) {
        EXPECT_EQ(again.params->read(t.name), model.params->read(t.name)) << t.name;
      }
    merge_adapters(model);
    save_model(model, folder.path("merged.gguf"));
    for (const char* name : {"base", "merged"})
      hf::convert_gguf(gguf::File::open(folder.path(name + std::string(".gguf"))), folder.path(name),
                       {.type = DType::f32, .tokenizer = false});
    const auto base = safetensors::File::open(folder.path("base/model.safetensors")),
               merged = safetensors::File::open(folder.path("merged/model.safetensors")),
               peft = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
    size_t maps = 0;
    for (const auto& [name, view] : base.tensors()) {
      std::string stem = name.substr(0, name.rfind('.'));
      const auto a = peft.tensors().find("base_model.model." + stem + ".lora_A.weight"),
                 b = peft.tensors().find("base_model.model." + stem + ".lora_B.weight");
      const std::vector<float> before = floats(view), after = floats(merged.tensors().find(name)->second);
      if (a == peft.tensors().end()) {
        EXPECT_EQ(after, before) << name;
        continue;
      }
      ++maps;
      const std::vector<float> fa = floats(a->second), fb = floats(b->second);
      const int64_t rows = view.shape[0], columns = view.shape[1];
      for (int64_t o = 0; o < rows; ++o)
        for (int64_t i = 0; i < columns; ++i) {
          double added = 0;
          for (int64_t r = 0; r < 2; ++r) added += double(fb[size_t(o * 2 + r)]) * double(fa[size_t(r * columns + i)]);
          const size_t at = size_t(o * columns + i);
          ASSERT_NEAR(after[at], double(before[at]) + 1.5 * added, 1e-5) << name << " " << o << " " << i;
        }
    }
    EXPECT_EQ(maps, peft.tensors().size() / 2) << size;
    EXPECT_GT(maps, 0u);
  }
}

constexpr const char* kDense = R"("d_model": 32, "n_heads": 2, "d_head": 16, "context": 64)";

Model adapted_model(const testing::Folder& folder, const std::string& sizes, const LoraOptions& options,
                    const Device& device) {
  folder.write("size.json", "{" + sizes + ", " + kDense + "}");
  Model model = random_model(model_spec(folder.path("size.json"), 256), device, 3);
  model.spec.adapters = {lora_adapter(model.spec, options)};
  add_adapter_weights(model, 1);
  for (const auto& [name, map] : model.spec.adapters[0].maps) {
    std::vector<float> b = model.params->read(name + ".lora_b");
    const Philox random(4, name);
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(random.normal(i));
    model.params->write(name + ".lora_b", b);
  }
  return model;
}

constexpr const char* kMamba =
    R"("mamba2_heads": 4, "mamba2_width": 16, "mamba2_state": 8, "mamba2_groups": 2, "d_ff": 0)";

// A module may hold the rows of several weights, whose adapters are then one, and be called otherwise than its tensors.
TEST(Peft, ModulesAsTransformersLoadsThem) {
  const auto device = make_cpu_device(1);
  const std::string nemotron = fmt::format(
      R"x("architecture": "nemotron_h", "n_layers": 3, "n_kv": 1, {}, "layers": "mamba2,ffn(d_ff=48),attn")x", kMamba);
  const std::string kimi =
      R"("architecture": "kimi-linear", "n_layers": 2, "tied": false, "delta_value_heads": 2, "delta_width": 8,)"
      R"("latent_width": 18, "latent_key": 12, "latent_shared_key": 4, "latent_value": 10,)"
      R"x("d_ff": 48, "experts": 4, "experts_used": 2, "shared_d_ff": 48, "layers": "kda(experts=0,experts_used=0,shared_d_ff=0),mla")x";
  struct Case {
    std::string sizes;
    std::vector<std::string> targets;
    std::string module;
    int64_t rank;
  };
  for (const auto& [sizes, targets, module, rank] :
       std::vector<Case>{{R"("architecture": "phi3", "n_layers": 2, "n_kv": 1, "d_ff": 48)",
                          {"all-linear", "attn_q=3:5"},
                          "model.layers.1.self_attn.qkv_proj",
                          7},
                         {R"("architecture": "phi3", "n_layers": 2, "n_kv": 1, "d_ff": 48)",
                          {"ffn_up"},
                          "model.layers.0.mlp.gate_up_proj",
                          2},
                         {R"("architecture": "gpt2", "n_layers": 2, "d_ff": 48)",
                          {"attn_[qv]", "ffn_*"},
                          "transformer.h.0.attn.c_attn",
                          4},
                         {nemotron, {"ssm_in", "ffn_up"}, "model.layers.0.mixer.in_proj", 2},
                         {kimi, {"ssm_*", "attn_*"}, "model.layers.0.self_attn.forget_gate.f_a_proj", 2}}) {
    const testing::Folder folder;
    Model model = adapted_model(folder, sizes, {.rank = 2, .alpha = 3, .targets = targets}, *device);
    hf::save_peft(model, 0, folder.path("peft"));
    const auto peft = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
    const auto a = peft.tensors().find("base_model.model." + module + ".lora_A.weight");
    ASSERT_NE(a, peft.tensors().end()) << module;
    EXPECT_EQ(a->second.shape, (Shape{rank, 32})) << module;
    Model again = random_model(model_spec(folder.path("size.json"), 256), *device, 3);
    hf::load_peft(again, folder.path("peft"));
    merge_adapters(model), merge_adapters(again);
    for (const TensorSpec& t : tensors_of(model.spec)) {
      const std::vector<float> one = model.params->read(t.name), other = again.params->read(t.name);
      for (size_t i = 0; i < one.size(); ++i)
        ASSERT_NEAR(one[i], other[i], 1e-6 * (1 + std::fabs(one[i]))) << t.name << " " << i;
    }
  }
}

TEST(Peft, WhatPeftCannotHaveOrMistakes) {
  const auto device = make_cpu_device(1);
  const auto refused = [&](const std::string& sizes, const std::vector<std::string>& targets) {
    const testing::Folder folder;
    const Model model = adapted_model(folder, sizes, {.rank = 2, .alpha = 3, .targets = targets}, *device);
    return message_of([&] { hf::save_peft(model, 0, folder.path("peft")); });
  };
  expect_contains(refused(fmt::format(R"("architecture": "mamba2", "n_layers": 1, {})", kMamba), {"all-linear"}),
                  "PEFT has no adapter of 'blk.0.ssm_out.weight' (backbone.layers.0.mixer.out_proj)");
  // PEFT takes modules of this name for experts, unless they are parameters, which have no magnitudes.
  const std::string next =
      R"x("architecture": "qwen3next", "n_layers": 2, "layers": "gdn,attn", "d_ff": 48, "experts": 4, )x"
      R"("experts_used": 2, "shared_d_ff": 24, "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 8)";
  const testing::Folder folder;
  const auto shared = [&](bool dora) {
    return adapted_model(folder, next, {.rank = 2, .dora = dora, .targets = {"ffn_up_shexp"}}, *device);
  };
  hf::save_peft(shared(false), 0, folder.path("peft"));
  expect_contains(testing::slurp(folder.path("peft/adapter_config.json")),
                  R"("model.layers.1.mlp.shared_expert.up_proj.weight")");
  Model again = shared(false);
  hf::load_peft(again, folder.path("peft"));
  EXPECT_EQ(again.spec.adapters[1].maps, again.spec.adapters[0].maps);
  expect_contains(message_of([&] { hf::save_peft(shared(true), 0, folder.path("dora")); }),
                  "PEFT has no DoRA of 'blk.0.ffn_up_shexp.weight'");
}

// The experts of a layer are two parameters of a module in transformers, and PEFT wraps the last one outermost: its
// tensors are a [E R,I] and b [O,R E].
TEST(Peft, ExpertsAreParameters) {
  const auto device = make_cpu_device(1);
  const std::string experts = R"("n_layers": 2, "d_ff": 48, "experts": 4, "experts_used": 2)";
  const std::string nemotron =
      fmt::format(R"("architecture": "nemotron_h_moe", "n_layers": 3, "n_kv": 1, {}, "experts_latent": 24, "layers": )"
                  R"x("mamba2,ffn(d_ff=40,experts=4,experts_used=2,shared_d_ff=20),attn")x",
                  kMamba);
  struct Case {
    std::string sizes;
    std::vector<std::string> targets;
    std::string module;
    std::vector<std::string> parameters;
    Shape inner, outer;  // b of the two, where there are two
  };
  for (const auto& [sizes, targets, module, parameters, inner, outer] : std::vector<Case>{
           {R"("architecture": "llama", )" + experts,
            {"all-linear", "ffn_up_exps=3:5"},
            "model.layers.1.mlp.experts",
            {"gate_up_proj", "down_proj"},
            {96, 4 * 5},
            {32, 4 * 2}},
           {R"("architecture": "gpt-oss", "window": 32, )" + experts,
            {"ffn_*_exps"},
            "model.layers.0.mlp.experts",
            {"gate_up_proj", "down_proj"},
            {96, 4 * 4},
            {32, 4 * 2}},
           {R"("architecture": "gpt-oss", "window": 32, )" + experts,
            {"ffn_up_exps"},
            "model.layers.0.mlp.experts",
            {"gate_up_proj"},
            {},
            {96, 4 * 2}},
           {R"("architecture": "granitemoe", )" + experts,
            {"ffn_down_exps"},
            "model.layers.0.block_sparse_moe.experts",
            {"down_proj"},
            {},
            {32, 4 * 2}},
           {nemotron, {"ffn_*_exps"}, "model.layers.1.mixer.experts", {"up_proj", "down_proj"}, {40, 8}, {24, 8}}}) {
    const testing::Folder folder;
    Model model = adapted_model(folder, sizes, {.rank = 2, .alpha = 3, .dropout = 0.1, .targets = targets}, *device);
    hf::save_peft(model, 0, folder.path("peft"));
    const auto peft = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
    const std::string stem = "base_model.model." + module;
    const auto b = peft.tensors().find(stem + ".lora_B.weight");
    ASSERT_NE(b, peft.tensors().end()) << module;
    EXPECT_EQ(b->second.shape, outer) << module;
    const auto b_of_inner = peft.tensors().find(stem + ".base_layer.lora_B.weight");
    ASSERT_EQ(b_of_inner != peft.tensors().end(), inner.rank() > 0) << module;
    if (inner.rank() > 0) {
      EXPECT_EQ(b_of_inner->second.shape, inner) << module;
    }
    const std::string config = testing::slurp(folder.path("peft/adapter_config.json"));
    for (const std::string& p : parameters) expect_contains(config, "\"" + module + "." + p + "\"");
    expect_contains(config, R"("lora_dropout": 0.0)");  // PEFT refuses another one for parameters
    Model again = random_model(model_spec(folder.path("size.json"), 256), *device, 3);
    hf::load_peft(again, folder.path("peft"));
    merge_adapters(model), merge_adapters(again);
    for (const TensorSpec& t : tensors_of(model.spec)) {
      const std::vector<float> one = model.params->read(t.name), other = again.params->read(t.name);
      for (size_t i = 0; i < one.size(); ++i)
        ASSERT_NEAR(one[i], other[i], 1e-6 * (1 + std::fabs(one[i]))) << t.name << " " << i;
    }
  }
}

// Rank and alpha of each map: alpha_pattern, by names that end like a module's.
TEST(Peft, KeepsRanksAndAlphas) {
  const auto device = make_cpu_device(1);
  const testing::Folder folder;
  Model model = random_model(model_spec("tiny", 256), *device, 3);
  model.spec.adapters = {
      lora_adapter(model.spec, {.rank = 4, .alpha = 8, .targets = {"all-linear", "attn_q=2:6", "blk.1.ffn_up=3"}})};
  add_adapter_weights(model, 1);
  hf::save_peft(model, 0, folder.path("peft"));
  Model again = random_model(model_spec("tiny", 256), *device, 3);
  hf::load_peft(again, folder.path("peft"));
  EXPECT_EQ(again.spec.adapters[0].maps, model.spec.adapters[0].maps);

  std::string config = testing::slurp(folder.path("peft/adapter_config.json"));
  const size_t from = config.find("\"alpha_pattern\""), to = config.find('}', from);
  ASSERT_NE(from, std::string::npos);
  folder.write("peft/adapter_config.json", config.substr(0, from) +
                                               R"("alpha_pattern": {"q_proj": 20, "layers.0.self_attn.v_proj": 40})" +
                                               config.substr(to + 1));
  Model by_name = random_model(model_spec("tiny", 256), *device, 3);
  hf::load_peft(by_name, folder.path("peft"));
  const auto& maps = by_name.spec.adapters[0].maps;
  EXPECT_EQ(maps.at("blk.0.attn_q.weight").scale, 10);
  EXPECT_EQ(maps.at("blk.1.attn_q.weight").scale, 10);
  EXPECT_EQ(maps.at("blk.0.attn_v.weight").scale, 10);
  EXPECT_NE(maps.at("blk.1.attn_v.weight").scale, 10);
}

TEST(Peft, RefusesWhatItCannotRead) {
  const auto device = make_cpu_device(1);
  const testing::Folder folder;
  const auto with = [&](const std::string& config) {
    folder.write("peft/adapter_config.json", config);
    Model model = load_model(kGolden + "llama_bias.model.gguf", *device);
    return message_of([&] { hf::load_peft(model, folder.path("peft")); });
  };
  std::filesystem::create_directories(folder.path("peft"));
  std::filesystem::copy_file(kGolden + "lora_peft/adapter_model.safetensors",
                             folder.path("peft/adapter_model.safetensors"));
  expect_contains(with(R"({"peft_type": "IA3"})"), "only LORA is supported");
  expect_contains(with(R"({"peft_type": "LORA", "use_dora": true, "lora_alpha": 6})"), "should have magnitudes");
  expect_contains(with(R"({"peft_type": "LORA", "lora_bias": true, "lora_alpha": 6})"), "'lora_bias' is true");
  expect_contains(with(R"({"peft_type": "LORA"})"), "'lora_alpha' is null, expected a number");
  expect_contains(with("[]"), "no JSON object");
  const std::string plain = R"({"peft_type": "LORA", "lora_alpha": 6, "alpha_pattern": )";
  expect_contains(with(plain + R"({"q_proj": "x"}})"), R"('alpha_pattern' has "x" for 'q_proj')");
  expect_contains(with(plain + R"x({"(a|b)": 2}})x"), "only names of modules");
  expect_contains(with(plain + "[3]}"), "expected an object");
  expect_contains(with(R"({"peft_type": "LORA", "lora_alpha": 6, "target_parameters": "x"})"), "expected a list");
  expect_contains(with(R"({"peft_type": "LORA", "lora_alpha": 1e40})"), "is inf; give a smaller one");
  expect_contains(with(plain + R"({"v_proj": 1e300}})"), "its scale of 'blk.0.attn_v.weight' is inf");
  // The tensors have rank 3.
  const std::string ranked = R"({"peft_type": "LORA", "lora_alpha": 6, "r": )";
  for (const char* none : {"0", "-1", "9223372036854775808", "\"3\"", "3.0", "true", "[3]"})
    expect_contains(with(ranked + none + "}"), "'r' is " + std::string(none) + ", expected a whole number above 0");
  for (const char* other : {"1000000000", "2", "6"})
    expect_contains(with(ranked + other + "}"), "config says rank " + std::string(other));
  expect_contains(with(ranked + R"(3, "rank_pattern": {"q_proj": 4}})"), "config says rank 4 for");
  expect_contains(with(ranked + R"(3, "rank_pattern": {"q_proj": 0}})"), "'rank_pattern' is 0");
  expect_contains(with(ranked + R"(3, "rank_pattern": 3})"), "'rank_pattern' is 3, expected an object");
  // The base is another one, or the adapter is not in use everywhere.
  expect_contains(with(R"({"peft_type": "LORA", "lora_alpha": 6, "init_lora_weights": "pissa_niter_4"})"),
                  "so PEFT changed the base");
  expect_contains(with(R"({"peft_type": "LORA", "lora_alpha": 6, "alora_invocation_tokens": [1]})"), "not supported");
  Model other = random_model(model_spec("tiny"), *device, 1);
  expect_contains(message_of([&] { hf::load_peft(other, kGolden + "lora_peft"); }), "lora_A [3,20]");

  const std::string dora = kGolden + "lora_dora_peft/";
  std::string bytes = testing::slurp(dora + "adapter_model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const nlohmann::json tensors = nlohmann::json::parse(bytes.substr(sizeof header, header));
  const std::string magnitudes = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
  const size_t at = sizeof header + header + tensors.at(magnitudes).at("data_offsets").at(0).get<size_t>();
  bytes.replace(at, 4, std::string_view("\0\0\xc0\x7f", 4));  // NaN
  folder.write("peft/adapter_model.safetensors", bytes);
  expect_contains(with(testing::slurp(dora + "adapter_config.json")), "q_proj' holds NaN");
  const std::string f8 = R"({"x.lora_A.weight": {"dtype": "F8_E4M3", "shape": [1, 8], "data_offsets": [0, 8]}})";
  const uint64_t length = f8.size();
  folder.write("peft/adapter_model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), sizeof length) + f8 + std::string(8, '\1'));
  expect_contains(with(R"({"peft_type": "LORA", "lora_alpha": 6})"), "tensor 'x.lora_A.weight' is F8_E4M3");

  const std::string experts = kGolden + "lora_experts_gpt_oss_peft/";
  std::filesystem::copy_file(experts + "adapter_model.safetensors", folder.path("peft/adapter_model.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  const auto of_experts = [&](const std::string& parameters, const char* family) {
    folder.write("peft/adapter_config.json",
                 R"({"peft_type": "LORA", "lora_alpha": 6, "target_parameters": )" + parameters + "}");
    Model model = load_model(testing::GoldenFamily(family).write(), *device);
    return message_of([&] { hf::load_peft(model, folder.path("peft")); });
  };
  expect_contains(of_experts(R"(["experts.other"])", "gpt_oss"), "'target_parameters' of its config does not say");
  expect_contains(of_experts(R"(["down_proj"])", "gpt_oss"), "'model.layers.0.mlp.experts' has lora_A");
  expect_contains(of_experts(R"(["down_proj"])", "llama"), "belongs to no linear map of this one");

  // Experts as modules: all of them, and without DoRA.
  const std::string modules = kGolden + "lora_experts_mixtral_modules_peft/";
  const auto of_modules = [&](const std::string& missing, const char* config) {
    const auto file = safetensors::File::open(modules + "adapter_model.safetensors");
    safetensors::Writer writer;
    for (const auto& [name, view] : file.tensors())
      if (name.find(missing) == name.npos) writer.add(name, view);
    writer.finish(folder.path("peft/adapter_model.safetensors"));
    folder.write("peft/adapter_config.json", config);
    Model model = load_model(testing::GoldenFamily("mixtral").write(), *device);
    return message_of([&] { hf::load_peft(model, folder.path("peft")); });
  };
  constexpr const char* kPlain = R"({"peft_type": "LORA", "lora_alpha": 6})";
  for (const char* missing : {"experts.0.w1.lora_A", "experts.0.w1.", "experts.2.w3.lora_B"})
    expect_contains(of_modules(missing, kPlain),
                    "there is no tensor 'base_model.model.model.layers.0.block_sparse_moe");
  expect_contains(of_modules("nothing", R"({"peft_type": "LORA", "lora_alpha": 6, "use_dora": true})"), "has DoRA");
}

}  // namespace
}  // namespace toy::peft_test
