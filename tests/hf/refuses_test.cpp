// Folders and files that toy convert refuses, and what it leaves of them: nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "folders.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::refuses_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class HfRefuses : public ::testing::Test {
 protected:
  void SetUp() override { hf::convert_gguf(gguf::File::open(g_.write()), folder_); }
  std::string error() const {
    const std::string text = testing::error_of([&] { hf::convert_folder(folder_, out_); });
    EXPECT_FALSE(fs::exists(out_));
    return text;
  }
  void change_config(const std::function<void(json&)>& change) const {
    json config = testing::read_json_file(folder_ + "/config.json");
    change(config);
    testing::write_text(folder_ + "/config.json", config.dump());
  }
  void expect(const std::vector<std::string>& facts) const {
    const std::string text = error();
    for (const std::string& fact : facts) EXPECT_NE(text.find(fact), std::string::npos) << fact << " in: " << text;
  }
  const testing::GoldenFamily g_{"qwen3"};
  const std::string folder_ = g_.folder.path("hf"), out_ = g_.folder.path("out.gguf");
};

TEST_F(HfRefuses, OtherModels) {
  change_config([](json& c) { c["model_type"] = "mamba"; });
  expect({"mamba", "qwen2", "gemma3_text"});
}

TEST_F(HfRefuses, WeightsThatAreQuantizedAnotherWay) {
  change_config([](json& c) { c["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}}; });
  expect({"config.json", "quantization_config", "packed by 'gptq'", "toy quantize"});
  change_config([](json& c) { c["quantization_config"] = json{{"load_in_4bit", true}}; });
  expect({"an unnamed method"});
  change_config([](json& c) { c["quantization_config"] = nullptr; });
  EXPECT_GT(hf::convert_folder(folder_, out_).tensors, 0u);
}

TEST_F(HfRefuses, DimensionsThatAreNotSupportedOrDisagree) {
  change_config([](json& c) { c["hidden_act"] = "relu"; });
  expect({"relu", "silu"});
  change_config([](json& c) { c["hidden_act"] = "silu", c["rope_scaling"] = {{"rope_type", "dynamic"}}; });
  expect({"dynamic", "yarn"});
  change_config([](json& c) { c["rope_scaling"] = nullptr, c["num_hidden_layers"] = "many"; });
  expect({"num_hidden_layers", "many"});
  change_config([](json& c) { c["num_hidden_layers"] = 3, c["intermediate_size"] = 57; });
  expect({"gate_proj", "[56,60]", "[57,60]"});
  change_config([](json& c) { c["intermediate_size"] = 56, c["attention_bias"] = true; });
  expect({"config.json", "a GGUF cannot hold this model", "biases", "qwen3"});
}

TEST_F(HfRefuses, TensorsThatAreMissingOrUnknown) {
  testing::change_tensors(folder_,
                          [](const std::string& n) { return n == "model.layers.1.self_attn.q_norm.weight" ? "" : n; });
  expect({"model.layers.1.self_attn.q_norm.weight", "Qwen3ForCausalLM", "nearest"});
}

TEST_F(HfRefuses, AnUnknownTensor) {
  testing::change_tensors(folder_, [](const std::string& n) { return n; }, {"model.layers.0.self_attn.q_proj.bias"});
  expect({"model.layers.0.self_attn.q_proj.bias", "Qwen3ForCausalLM", "model.layers.0.self_attn.q_proj.weight"});
}

// Tensors of types that toy has not, as old versions of transformers saved them, only matter where they are needed.
TEST_F(HfRefuses, TypesOfTensorsThatAreNeeded) {
  const std::string path = folder_ + "/model.safetensors", norm = "model.norm.weight";
  const auto write = [&](const std::string& other, const std::string& without) {
    const safetensors::File file = safetensors::File::open(path);
    std::string data = std::string(8, '\0');
    json header = {{other, {{"dtype", "I64"}, {"shape", {1}}, {"data_offsets", {0, 8}}}}};
    for (const auto& [name, view] : file.tensors()) {
      if (name == without) continue;
      header[name] = {{"dtype", safetensors::type_name(view.dtype)},
                      {"shape", std::vector<int64_t>(view.shape.begin(), view.shape.end())},
                      {"data_offsets", {data.size(), data.size() + view.bytes()}}};
      data.append(static_cast<const char*>(view.data), view.bytes());
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
  };
  for (const char* buffer : {"model.embeddings.position_ids", "model.layers.0.attn.bias"}) {
    const std::string bytes = write(buffer, "");
    testing::write_text(path, bytes);
    hf::convert_folder(folder_, out_);
    fs::remove(out_);
  }
  testing::write_text(path, write("model.layers.0.more", ""));
  expect({"'model.layers.0.more' is not known"});
  testing::write_text(path, write(norm, norm));
  expect({"'model.norm.weight' is I64; supported: F32"});
}

TEST_F(HfRefuses, Encoders) {
  const std::string other = g_.folder.path("other.gguf"), folder = g_.folder.path("new");
  testing::copy_with(g_.path, other, {{"general.architecture", std::string("neo-bert")}});
  const std::string file = testing::error_of([&] { hf::convert_gguf(gguf::File::open(other), folder); });
  EXPECT_NE(file.find("'neo-bert' is not supported"), std::string::npos) << file;
  EXPECT_NE(file.find("for embeddings use a bert"), std::string::npos) << file;
  testing::write_text(folder_ + "/config.json", R"({"model_type": "distilbert"})");
  expect({"'distilbert' is not supported", "for embeddings use a bert"});
}

TEST_F(HfRefuses, ADamagedTokenizer) {
  const std::string other = g_.folder.path("other.gguf"), folder = g_.folder.path("new");
  const auto refusal = [&] { return testing::error_of([&] { hf::convert_gguf(gguf::File::open(other), folder); }); };
  testing::copy_with(g_.path, other, {{"tokenizer.ggml.model", std::string("gpt2")}});
  const std::string text = refusal();
  EXPECT_NE(text.find("tokenizer.ggml.tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("--no-tokenizer"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(folder));
  testing::copy_with(g_.path, other, {{"tokenizer.ggml.model", std::string("other")}});
  const auto warnings = hf::convert_gguf(gguf::File::open(other), folder).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "without its tokenizer: its tokenizer 'other' is not supported");
}

TEST_F(HfRefuses, APartOfAModel) {
  const std::string other = g_.folder.path("other.gguf"), folder = g_.folder.path("new");
  const auto refusal = [&] { return testing::error_of([&] { hf::convert_gguf(gguf::File::open(other), folder); }); };
  testing::copy_with(g_.path, other, {{"split.count", uint16_t(2)}, {"split.no", uint16_t(0)}});
  EXPECT_NE(refusal().find("one of 2 parts of a model, whose names end with -00001-of-00002.gguf"), std::string::npos)
      << refusal();
}

TEST_F(HfRefuses, ValuesThatAreTooLargeForF16) {
  const std::string path = folder_ + "/model.safetensors", name = "model.layers.0.mlp.down_proj.weight";
  {
    const safetensors::File file = safetensors::File::open(path);
    std::vector<float> values(size_t(file.tensors().at(name).count()), 65504);
    safetensors::Writer writer;
    for (const auto& [n, view] : file.tensors())
      writer.add(n, n == name ? View(values.data(), DType::f32, view.shape) : view);
    writer.finish(path);
    hf::convert_folder(folder_, out_, {.type = DType::f16});
    fs::remove(out_);
    values[7] = -70000;
    writer.finish(path);
  }
  const std::string text = testing::error_of([&] { hf::convert_folder(folder_, out_, {.type = DType::f16}); });
  EXPECT_NE(text.find("tensor 'blk.0.ffn_down.weight': a value of -70000 is too large for f16"), std::string::npos)
      << text;
  EXPECT_FALSE(fs::exists(out_));
  hf::convert_folder(folder_, out_, {.type = DType::bf16});
}

TEST_F(HfRefuses, AShardThatIsMissingAndAnIndexThatLies) {
  json map;
  const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
  for (const auto& [name, view] : file.tensors()) map[name] = "model.safetensors";
  const std::string index = folder_ + "/model.safetensors.index.json";
  testing::write_text(index, json{{"weight_map", map}}.dump());
  hf::convert_folder(folder_, out_);
  fs::remove(out_);
  map["model.norm.weight"] = "model-00002-of-00002.safetensors";
  testing::write_text(index, json{{"weight_map", map}}.dump());
  expect({"model-00002-of-00002.safetensors", "missing"});
  map["model.norm.weight"] = "../secret";
  testing::write_text(index, json{{"weight_map", map}}.dump());
  expect({"../secret"});
  map["model.norm.weight"] = "model.safetensors", map["model.norm.bias"] = "model.safetensors";
  testing::write_text(index, json{{"weight_map", map}}.dump());
  expect({"model.norm.bias", "model.safetensors"});
}

TEST_F(HfRefuses, TokenizersThatLie) {
  const auto tokenizer = [&](const json& merges, const json& pre) {
    const json t = {{"added_tokens", json::array()},
                    {"normalizer", nullptr},
                    {"pre_tokenizer", pre},
                    {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", merges}}}};
    testing::write_text(folder_ + "/tokenizer.json", t.dump());
  };
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  tokenizer({"a b"}, bytes);
  hf::convert_folder(folder_, out_);
  EXPECT_EQ(gguf::File::open(out_).get_string("tokenizer.ggml.pre"), "gpt-2");
  fs::remove(out_);
  tokenizer({"a c"}, bytes);
  expect({"merge 0", "'c'", "no token"});
  tokenizer({"a b", json::array({"b", "a"})}, bytes);
  expect({"merge 1", "'ba'"});
  const json cut = {{"type", "Split"}, {"pattern", {{"Regex", "x+|y"}}}, {"behavior", "Isolated"}};
  tokenizer({"a b"}, {{"type", "Sequence"}, {"pretokenizers", {cut, {{"type", "ByteLevel"}, {"use_regex", false}}}}});
  expect({"pre_tokenizer", "x+|y"});
  testing::write_text(folder_ + "/tokenizer.json", R"({"version": "1.0"})");
  expect({"tokenizer.json: 'model'", "no 'merges'"});
}

TEST_F(HfRefuses, ToReplaceAFolder) {
  const std::string text = testing::error_of([&] { hf::convert_gguf(gguf::File::open(g_.path), folder_); });
  EXPECT_NE(text.find("not an empty folder"), std::string::npos) << text;
  EXPECT_TRUE(fs::exists(folder_ + "/config.json"));
}

TEST_F(HfRefuses, AnInterruptedConversionLeavesNothing) {
  hf::ConvertOptions options;
  options.progress = [](size_t done, size_t) {
    if (done == 3) throw std::runtime_error("stop");
  };
  const std::string folder = g_.folder.path("new");
  EXPECT_THROW(hf::convert_folder(folder_, out_, options), std::runtime_error);
  EXPECT_THROW(hf::convert_gguf(gguf::File::open(g_.path), folder, options), std::runtime_error);
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(folder).parent_path()))
    entries += entry.path() != folder_ && entry.path() != g_.path;
  EXPECT_EQ(entries, 0u);
}

}  // namespace
}  // namespace toy::refuses_test
