// Hugging Face folders: what is written equals what transformers writes (tests/golden/make_hf_golden.py), and what is
// read of it equals the file that llama.cpp's converter writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/family_golden.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_file(const std::string& path) { return json::parse(std::ifstream(path)); }
void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

const json& golden_of(const std::string& family) {
  static const json all = read_file(std::string(TOY_SOURCE_DIR) + "/tests/golden/hf.golden.json");
  return all.at(family);
}

// A family's model as a GGUF and as a folder with transformers' config.json.
class HfFamily : public ::testing::TestWithParam<const char*> {
 protected:
  HfFamily() : gguf_(g_.write()), folder_(g_.folder.path("hf")) {
    hf::convert_gguf(gguf::File::open(gguf_), folder_);
    own_config_ = read_file(folder_ + "/config.json");
    write_file(folder_ + "/config.json", golden_of(GetParam()).at("config").dump());
  }
  std::string import(const hf::ConvertOptions& options = {}) const {
    const std::string path = g_.folder.path("again.gguf");
    hf::convert_folder(folder_, path, options);
    return path;
  }
  const testing::GoldenFamily g_{GetParam()};
  const std::string gguf_, folder_;
  json own_config_;
};

TEST_P(HfFamily, TensorsAreThoseOfTransformers) {
  const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
  EXPECT_EQ(file.tensors().size(), golden_of(GetParam()).at("tensors"));
  double sum = 0, size = 0;
  for (const auto& [name, view] : file.tensors()) {
    ASSERT_EQ(view.dtype, DType::f32) << name;
    const uint64_t hash = testing::hash_of(name);
    for (int64_t i = 0; i < view.count(); ++i) {
      sum += double(view.as<float>()[i]) * testing::uniform(hash, i);
      size += std::abs(double(view.as<float>()[i]));
    }
  }
  // Only the order of the sum differs.
  EXPECT_NEAR(sum, golden_of(GetParam()).at("sum"), 1e-12 * size);
}

TEST_P(HfFamily, AFolderOfTransformersBecomesTheSameModel) {
  const gguf::File want = gguf::File::open(gguf_), got = gguf::File::open(import());
  ModelSpec a = spec_from_gguf(want), b = spec_from_gguf(got);
  b.name = a.name;
  EXPECT_TRUE(a == b) << to_json(a).dump() << "\n" << to_json(b).dump();
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const gguf::TensorInfo& t : want.tensors()) {
    const gguf::TensorInfo& other = got.require(t.name);
    ASSERT_EQ(other.shape, t.shape) << t.name;
    const auto* x = reinterpret_cast<const float*>(t.data);
    const auto* y = reinterpret_cast<const float*>(other.data);
    // Gemma's norms are stored less 1, which rounds once at the size of 1.
    for (int64_t i = 0; i < t.shape.count(); ++i)
      ASSERT_NEAR(x[i], y[i], t.name.ends_with("norm.weight") ? 0x1p-23 : 0);
  }
}

TEST_P(HfFamily, ItsOwnConfigSaysTheSame) {
  const ModelSpec with_theirs = spec_from_gguf(gguf::File::open(import()));
  write_file(folder_ + "/config.json", own_config_.dump());
  EXPECT_TRUE(with_theirs == spec_from_gguf(gguf::File::open(import()))) << own_config_.dump(1);
}

TEST_P(HfFamily, TypesAreKeptOrChosen) {
  const gguf::File half = gguf::File::open(import({.type = DType::bf16}));
  for (const FileTensor& t : file_tensors(spec_from_gguf(half)))
    EXPECT_EQ(*half.require(t.name).dtype, t.parts.front().narrow ? DType::bf16 : DType::f32) << t.name;
  const std::string folder = g_.folder.path("bf16");
  hf::convert_gguf(half, folder);
  const safetensors::File file = safetensors::File::open(folder + "/model.safetensors");
  for (const auto& [name, view] : file.tensors()) EXPECT_EQ(view.dtype, DType::bf16) << name;
  EXPECT_EQ(read_file(folder + "/config.json").at("dtype"), "bfloat16");
  hf::convert_folder(folder, g_.folder.path("kept.gguf"));
  const gguf::File kept = gguf::File::open(g_.folder.path("kept.gguf"));
  const gguf::TensorInfo &a = kept.require("token_embd.weight"), &b = half.require("token_embd.weight");
  ASSERT_EQ(a.dtype, DType::bf16);
  EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes), 0);
}

INSTANTIATE_TEST_SUITE_P(Transformers, HfFamily,
                         ::testing::Values("qwen2", "qwen3", "smollm3", "olmo2", "olmo3", "gemma", "gemma2", "gemma3",
                                           "phi3", "granite", "mixtral", "qwen3moe", "olmoe", "granitemoe"),
                         [](const auto& test) { return std::string(test.param); });

// ---- folders that are not right

class HfRefuses : public ::testing::Test {
 protected:
  void SetUp() override { hf::convert_gguf(gguf::File::open(g_.write()), folder_); }
  std::string error() const {
    const std::string text = testing::error_of([&] { hf::convert_folder(folder_, out_); });
    EXPECT_FALSE(fs::exists(out_));
    return text;
  }
  void change_config(const std::function<void(json&)>& change) const {
    json config = read_file(folder_ + "/config.json");
    change(config);
    write_file(folder_ + "/config.json", config.dump());
  }
  // Writes the tensors again; `change` may rename one or leave it out ("").
  void change_tensors(const std::function<std::string(const std::string&)>& change) const {
    const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
    safetensors::Writer writer;
    for (const auto& [name, view] : file.tensors())
      if (const std::string other = change(name); !other.empty()) writer.add(other, view);
    writer.finish(folder_ + "/model.safetensors");
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

TEST_F(HfRefuses, DimensionsThatAreNotSupportedOrDisagree) {
  change_config([](json& c) { c["hidden_act"] = "relu"; });
  expect({"relu", "silu"});
  change_config([](json& c) { c["hidden_act"] = "silu", c["rope_scaling"] = {{"rope_type", "dynamic"}}; });
  expect({"dynamic", "yarn"});
  change_config([](json& c) { c["rope_scaling"] = nullptr, c["num_hidden_layers"] = "many"; });
  expect({"num_hidden_layers", "many"});
  change_config([](json& c) { c["num_hidden_layers"] = 3, c["intermediate_size"] = 57; });
  expect({"gate_proj", "[56,60]", "[57,60]"});
}

TEST_F(HfRefuses, TensorsThatAreMissingOrUnknown) {
  change_tensors([](const std::string& n) { return n == "model.layers.1.self_attn.q_norm.weight" ? "" : n; });
  expect({"model.layers.1.self_attn.q_norm.weight", "Qwen3ForCausalLM", "nearest"});
}

TEST_F(HfRefuses, AnUnknownTensor) {
  const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
  safetensors::Writer writer;
  for (const auto& [name, view] : file.tensors()) writer.add(name, view);
  writer.add("model.layers.0.self_attn.q_proj.bias", file.tensors().at("model.layers.0.self_attn.q_norm.weight"));
  writer.finish(folder_ + "/more.safetensors");
  fs::rename(folder_ + "/more.safetensors", folder_ + "/model.safetensors");
  expect({"model.layers.0.self_attn.q_proj.bias", "Qwen3ForCausalLM", "model.layers.0.self_attn.q_proj.weight"});
}

TEST_F(HfRefuses, AShardThatIsMissingAndAnIndexThatLies) {
  json map;
  const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
  for (const auto& [name, view] : file.tensors()) map[name] = "model.safetensors";
  const std::string index = folder_ + "/model.safetensors.index.json";
  write_file(index, json{{"weight_map", map}}.dump());
  hf::convert_folder(folder_, out_);
  fs::remove(out_);
  map["model.norm.weight"] = "model-00002-of-00002.safetensors";
  write_file(index, json{{"weight_map", map}}.dump());
  expect({"model-00002-of-00002.safetensors", "missing"});
  map["model.norm.weight"] = "../secret";
  write_file(index, json{{"weight_map", map}}.dump());
  expect({"../secret"});
  map["model.norm.weight"] = "model.safetensors", map["model.norm.bias"] = "model.safetensors";
  write_file(index, json{{"weight_map", map}}.dump());
  expect({"model.norm.bias", "model.safetensors"});
}

TEST_F(HfRefuses, TokenizersThatLie) {
  const auto tokenizer = [&](const json& merges, const json& pre) {
    const json t = {{"added_tokens", json::array()},
                    {"normalizer", nullptr},
                    {"pre_tokenizer", pre},
                    {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", merges}}}};
    write_file(folder_ + "/tokenizer.json", t.dump());
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
}  // namespace toy
