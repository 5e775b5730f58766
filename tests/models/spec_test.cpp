// Models as data: JSON, tensors, rotary scaling, and what a file asks for and does not get.
#include "toy/models/spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "toy/backend/devices.h"
#include "toy/models/model.h"

namespace toy {
namespace {

nlohmann::json dimensions() { return {{"d_model", 20}, {"n_layers", 2}, {"n_heads", 4}, {"d_head", 6}, {"d_ff", 28}}; }

std::string golden_path(const std::string& name) {
  return std::string(TOY_SOURCE_DIR) + "/tests/golden/" + name + ".model.gguf";
}

std::string refusal(const nlohmann::json& j) {
  try {
    spec_from_json(j, "x.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ModelSpec, BiasesAndQkNormAreTensors) {
  nlohmann::json j = dimensions();
  j["n_kv"] = 2;
  j["qk_norm"] = true;
  j["biases"] = {"attn_q", "attn_k", "ffn_down"};
  const ModelSpec m = spec_from_json(j, "x.json");
  const auto device = make_cpu_device(1);
  const Model model = random_model(m, *device, 3);
  std::set<std::string> found;
  for (const TensorSpec& t : tensors_of(m)) found.insert(t.name + " " + t.shape.str());
  for (const char* wanted : {"blk.1.attn_q.bias [24]", "blk.1.attn_k.bias [12]", "blk.1.ffn_down.bias [20]",
                             "blk.0.attn_q_norm.weight [6]", "blk.0.attn_k_norm.weight [6]"})
    EXPECT_TRUE(found.contains(wanted)) << wanted;
  EXPECT_FALSE(found.contains("blk.1.attn_v.bias [12]"));
  for (const TensorSpec& t : tensors_of(m))
    if (t.name.ends_with(".bias")) {
      EXPECT_FALSE(t.decays()) << t.name;
      for (const float v : model.params->read(t.name)) EXPECT_EQ(v, 0) << t.name;
    }
  EXPECT_EQ(model.params->read("blk.1.attn_q_norm.weight"), std::vector<float>(6, 1.0f));
  EXPECT_EQ(model.params->read("blk.1.attn_k_norm.weight"), std::vector<float>(6, 1.0f));
}

TEST(ModelSpec, JsonRoundTrip) {
  for (const nlohmann::json& more : std::vector<nlohmann::json>{
           {{"qk_norm", true}, {"biases", {"attn_output", "ffn_gate"}}},
           {{"rope_scaling", "linear"}, {"rope_factor", 4}},
           {{"rope_scaling", "yarn"}, {"rope_factor", 4}, {"rope_original_context", 64}, {"rope_attn_factor", 0.75}},
           {{"rope_factors", {1, 2.5, 8}}, {"window", 7}}}) {
    nlohmann::json j = dimensions();
    j.update(more);
    const ModelSpec m = spec_from_json(j, "x.json");
    EXPECT_TRUE(spec_from_json(to_json(m), "x.json") == m) << j.dump();
  }
}

TEST(ModelSpec, RefusesRopeThatMakesNoSense) {
  const auto with = [](const nlohmann::json& more) {
    nlohmann::json j = dimensions();
    j.update(more);
    return refusal(j);
  };
  EXPECT_NE(with({{"rope_scaling", "ntk"}, {"rope_factor", 2}}).find("none, linear, yarn, llama3"), std::string::npos);
  EXPECT_NE(with({{"rope_scaling", "linear"}}).find("'rope_factor' is missing"), std::string::npos);
  EXPECT_NE(with({{"rope_factor", 2}}).find("no meaning without rope_scaling"), std::string::npos);
  EXPECT_NE(with({{"rope_scaling", "linear"}, {"rope_factor", -2}}).find("expected above 0"), std::string::npos);
  EXPECT_NE(with({{"rope_factors", {1, 2}}}).find("2 rope factors, heads of width 6 need 3"), std::string::npos);
  EXPECT_NE(with({{"rope_factors", {1, 0, 1}}}).find("a rope factor is 0"), std::string::npos);
  EXPECT_NE(with({{"biases", {"attn_norm"}}}).find("'biases' names 'attn_norm'; there are: attn_q"), std::string::npos);
}

// The factors that the script computed for the golden file, by the same numbers.
TEST(Rope, Llama3FactorsAreThoseOfTheGoldenFile) {
  const gguf::File f = gguf::File::open(golden_path("llama_bias"));
  const ModelSpec from_file = spec_from_gguf(f);
  nlohmann::json j = dimensions();
  j["rope_scaling"] = "llama3";
  j["rope_factor"] = 8;
  j["rope_original_context"] = 16;
  j["rope_low_freq_factor"] = 1;
  j["rope_high_freq_factor"] = 4;
  j["rope_base"] = 500;
  EXPECT_EQ(spec_from_json(j, "x.json").rope, from_file.rope);
  ASSERT_EQ(from_file.rope.factors.size(), 3u);
  EXPECT_EQ(from_file.rope.factors[2], 8);  // a wavelength of hundreds: stretched in full
}

TEST(Rope, FrequenciesOfLinearAndYarn) {
  RopeSpec r{.base = 10000};
  const auto plain = rope_frequencies(r, 8);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(plain[i], std::pow(10.0, -double(i)));
  r.scaling = RopeSpec::Scaling::linear, r.factor = 4;
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(rope_frequencies(r, 8)[i], plain[i] / 4);
  EXPECT_EQ(rope_magnitude(r), 1);
  // Pair 0 makes 1000/2pi = 159 turns in 1000 positions, pair 1 16, pair 2 1.6, pair 3 0.16: the ramp from 32 turns
  // (0.70, rounded down to 0) to 1 (2.2, rounded up to 3) keeps 1, 2/3, 1/3 and none of them.
  r.scaling = RopeSpec::Scaling::yarn, r.original_context = 1000;
  const auto yarn = rope_frequencies(r, 8);
  for (size_t i = 0; i < 4; ++i) {
    const double keep = 1 - double(i) / 3;
    EXPECT_NEAR(yarn[i], plain[i] * (keep + (1 - keep) / 4), 1e-15) << i;
  }
  EXPECT_DOUBLE_EQ(rope_magnitude(r), 0.1 * std::log(4.0) + 1);
}

class Metadata : public testing::Test {
 protected:
  // A file of the smallest sound model, with more metadata and more tensors.
  gguf::File file(const std::vector<std::pair<std::string, gguf::Value>>& metadata, const std::string& tensor = "") {
    path_ = testing::TempDir() + "toy_metadata_" + std::to_string(getpid()) + ".gguf";  // tests run side by side
    const ModelSpec m = spec_from_json(dimensions(), "x.json");
    gguf::Writer w("llama");
    for (const auto& [key, n] : {std::pair{"embedding_length", 20},
                                 {"context_length", 64},
                                 {"block_count", 2},
                                 {"feed_forward_length", 28},
                                 {"attention.head_count", 4},
                                 {"attention.key_length", 6},
                                 {"attention.value_length", 6}})
      w.set(std::string("llama.") + key, uint32_t(n));
    w.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (const auto& [key, value] : metadata) w.set(key, value);
    std::vector<float> zeros(256 * 28);
    for (const TensorSpec& t : tensors_of(m)) w.add(t.name, View(zeros.data(), DType::f32, t.shape), DType::f32);
    if (!tensor.empty()) w.add(tensor, View(zeros.data(), DType::f32, {20}), DType::f32);
    w.finish(path_);
    return gguf::File::open(path_);
  }
  std::string warnings(const std::vector<std::pair<std::string, gguf::Value>>& metadata) {
    const gguf::File f = file(metadata);
    std::string text;
    for (const std::string& w : warnings_of(f, spec_from_gguf(f))) text += w + "\n";
    return text;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(Metadata, DefaultsOfRopeScalingAreThoseOfLlamaCpp) {
  const std::string key = "llama.rope.scaling.";
  const auto rope = [&](const std::vector<std::pair<std::string, gguf::Value>>& m) {
    return spec_from_gguf(file(m)).rope;
  };
  EXPECT_EQ(rope({}), RopeSpec{});
  EXPECT_EQ(rope({{key + "factor", 4.0f}}), (RopeSpec{.scaling = RopeSpec::Scaling::linear, .factor = 4}));
  EXPECT_EQ(rope({{"llama.rope.scale_linear", 2.0f}}), (RopeSpec{.scaling = RopeSpec::Scaling::linear, .factor = 2}));
  EXPECT_EQ(rope({{key + "type", std::string("none")}, {key + "factor", 4.0f}}), RopeSpec{});
  EXPECT_EQ(rope({{key + "type", std::string("yarn")}, {key + "factor", 4.0f}}),
            (RopeSpec{.scaling = RopeSpec::Scaling::yarn, .factor = 4, .original_context = 64}));
  EXPECT_THROW(rope({{key + "type", std::string("llama3")}}), Error);
}

TEST_F(Metadata, WarnsOfWhatIsNotHonoured) {
  EXPECT_EQ(warnings({}), "");
  EXPECT_EQ(warnings({{"llama.rope.scaling.yarn_beta_fast", 32.0f}, {"llama.attention.scale", 1 / std::sqrt(6.0f)}}),
            "");
  EXPECT_NE(warnings({{"llama.rope.scaling.yarn_beta_fast", 16.0f}}).find("no effect, as in llama.cpp: 32 is used"),
            std::string::npos);
  EXPECT_NE(warnings({{"llama.attention.scale", 0.5f}}).find("llama.attention.scale has no effect"), std::string::npos);
  EXPECT_NE(warnings({{"llama.residual_scale", 0.5f}}).find("llama.residual_scale is not known"), std::string::npos);
  EXPECT_NE(warnings({{"llama.attention.sliding_window", uint32_t(8)}}).find("window of 8"), std::string::npos);
  EXPECT_NE(warnings({{"llama.rope.scaling.type", std::string("none")}, {"llama.rope.scaling.factor", 2.0f}})
                .find("factor 2 has no effect"),
            std::string::npos);
}

TEST_F(Metadata, UnknownTensorsAreRefused) {
  const gguf::File f = file({}, "blk.0.attn_norm.bias");
  EXPECT_THROW(spec_from_gguf(f), Error);
}

}  // namespace
}  // namespace toy
