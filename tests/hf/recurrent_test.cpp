// Folders of Mamba 2, Granite 4, Bamba, Nemotron-H, LFM2 and Kimi Linear, besides those of convert_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "hybrid_folder.h"
#include "toy/backend/devices.h"
#include "toy/formats/requantize.h"

namespace toy::recurrent_test {
namespace {

using nlohmann::json;
using testing::Hybrid;
using testing::read_tensors;
using testing::take;
using testing::Tensor;
using testing::write_tensors;

std::string made_of(const json& size, const testing::Folder& folder, const char* name) {
  const auto device = make_cpu_device(2);
  save_model(random_model(spec_from_json(size, "test"), *device, 3, 2.0), folder.path(name));
  return folder.path(name);
}

// ---- configs that say the same in other words

TEST(HfRecurrent, WordsOfOlderGranites) {
  Hybrid h("granitehybrid");
  h.config["layer_types"] = {"mamba", "attention", "mamba"};
  h.config["mamba_d_head"] = "auto";
  h.config["position_embedding_type"] = "nope";
  h.config.erase("time_step_limit");
  EXPECT_TRUE(h.bytes() == h.want);
}

TEST(HfRecurrent, ThePatternOfNemotron) {
  for (const auto& [family, pattern] : {std::pair("nemotron_h", "M-*M"), std::pair("nemotron_h_moe", "ME*M")}) {
    Hybrid h(family);
    h.config["hybrid_override_pattern"] = pattern, h.config["num_hidden_layers"] = 4;
    EXPECT_TRUE(h.bytes() == h.want) << family;
    h.config.erase("layers_block_type");
    h.config["attention_head_dim"] = h.config["head_dim"], h.config.erase("head_dim");
    EXPECT_TRUE(h.bytes() == h.want) << family;
  }
}

TEST(HfRecurrent, TheLimitOfStepsIsNamedOnce) {
  Hybrid h("nemotron_h");
  const auto limits = [&] {
    h.bytes();
    return std::count_if(h.done.warnings.begin(), h.done.warnings.end(),
                         [](const std::string& w) { return w.find("'time_step_min', 0.001") != w.npos; });
  };
  EXPECT_EQ(limits(), 0);
  h.config.erase("time_step_min");  // the class's own
  EXPECT_EQ(limits(), 1);
}

TEST(HfRecurrent, WordsOfPublishedLfm2s) {
  Hybrid h("lfm2");
  h.config.erase("layer_types"), h.config["full_attn_idxs"] = {1};
  h.config.erase("tie_word_embeddings"), h.config["tie_embedding"] = true;
  h.config["block_ff_dim"] = 80, h.config["intermediate_size"] = 7;
  h.config["block_auto_adjust_ff_dim"] = true, h.config["block_multiple_of"] = 8;
  EXPECT_TRUE(h.bytes() == h.want);  // 80 * 2 / 3 = 53, and 56 is a multiple of 8
  h.config["block_ff_dim"] = 84, h.config["block_ffn_dim_multiplier"] = nullptr;
  EXPECT_TRUE(h.bytes() == h.want);
  h.config["block_ff_dim"] = 46, h.config["block_ffn_dim_multiplier"] = 1.7;
  EXPECT_TRUE(h.bytes() == h.want);  // 30 * 1.7 = 51
}

TEST(HfRecurrent, WordsOfThePublishedKimi) {
  Hybrid h("kimi_linear");
  for (const char* key :
       {"layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim"})
    h.config.erase(key);
  h.config["linear_attn_config"] = {{"full_attn_layers", {2}},
                                    {"kda_layers", {1, 3}},
                                    {"head_dim", 8},
                                    {"num_heads", 4},
                                    {"short_conv_kernel_size", 4}};
  h.config["first_k_dense_replace"] = 1;
  EXPECT_TRUE(h.bytes() == h.want);
  h.config["max_position_embeddings"] = h.config["model_max_length"], h.config.erase("model_max_length");
  testing::change_tensors(h.folder, [](std::string n) {  // as transformers saves it
    const size_t at = n.find(".mlp.");
    return at == n.npos ? n : n.replace(at, 5, ".block_sparse_moe.");
  });
  EXPECT_TRUE(h.bytes() == h.want);
}

// As Python writes it, which is not JSON.
TEST(HfRecurrent, InfinityMayBeAWord) {
  Hybrid h("mamba2");
  h.config["time_step_limit"] = {0.0, "WORD"};
  h.config["note"] = R"(not a word: "Infinity", NaN\)";
  for (const auto& [word, fact] : {std::pair("Infinity", ""), std::pair("-Infinity", "-Infinity"),
                                   std::pair("NaN", "NaN"), std::pair("0.1", "[0.0,0.1]")}) {
    std::string text = h.config.dump();
    text.replace(text.find("\"WORD\""), 6, word);
    testing::write_text(h.folder + "/config.json", text);
    if (fact[0] == 0) {
      EXPECT_TRUE(testing::slurp(h.convert()) == h.want);
    } else {
      const std::string error = testing::message_of([&] { h.convert(); });
      testing::expect_contains(error, "'time_step_limit'");
      testing::expect_contains(error, fact);
    }
  }
}

// ---- classes whose files are another family's

TEST(HfRecurrent, AGraniteWithoutMambaIsAGranite) {
  Hybrid h("granite");
  std::map<std::string, Tensor> tensors = read_tensors(h.folder);
  for (int layer = 0; layer < int(h.config.at("num_hidden_layers")); ++layer) {
    const std::string start = "model.layers." + std::to_string(layer) + ".";
    Tensor both = take(tensors, start + "mlp.gate_proj.weight");
    const Tensor up = take(tensors, start + "mlp.up_proj.weight");
    both.shape[0] += up.shape[0];
    both.values.insert(both.values.end(), up.values.begin(), up.values.end());
    tensors[start + "shared_mlp.input_linear.weight"] = both;
    tensors[start + "shared_mlp.output_linear.weight"] = take(tensors, start + "mlp.down_proj.weight");
  }
  write_tensors(h.folder, tensors);
  h.config["model_type"] = "granitemoehybrid", h.config["num_local_experts"] = 0;
  h.config["shared_intermediate_size"] = h.config["intermediate_size"], h.config["intermediate_size"] = 7;
  h.config["layer_types"] = std::vector<std::string>(h.config.at("num_hidden_layers"), "attention");
  h.config["position_embedding_type"] = "rope";
  EXPECT_TRUE(h.bytes() == h.want);
}

json bamba_size() {
  return {{"architecture", "granitehybrid"},
          {"d_model", 64},
          {"n_layers", 4},
          {"n_heads", 4},
          {"n_kv", 2},
          {"d_head", 16},
          {"d_ff", 96},
          {"vocab", 50},
          {"context", 100},
          {"mamba2_heads", 8},
          {"mamba2_width", 16},
          {"mamba2_state", 12},
          {"mamba2_groups", 2},
          {"rope", "global"},
          {"rope_dims", 8}};
}

// Half of each head turns: only those rows are in another order.
TEST(HfRecurrent, BambaThereAndBack) {
  const testing::Folder folder;
  const std::string gguf = made_of(bamba_size(), folder, "model.gguf"), hf = folder.path("hf");
  hf::convert_gguf(gguf::File::open(gguf), hf);
  const json config = testing::read_json_file(hf + "/config.json");
  EXPECT_EQ(config.at("model_type"), "bamba");
  EXPECT_EQ(config.at("attn_layer_indices"), json::array({3}));
  EXPECT_EQ(config.at("partial_rotary_factor"), 0.5);
  const gguf::File want = gguf::File::open(gguf);
  const Tensor q = read_tensors(hf).at("model.layers.3.self_attn.q_proj.weight");
  const auto* rows = reinterpret_cast<const float*>(want.require("blk.3.attn_q.weight").data);
  const int64_t from[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t row = 0; row < 64; ++row)
    EXPECT_EQ(rows[row * 64], q.values[size_t(row / 16 * 16 + from[row % 16]) * 64]) << row;
  hf::convert_folder(hf, folder.path("again.gguf"));
  const gguf::File got = gguf::File::open(folder.path("again.gguf"));
  for (const gguf::TensorInfo& t : want.tensors()) {
    const gguf::TensorInfo& other = got.require(t.name);
    ASSERT_EQ(t.shape, other.shape) << t.name;
    const bool rounds = t.name.ends_with("ssm_a");
    EXPECT_TRUE(rounds || std::memcmp(t.data, other.data, t.bytes) == 0) << t.name;
  }
  ModelSpec a = spec_from_gguf(want), b = spec_from_gguf(got);
  b.name = a.name;
  EXPECT_TRUE(a == b);
}

TEST(HfRecurrent, WhatBambaCannotState) {
  const testing::Folder folder;
  json size = bamba_size();
  size["rope_dims"] = 4;
  const gguf::File file = gguf::File::open(made_of(size, folder, "model.gguf"));
  testing::expect_contains(testing::message_of([&] { hf::convert_gguf(file, folder.path("hf")); }),
                           "'partial_rotary_factor' is 0.25; only 0.5");
}

// ---- what is refused

TEST(HfRecurrent, ConfigsThatContradictThemselvesOrThatAGgufCannotState) {
  const json linear = {{"full_attn_layers", {2}}, {"kda_layers", {1, 3}}};
  const auto with = [&](const char* key, const json& value) {
    json changed = linear;
    changed[key] = value;
    return changed;
  };
  struct Case {
    const char *family, *key;
    json value;
    std::vector<std::string> facts;
  };
  const std::vector<Case> cases{
      {"mamba2", "expand", 3, {"'expand' 3", "6 heads of width 20"}},
      {"mamba2", "head_dim", 10, {"'expand' 2", "6 heads of width 10"}},
      {"mamba2", "num_heads", 0, {"'num_heads' is 0"}},
      {"mamba2", "conv_kernel", 0, {"'conv_kernel' 0"}},
      {"mamba2", "conv_kernel", 3, {"conv1d.weight' is [168,1,4]", "asks for [168,1,3]"}},
      {"mamba2", "n_groups", 4, {"mamba2_heads 6", "mamba2_groups 4"}},
      {"mamba2", "use_conv_bias", false, {"'use_conv_bias' is false"}},
      {"mamba2", "use_bias", true, {"'use_bias' is true"}},
      {"mamba2", "time_step_limit", {0.1, 5}, {"'time_step_limit' is [0.1,5]"}},
      {"granitehybrid", "layer_types", {"mamba", "mamba", "mamba"}, {"0 layers of attention"}},
      {"granitehybrid", "layer_types", {"mamba", "conv", "mamba"}, {"\"conv\"", "linear_attention"}},
      {"granitehybrid", "layer_types", {"mamba"}, {"list of 3 names"}},
      {"granitehybrid", "mamba_d_head", 10, {"'mamba_expand' 2", "6 heads of width 10"}},
      {"granitehybrid", "mamba_conv_bias", false, {"'mamba_conv_bias' is false"}},
      {"granitehybrid", "attention_bias", true, {"'attention_bias' is true"}},
      {"granitehybrid", "position_embedding_type", "alibi", {"'alibi'", "rope"}},
      {"nemotron_h",
       "hybrid_override_pattern",
       "MM*-",
       {"'layers_block_type'", "'hybrid_override_pattern'", "layer 1"}},
      {"nemotron_h", "hybrid_override_pattern", "M-*X", {"'M-*X'", "M, *, -, E"}},
      {"nemotron_h", "num_hidden_layers", 5, {"'num_hidden_layers' is 5", "4"}},
      {"nemotron_h", "mlp_hidden_act", "silu", {"'mlp_hidden_act' is \"silu\"", "relu2"}},
      {"nemotron_h", "attention_bias", true, {"'attention_bias' is true"}},
      {"nemotron_h", "sliding_window", 4096, {"'sliding_window' is 4096"}},
      {"nemotron_h_moe", "layers_block_type", {"mamba", "moe", "attention", "mlp"}, {"some experts"}},
      {"nemotron_h_moe", "n_group", 2, {"'n_group' is 2"}},
      {"nemotron_h_moe", "moe_latent_size", nullptr, {"mixer.experts.0.up_proj.weight' is [24,30]", "[24,60]"}},
      {"lfm2", "full_attn_idxs", {0}, {"'layer_types'", "'full_attn_idxs'", "layer 0"}},
      {"lfm2", "full_attn_idxs", {3}, {"'full_attn_idxs' has 3", "3 layers"}},
      {"lfm2", "conv_bias", true, {"'conv_bias' is true"}},
      {"lfm2", "conv_L_cache", 4, {"conv.conv.weight' is [60,1,3]", "[60,1,4]"}},
      {"lfm2", "block_auto_adjust_ff_dim", true, {"feed_forward.w1.weight' is [56,60]", "[256,60]"}},
      {"lfm2", "head_dim", 20, {"6 heads of width 20", "60"}},
      {"lfm2moe", "num_dense_layers", 3, {"'num_dense_layers' is 3 of 3"}},
      {"lfm2moe", "norm_topk_prob", false, {"'norm_topk_prob' is false"}},
      {"lfm2moe", "routed_scaling_factor", 2.5, {"'routed_scaling_factor' is 2.5"}},
      {"lfm2moe", "use_expert_bias", false, {"'use_expert_bias' is false"}},
      {"kimi_linear", "linear_attn_config", with("kda_layers", {1}), {"layer 3 is in neither"}},
      {"kimi_linear", "linear_attn_config", with("kda_layers", {1, 2, 3}), {"'kda_layers' has 2"}},
      {"kimi_linear", "linear_attn_config", with("kda_layers", {1, 4}), {"'kda_layers' has 4"}},
      {"kimi_linear", "linear_attn_config", {{"full_attn_layers", {1}}, {"kda_layers", {2, 3}}}, {"from layer 0"}},
      {"kimi_linear", "linear_attn_config", with("head_dim", 16), {"'linear_head_dim' is 8", "16"}},
      {"kimi_linear", "linear_num_heads", 2, {"'num_attention_heads' is 4", "2 heads"}},
      {"kimi_linear", "num_key_value_heads", 2, {"'num_key_value_heads' is 2"}},
      {"kimi_linear", "mlp_layer_types", {"sparse", "dense", "sparse"}, {"dense layers, and then sparse"}},
      {"kimi_linear", "first_k_dense_replace", 2, {"'first_k_dense_replace' is 2", "1 dense"}},
      {"kimi_linear", "num_local_experts", 8, {"'num_experts' is 7", "'num_local_experts' 8"}},
      {"kimi_linear", "q_lora_rank", 8, {"'q_lora_rank'"}},
      {"kimi_linear", "mla_use_nope", false, {"'mla_use_nope' is false"}},
      {"kimi_linear", "qk_nope_head_dim", 8, {"q_proj.weight' is [64,60]", "[48,60]"}},
      {"kimi_linear", "moe_router_activation_func", "softmax", {"\"softmax\"", "sigmoid"}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.family) + " " + c.key + " " + c.value.dump());
    Hybrid h(c.family);
    h.config[c.key] = c.value;
    const std::string text = h.error();
    for (const std::string& fact : c.facts) testing::expect_contains(text, fact);
  }
}

// ---- quantized weights

// transformers ignores tie_word_embeddings of Nemotron-H: the output is always a tensor, or random.
TEST(HfRecurrent, ATiedNemotronHasItsOutputTwice) {
  const auto device = make_cpu_device(1);
  const testing::Folder folder;
  folder.write("size.json", R"({"architecture": "nemotron_h", "n_layers": 3, "n_kv": 1, "d_model": 32, "n_heads": 2,)"
                            R"("d_head": 16, "d_ff": 0, "mamba2_heads": 4, "mamba2_width": 16, "mamba2_state": 8,)"
                            R"x("mamba2_groups": 2, "tied": true, "layers": "mamba2,ffn(d_ff=48),attn"})x");
  const Model model = random_model(model_spec(folder.path("size.json"), 90), *device, 3);
  ASSERT_TRUE(model.spec.tied);
  const std::string base = folder.path("base.gguf"), hf = folder.path("hf"), again = folder.path("again.gguf");
  save_model(model, base);
  hf::convert_gguf(gguf::File::open(base), hf, {.tokenizer = false});
  EXPECT_EQ(testing::read_json_file(hf + "/config.json").at("tie_word_embeddings"), false);
  auto tensors = testing::read_tensors(hf);
  EXPECT_EQ(tensors.at("lm_head.weight").values, tensors.at("backbone.embeddings.weight").values);
  EXPECT_EQ(tensors.at("lm_head.weight").values, model.params->read("token_embd.weight"));

  // A config that says otherwise changes nothing, unless there is no output.
  nlohmann::json config = testing::read_json_file(hf + "/config.json");
  config["tie_word_embeddings"] = true;
  testing::write_text(hf + "/config.json", config.dump());
  hf::convert_folder(hf, again, {.tokenizer = false});
  const Model untied = load_model(again, *device);
  EXPECT_FALSE(untied.spec.tied);
  EXPECT_EQ(untied.params->read("output.weight"), model.params->read("token_embd.weight"));
  testing::change_tensors(hf, [](const std::string& name) { return name == "lm_head.weight" ? "" : name; });
  hf::convert_folder(hf, again, {.tokenizer = false});
  EXPECT_TRUE(load_model(again, *device).spec.tied);
}

// Also keys of a latent and all of GPT-2, whose columns become rows.
TEST(HfRecurrent, QuantizedWeightsKeepTheirValues) {
  const json kimi = {{"architecture", "kimi-linear"},
                     {"d_model", 64},
                     {"n_layers", 4},
                     {"n_heads", 2},
                     {"d_ff", 96},
                     {"vocab", 50},
                     {"context", 100},
                     {"delta_value_heads", 2},
                     {"delta_width", 32},
                     {"latent_width", 64},
                     {"latent_key", 32},
                     {"latent_shared_key", 16},
                     {"latent_value", 32},
                     {"experts", 3},
                     {"experts_used", 2},
                     {"shared_d_ff", 96}};
  const json gpt2 = {{"architecture", "gpt2"}, {"d_model", 64}, {"n_layers", 1},
                     {"n_heads", 2},           {"d_ff", 96},    {"vocab", 50},
                     {"context", 32}};
  for (const auto& [size, quantized] :
       {std::pair(kimi, "blk.3.attn_k_b.weight"), std::pair(gpt2, "blk.0.attn_qkv.weight")}) {
    const testing::Folder folder;
    gguf::requantize(gguf::File::open(made_of(size, folder, "model.gguf")), folder.path("blocks.gguf"),
                     {.mix = "Q8_0"});
    gguf::requantize(gguf::File::open(folder.path("blocks.gguf")), folder.path("floats.gguf"), {.mix = "F32"});
    ASSERT_EQ(*gguf::File::open(folder.path("blocks.gguf")).require(quantized).dtype, DType::q8_0);
    for (const char* name : {"blocks", "floats"})
      hf::convert_gguf(gguf::File::open(folder.path(std::string(name) + ".gguf")), folder.path(name),
                       {.type = DType::f32});
    EXPECT_TRUE(testing::slurp(folder.path("blocks/model.safetensors")) ==
                testing::slurp(folder.path("floats/model.safetensors")));
  }
}

}  // namespace
}  // namespace toy::recurrent_test
