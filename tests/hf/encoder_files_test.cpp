// Files of jina-bert-v2 and nomic-bert-moe: their tensors and metadata as llama.cpp has them, other layouts that it
// reads, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hf/folders.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/decode/encoder.h"
#include "toy/formats/requantize.h"
#include "toy/hf/convert.h"

namespace toy::encoder_files_test {
namespace {

class EncoderFiles : public ::testing::Test {
 protected:
  std::string converted(const std::string& kind) const {
    const std::string path = folder_.path(kind + ".gguf");
    hf::convert_folder(fmt::format("{}/tests/golden/{}_tiny", TOY_SOURCE_DIR, kind), path);
    return path;
  }
  std::vector<std::vector<float>> hidden(const Model& model) const {
    const std::vector<std::vector<int32_t>> ids{{5}, {7, 5, 60, 9, 4}, std::vector<int32_t>(70, 11)};
    return Encoder(*device_, model).embed(ids, {.pooling = Pooling::none, .normalize = false});
  }
  // Saves the model and loads it again.
  Model again(const Model& model) const {
    save_model(model, folder_.path("again.gguf"));
    return load_model(folder_.path("again.gguf"), *device_);
  }
  // What a copy with these changes is refused for.
  std::string refusal(const std::string& gguf, const std::map<std::string, gguf::Value>& changes,
                      const std::map<std::string, std::string>& names = {}) const {
    testing::copy_with(gguf, folder_.path("bad.gguf"), changes, names);
    return testing::message_of([&] { load_model(folder_.path("bad.gguf"), *device_); });
  }
  testing::Folder folder_;
  std::unique_ptr<Device> device_ = make_test_device(2);
};

TEST_F(EncoderFiles, TensorsOfNomicBertMoeAreThoseOfLlamaCpp) {
  const gguf::File file = gguf::File::open(converted("nomic_moe"));
  EXPECT_EQ(file.get_string("general.architecture"), "nomic-bert-moe");
  EXPECT_EQ(file.get_u32("nomic-bert-moe.moe_every_n_layers"), 3u);
  EXPECT_EQ(file.get_u32("nomic-bert-moe.expert_count"), 5u);
  EXPECT_EQ(file.get_u32("nomic-bert-moe.expert_used_count"), 2u);
  EXPECT_EQ(file.get_f32("nomic-bert-moe.rope.freq_base"), 300);
  EXPECT_EQ(file.get_u32("tokenizer.ggml.token_type_count"), 1u);
  EXPECT_EQ(file.require("blk.1.ffn_gate_inp.weight").shape, (Shape{5, 24}));
  EXPECT_EQ(file.require("blk.4.ffn_up_exps.weight").shape, (Shape{5, 36, 24}));
  EXPECT_EQ(file.require("blk.4.ffn_down_exps.weight").shape, (Shape{5, 24, 36}));
  EXPECT_EQ(file.require("blk.0.ffn_up.bias").shape, (Shape{36}));
  for (const char* absent :
       {"blk.1.ffn_up.bias", "blk.1.ffn_down.bias", "blk.0.ffn_gate.weight", "position_embd.weight"})
    EXPECT_FALSE(file.find(absent)) << absent;
}

TEST_F(EncoderFiles, TensorsOfJinaBertV2AreThoseOfLlamaCpp) {
  const gguf::File file = gguf::File::open(converted("jina_bert"));
  EXPECT_EQ(file.get_string("general.architecture"), "jina-bert-v2");
  EXPECT_EQ(file.require("blk.0.ffn_up.weight").shape, (Shape{72, 24}));
  EXPECT_EQ(file.require("blk.0.ffn_down.bias").shape, (Shape{24}));
  for (const char* absent : {"blk.0.ffn_up.bias", "blk.0.ffn_gate.weight", "position_embd.weight"})
    EXPECT_FALSE(file.find(absent)) << absent;
}

// Both layouts of gate and up, and of q, k and v.
TEST_F(EncoderFiles, OtherLayoutsGiveTheSameBits) {
  for (const char* kind : {"jina_bert", "nomic_moe"}) {
    Model model = load_model(converted(kind), *device_);
    const auto before = hidden(model);
    for (LayerSpec& l : model.spec.layers) l.fused_qkv = true, l.fused_gate_up = false;
    const Model other = again(model);
    EXPECT_EQ(other.spec.layers, model.spec.layers);
    EXPECT_EQ(hidden(other), before);
    const gguf::File file = gguf::File::open(folder_.path("again.gguf"));
    EXPECT_TRUE(file.find("blk.0.attn_qkv.weight"));
    EXPECT_EQ(file.find("blk.0.ffn_gate.weight") != nullptr, std::string(kind) == "jina_bert");
  }
}

// "ffn_up" of F rows without a gate: BERT's ffn. A folder states it as `feed_forward_type` "original".
TEST_F(EncoderFiles, JinaBertV2WithoutAGate) {
  const nlohmann::json size{{"architecture", "jina-bert-v2"},
                            {"d_model", 24},
                            {"n_layers", 2},
                            {"n_heads", 6},
                            {"d_ff", 36},
                            {"vocab", 61},
                            {"context", 80},
                            {"ffn", "gelu_erf"},
                            {"fused_gate_up", false},
                            {"biases", {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"}}};
  const Model model = random_model(spec_from_json(size, "size"), *device_, 3);
  const Model read = again(model);
  EXPECT_EQ(read.spec.layers, model.spec.layers);
  EXPECT_EQ(hidden(read), hidden(model));
  hf::convert_gguf(gguf::File::open(folder_.path("again.gguf")), folder_.path("hf"));
  const nlohmann::json config = testing::read_json_file(folder_.path("hf/config.json"));
  EXPECT_EQ(config.at("feed_forward_type"), "original");
  EXPECT_EQ(config.at("position_embedding_type"), "alibi");
  hf::convert_folder(folder_.path("hf"), folder_.path("back.gguf"));
  EXPECT_EQ(hidden(load_model(folder_.path("back.gguf"), *device_)), hidden(model));
}

// Matrices as blocks of 32: experts, too; the vectors stay close to those of f32.
TEST_F(EncoderFiles, QuantizedTypes) {
  for (const char* architecture : {"jina-bert-v2", "nomic-bert-moe"}) {
    const nlohmann::json size{{"architecture", architecture},
                              {"d_model", 64},
                              {"n_layers", 2},
                              {"n_heads", 4},
                              {"d_ff", 96},
                              {"vocab", 61},
                              {"context", 80}};
    save_model(random_model(spec_from_json(size, "size"), *device_, 3), folder_.path("f32.gguf"));
    gguf::requantize(gguf::File::open(folder_.path("f32.gguf")), folder_.path("q8.gguf"), {.mix = "Q8_0"});
    const gguf::File file = gguf::File::open(folder_.path("q8.gguf"));
    const bool experts = file.find("blk.1.ffn_up_exps.weight") != nullptr;
    EXPECT_EQ(experts, std::string(architecture) == "nomic-bert-moe");
    EXPECT_EQ(file.require(experts ? "blk.1.ffn_down_exps.weight" : "blk.1.ffn_up.weight").dtype, DType::q8_0);
    const auto want = hidden(load_model(folder_.path("f32.gguf"), *device_)),
               got = hidden(load_model(folder_.path("q8.gguf"), *device_));
    for (size_t t = 0; t < want.size(); ++t) {
      double dot = 0, a = 0, b = 0;
      for (size_t i = 0; i < want[t].size(); ++i)
        dot += double(want[t][i]) * double(got[t][i]), a += std::pow(want[t][i], 2), b += std::pow(got[t][i], 2);
      EXPECT_GT(dot / std::sqrt(a * b), 0.999) << architecture;
      EXPECT_NE(got[t], want[t]) << architecture;
    }
  }
}

TEST_F(EncoderFiles, WhatIsLeftOutIsSaid) {
  const std::string source = fmt::format("{}/tests/golden/nomic_moe_tiny", TOY_SOURCE_DIR);
  const hf::Converted done = hf::convert_folder(source, folder_.path("x.gguf"));
  bool said = false;
  for (const std::string& warning : done.warnings) said = said || warning.find("'mlp.experts.bias'") != warning.npos;
  EXPECT_TRUE(said);
}

TEST_F(EncoderFiles, NomicBertMoeRefuses) {
  const std::string good = converted("nomic_moe"), every = "nomic-bert-moe.moe_every_n_layers",
                    count = "nomic-bert-moe.expert_count", used = "nomic-bert-moe.expert_used_count";
  testing::expect_contains(refusal(good, {{every, uint32_t(1)}}), every + " is 1, expected at least 2");
  testing::expect_contains(refusal(good, {{every, uint32_t(2)}}), "blk.3.ffn_gate_inp.weight");
  testing::expect_contains(refusal(good, {{every, std::string()}}), every);
  testing::expect_contains(refusal(good, {{count, std::string()}}), count);
  testing::expect_contains(refusal(good, {{count, uint32_t(0)}}), count + " is 0");
  testing::expect_contains(refusal(good, {{used, uint32_t(6)}}), "experts_used is 6, expected 1 to 5");
  testing::expect_contains(refusal(good, {{used, uint32_t(0)}}), "experts_used is 0, expected 1 to 5");
}

TEST_F(EncoderFiles, JinaBertV2Refuses) {
  const std::string good = converted("jina_bert"), width = "jina-bert-v2.feed_forward_length";
  testing::expect_contains(refusal(good, {{width, uint32_t(40)}}), "'blk.0.ffn_up.weight' is [72,24]");
  for (const char* name : {"blk.0.attn_q_norm.weight", "blk.2.attn_norm_2.weight"})
    testing::expect_contains(refusal(good, {}, {{"blk.2.attn_output_norm.weight", name}}),
                             fmt::format("'{}', so it is of the kind of jina-embeddings-v2-base-code", name));
  testing::expect_contains(refusal(good, {{"jina-bert-v2.attention.head_count", uint32_t(5)}}), "does not divide");
}

// Positions by distance are for rows that see both sides.
TEST(AlibiSpec, IsForEncoders) {
  nlohmann::json size{{"architecture", "toy"}, {"d_model", 24},       {"n_layers", 1}, {"n_heads", 6}, {"d_ff", 36},
                      {"causal", true},        {"positions", "alibi"}};
  testing::expect_contains(testing::message_of([&] { spec_from_json(size, "size"); }), "positions are alibi");
  size["causal"] = false;
  EXPECT_EQ(spec_from_json(size, "size").positions, PositionKind::alibi);
}

}  // namespace
}  // namespace toy::encoder_files_test
