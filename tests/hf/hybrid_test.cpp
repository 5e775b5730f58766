// Folders of Qwen3-Next and Qwen3.5, whose layers are Gated DeltaNet and attention, besides those of convert_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hybrid_folder.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "toy/backend/devices.h"
#include "toy/formats/requantize.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::hybrid_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Hybrid;
using testing::read_tensors;
using testing::take;
using testing::Tensor;
using testing::write_tensors;

// Published folders have one tensor for all experts of a layer.
TEST(HfHybrid, ExpertsMayBeInOneTensor) {
  for (const char* family : {"qwen35moe", "qwen3next"}) {
    Hybrid h(family);
    std::map<std::string, Tensor> tensors = read_tensors(h.folder);
    const int64_t experts = h.config.at("num_experts"), width = h.config.at("moe_intermediate_size"),
                  d = h.config.at("hidden_size");
    for (int layer = 0; layer < 3; ++layer) {
      const std::string start = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      Tensor first{{experts, 2 * width, d}, {}}, second{{experts, d, width}, {}};
      const auto append = [&](Tensor& to, int64_t expert, const char* name) {
        const Tensor part = take(tensors, start + std::to_string(expert) + "." + name + ".weight");
        to.values.insert(to.values.end(), part.values.begin(), part.values.end());
      };
      for (int64_t e = 0; e < experts; ++e) {
        append(first, e, "gate_proj"), append(first, e, "up_proj");
        append(second, e, "down_proj");
      }
      tensors[start + "gate_up_proj"] = first, tensors[start + "down_proj"] = second;
    }
    write_tensors(h.folder, tensors);
    EXPECT_TRUE(h.bytes() == h.want) << family;
  }
}

// Qwen3_5ForConditionalGeneration, with what it sees by and layers that predict further tokens.
TEST(HfHybrid, OnlyTheTextPartIsConverted) {
  Hybrid h("qwen35_r1");
  json text = h.config;
  ASSERT_EQ(text.at("tie_word_embeddings"), true);
  text.erase("tie_word_embeddings");
  h.config = {{"model_type", "qwen3_5"},
              {"tie_word_embeddings", true},
              {"text_config", text},
              {"vision_config", json::object()}};
  testing::change_tensors(
      h.folder,
      [](const std::string& n) { return n.starts_with("model.") ? "model.language_model." + n.substr(6) : n; },
      {"model.visual.patch_embed.proj.bias", "mtp.norm.weight", "mtp.layers.0.mlp.up_proj.weight"});
  EXPECT_TRUE(h.bytes() == h.want);
  ASSERT_EQ(h.done.warnings.size(), 3u);
  testing::expect_contains(h.done.warnings[0], "1 tensors of other parts");
  testing::expect_contains(h.done.warnings[1], "2 tensors that predict further tokens (mtp)");
}

// A Qwen3-Next without experts becomes a Qwen3.5, which orders the same rows differently.
TEST(HfHybrid, ADenseQwen3NextIsAQwen35) {
  Hybrid h("qwen35");
  std::map<std::string, Tensor> tensors = read_tensors(h.folder);
  const int64_t keys = h.config.at("linear_num_key_heads"), width = h.config.at("linear_key_head_dim"),
                each = int64_t(h.config.at("linear_num_value_heads")) / keys, d = h.config.at("hidden_size");
  for (const char* layer : {"0", "2"}) {
    const std::string start = std::string("model.layers.") + layer + ".linear_attn.in_proj_";
    const Tensor qkv = take(tensors, start + "qkv.weight"), z = take(tensors, start + "z.weight"),
                 b = take(tensors, start + "b.weight"), a = take(tensors, start + "a.weight");
    Tensor qkvz{{keys * (2 + 2 * each) * width, d}, {}}, ba{{keys * 2 * each, d}, {}};
    const auto append = [&](Tensor& to, const Tensor& from, int64_t first, int64_t rows) {
      to.values.insert(to.values.end(), from.values.begin() + first * d, from.values.begin() + (first + rows) * d);
    };
    for (int64_t k = 0; k < keys; ++k) {
      append(qkvz, qkv, k * width, width), append(qkvz, qkv, (keys + k) * width, width);
      append(qkvz, qkv, (2 * keys + k * each) * width, each * width), append(qkvz, z, k * each * width, each * width);
      append(ba, b, k * each, each), append(ba, a, k * each, each);
    }
    tensors[start + "qkvz.weight"] = qkvz, tensors[start + "ba.weight"] = ba;
  }
  write_tensors(h.folder, tensors);
  h.config["model_type"] = "qwen3_next", h.config["architectures"] = {"Qwen3NextForCausalLM"};
  h.config["mlp_only_layers"] = {0, 2, 1};
  EXPECT_TRUE(h.bytes() == h.want);
  h.config["mlp_only_layers"] = json::array(), h.config["num_experts"] = 0;
  EXPECT_TRUE(h.bytes() == h.want);
}

// Configs as they are published: rope in keys of its own, and layers by an interval.
TEST(HfHybrid, OlderConfigsSayTheSame) {
  Hybrid h("qwen3next");
  h.config["rope_theta"] = 5000.0;
  h.config["partial_rotary_factor"] = 0.25;
  h.config.erase("rope_parameters");
  EXPECT_TRUE(h.bytes() == h.want);
  h.config.erase("partial_rotary_factor");  // the class's own is the same
  h.config.erase("layer_types"), h.config["full_attention_interval"] = 2;
  EXPECT_TRUE(h.bytes() == h.want);
}

TEST(HfHybrid, ConfigsThatAGgufCannotState) {
  const auto error = [](const char* family, const std::string& key, const json& value) {
    Hybrid h(family);
    h.config[key] = value;
    return h.error();
  };
  for (const auto& [text, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {error("qwen35", "linear_value_head_dim", 16), {"'linear_key_head_dim' is 8", "'linear_value_head_dim' 16"}},
           {error("qwen35", "linear_num_value_heads", 7), {"7 value heads", "multiple of 2 key heads"}},
           {error("qwen35", "linear_num_key_heads", 0), {"delta_key_heads is 0"}},
           {error("qwen35", "linear_num_value_heads", 4), {"in_proj_qkv.weight' is [80,60]", "asks for [64,60]"}},
           {error("qwen35", "linear_conv_kernel_dim", 3), {"conv1d.weight' is [80,1,4]", "asks for [80,1,3]"}},
           {error("qwen35", "layer_types", {"mamba", "full_attention", "full_attention"}),
            {"mamba", "linear_attention"}},
           {error("qwen35", "layer_types", {"full_attention", "full_attention", "full_attention"}), {"both kinds"}},
           {error("qwen35", "attention_bias", true), {"'attention_bias' is true"}},
           {error("qwen35moe", "norm_topk_prob", false), {"'norm_topk_prob' is false", "only true"}},
           {error("qwen3next", "norm_topk_prob", false), {"'norm_topk_prob' is false", "only true"}},
           {error("qwen3next", "mlp_only_layers", {1}), {"'mlp_only_layers' is [1]", "only []"}},
           {error("qwen3next", "decoder_sparse_step", 2), {"'decoder_sparse_step' is 2"}},
           {error("qwen3next", "shared_expert_intermediate_size", 0), {"shared_d_ff 0"}}})
    for (const std::string& part : parts) testing::expect_contains(text, part);
}

TEST(HfHybrid, RatesThatHaveNoLogarithm) {
  Hybrid h("qwen35");
  std::map<std::string, Tensor> tensors = read_tensors(h.folder);
  const std::string name = "model.layers.2.linear_attn.A_log";
  for (const float bad : {1e3f, -1e3f, NAN}) {
    tensors.at(name).values[4] = bad;
    write_tensors(h.folder, tensors);
    testing::expect_contains(h.error(), "blk.2.ssm_a");
  }
  const gguf::File file = gguf::File::open(h.gguf());
  for (const float bad : {0.0f, 0.5f, -INFINITY}) {
    gguf::Writer writer("qwen35");
    for (const auto& [key, value] : file.metadata())
      if (!writer.has(key)) writer.set(key, value);
    std::vector<float> values(6, -1);
    values[5] = bad;
    for (const gguf::TensorInfo& t : file.tensors())
      writer.add(t.name,
                 View(t.name == "blk.0.ssm_a" ? static_cast<void*>(values.data()) : const_cast<std::byte*>(t.data),
                      DType::f32, t.shape),
                 DType::f32);
    writer.finish(h.path("bad.gguf"));
    const std::string text =
        testing::message_of([&] { hf::convert_gguf(gguf::File::open(h.path("bad.gguf")), h.path("refused")); });
    testing::expect_contains(text, "model.layers.0.linear_attn.A_log");
    EXPECT_FALSE(fs::exists(h.path("refused")));
  }
}

// Whole rows of blocks move; columns move as floats, also within a block.
TEST(HfHybrid, QuantizedWeightsKeepTheirValues) {
  const testing::Folder folder;
  const json size = {{"architecture", "qwen35"},
                     {"d_model", 64},
                     {"n_layers", 4},
                     {"n_heads", 4},
                     {"n_kv", 2},
                     {"d_head", 16},
                     {"d_ff", 96},
                     {"vocab", 50},
                     {"context", 100},
                     {"delta_key_heads", 4},
                     {"delta_value_heads", 12},
                     {"delta_width", 8},
                     {"rope_dims", 8}};
  const auto device = make_cpu_device(2);
  save_model(random_model(spec_from_json(size, "test"), *device, 3, 2.0), folder.path("model.gguf"));
  gguf::requantize(gguf::File::open(folder.path("model.gguf")), folder.path("blocks.gguf"), {.mix = "Q8_0"});
  gguf::requantize(gguf::File::open(folder.path("blocks.gguf")), folder.path("floats.gguf"), {.mix = "F32"});
  ASSERT_EQ(*gguf::File::open(folder.path("blocks.gguf")).require("blk.0.ssm_out.weight").dtype, DType::q8_0);
  for (const char* name : {"blocks", "floats"})
    hf::convert_gguf(gguf::File::open(folder.path(std::string(name) + ".gguf")), folder.path(name),
                     {.type = DType::f32});
  EXPECT_TRUE(testing::slurp(folder.path("blocks/model.safetensors")) ==
              testing::slurp(folder.path("floats/model.safetensors")));
}

}  // namespace
}  // namespace toy::hybrid_test
