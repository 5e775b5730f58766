// Models as data: JSON, tensors, rotary scaling, and what a file asks for and does not get.
#include "toy/models/spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"

namespace toy::spec_test {
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
  const auto device = make_test_device(1);
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

TEST(ModelSpec, AHeadNeedsAWidth) {
  nlohmann::json j = dimensions();
  j["n_heads"] = 3;  // d_model is 20
  EXPECT_EQ(refusal(j), "accepted");
  j.erase("d_head");
  EXPECT_NE(refusal(j).find("d_model 20 is not a multiple of n_heads 3"), std::string::npos) << refusal(j);
  j["rope_scaling"] = "foo";
  j["d_head"] = 6;
  EXPECT_NE(refusal(j).find("rope_scaling is 'foo'; there are: none, linear"), std::string::npos) << refusal(j);
}

TEST(ModelSpec, JsonRoundTrip) {
  for (const nlohmann::json& more : std::vector<nlohmann::json>{
           {{"qk_norm", true}, {"biases", {"attn_output", "ffn_gate"}}},
           {{"rope_scaling", "linear"}, {"rope_factor", 4}},
           {{"rope_scaling", "yarn"}, {"rope_factor", 4}, {"rope_original_context", 64}, {"rope_attn_factor", 0.75}},
           {{"rope_factors", {1, 2.5, 8}}, {"window", 7}},
           {{"layers", {{{"d_ff", 40}, {"qk_norm", true}}, {{"n_heads", 8}, {"biases", {"attn_v"}}}}}}}) {
    nlohmann::json j = dimensions();
    j.update(more);
    const ModelSpec m = spec_from_json(j, "x.json");
    EXPECT_TRUE(spec_from_json(to_json(m), "x.json") == m) << j.dump();
  }
}

TEST(ModelSpec, LayersAreDescribedTogetherOrEachByItself) {
  nlohmann::json j = dimensions();
  j["n_kv"] = 2;
  EXPECT_FALSE(to_json(spec_from_json(j, "x.json")).contains("layers"));
  j["layers"] = {{{"d_ff", 40}}, nlohmann::json::object()};
  const ModelSpec m = spec_from_json(j, "x.json");
  EXPECT_EQ(m.layers[0].d_ff, 40);
  EXPECT_EQ(m.layers[1].d_ff, 28);
  EXPECT_EQ(m.layers[0].kv_heads, 2);
  EXPECT_EQ(to_json(m).at("layers"), nlohmann::ordered_json::parse(R"([{}, {"d_ff": 28}])"));
  j["layers"].push_back({{"d_ff", 40}});
  EXPECT_EQ(refusal(j), "x.json: 'layers' is not a list of 2 objects, one for each layer");
  j["layers"] = {{{"d_ff", 40}}, {{"d_fff", 40}}};
  EXPECT_EQ(refusal(j), "x.json: layer 1: unknown key 'd_fff'; did you mean 'd_ff'?");
  j["layers"] = {{{"d_ff", 40}}, {{"n_kv", 3}}};
  EXPECT_EQ(refusal(j), "model x.json: layer 1: 4 query heads are not a multiple of 3 kv heads");
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
  // Keys that would change nothing.
  const std::string original = "rope_original_context", low = "rope_low_freq_factor", high = "rope_high_freq_factor";
  EXPECT_EQ(with({{original, 64}}), "x.json: rope_original_context has no meaning with rope_scaling none");
  EXPECT_EQ(with({{"rope_scaling", "linear"}, {"rope_factor", 2}, {original, 64}}),
            "x.json: rope_original_context has no meaning with rope_scaling linear");
  for (const std::string& key : {low, high})
    for (const std::string scaling : {"linear", "yarn"})
      EXPECT_EQ(with({{"rope_scaling", scaling}, {"rope_factor", 2}, {key, 2}}),
                "x.json: " + key + " has no meaning with rope_scaling " + scaling);
  EXPECT_EQ(with({{"rope_scaling", "llama3"}, {"rope_factor", 2}, {original, 64}, {low, 1}, {high, 2}}), "accepted");
  for (const int64_t positions : {int64_t(0), int64_t(1) << 32})
    EXPECT_NE(with({{"rope_scaling", "yarn"}, {"rope_factor", 2}, {original, positions}})
                  .find("before scaling, 1 to 4294967295; it is " + std::to_string(positions)),
              std::string::npos);
  // Before a table is made for it.
  EXPECT_EQ(with({{"rope_scaling", "llama3"}, {"rope_factor", 2}, {"d_head", int64_t(1000000000000)}}),
            "x.json: d_head is 1000000000000, expected 1 to 1024");
}

// What a file states once for all layers, or not at all, is not lost on the way into it.
TEST(ModelSpec, RefusesWhatFilesOfItsFamilyCannotHold) {
  const auto device = make_test_device(1);
  const auto message = [&](const char* size, const std::function<void(ModelSpec&)>& change) {
    ModelSpec m = model_spec(size);
    change(m);
    return testing::error_of([&] { random_model(m, *device, 1); });
  };
  const std::string once = "; a file of the architecture llama has one for all layers";
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.layers[1].d_head = 8; }),
            "model tiny: layer 1: d_head is 8, that of layer 0 is 16" + once);
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.layers[1].window = 7; }),
            "model tiny: layer 1: window is 7, that of layer 0 is 0" + once);
  EXPECT_EQ(
      message("gpt2-tiny", [](ModelSpec& m) { m.layers[1].d_ff = 100; }),
      "model gpt2-tiny: layer 1: d_ff is 100, that of layer 0 is 256; a file of the architecture gpt2 has one for "
      "all layers");
  const std::string halves = "model tiny: rope_pairing is \"half\"; in the architecture llama it is \"neighbour\"";
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.rope.pairing = RopePairing::half; }), halves);
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.norm = NormKind::layer; }),
            "model tiny: norm is \"layer\"; in the architecture llama it is \"rms\"");
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.layers[3].rope = LayerRope::none; }),
            "model tiny: layer 3: rope is \"none\"; in the architecture llama it is \"global\"");
  EXPECT_EQ(message("tiny", [](ModelSpec& m) { m.logit_softcap = 30; }),
            "model tiny: logit_softcap is 30.0; in the architecture llama it is 0.0");
  // Arrays hold these.
  EXPECT_EQ(
      message("tiny", [](ModelSpec& m) { m.layers[2].heads = 8, m.layers[1].kv_heads = 4, m.layers[3].d_ff = 100; }),
      "no error");
  // Tensors tell these.
  EXPECT_EQ(message("tiny",
                    [](ModelSpec& m) {
                      m.layers[1].qk_norm = LayerSpec::head_norm;
                      m.layers[2].bias.q = true;
                    }),
            "no error");

  // A model that was put together by hand is refused when it is saved.
  Model m = random_model(model_spec("tiny"), *device, 1);
  const testing::Folder folder;
  m.spec.rope.pairing = RopePairing::half;
  EXPECT_EQ(testing::error_of([&] { save_model(m, folder.path("m.gguf")); }), halves);
  m.spec.rope.pairing = RopePairing::neighbour;
  m.spec.layers[1].window = 7;
  EXPECT_EQ(testing::error_of([&] { save_model(m, folder.path("m.gguf")); }),
            "model tiny: layer 1: window is 7, that of layer 0 is 0" + once);
  EXPECT_EQ(folder.entries(), 0u);
}

// Of tables a token reads rows, unless they are the output, too; of 4 experts it takes 2.
TEST(ModelSpec, ShareOfAToken) {
  nlohmann::json j = dimensions();
  j["n_kv"] = 2;
  j["tied"] = false;
  const auto shares = [](const ModelSpec& spec) {
    std::map<std::string, double> by_name;
    for (const TensorSpec& t : tensors_of(spec)) by_name[t.name] = share_of_token(spec, t);
    return by_name;
  };
  ModelSpec spec = spec_from_json(j, "x.json");
  EXPECT_EQ(shares(spec).at("token_embd.weight"), 0);
  EXPECT_EQ(shares(spec).at("output.weight"), 1);
  EXPECT_EQ(shares(spec).at("blk.1.ffn_up.weight"), 1);
  spec.tied = true;
  EXPECT_EQ(shares(spec).at("token_embd.weight"), 1);
  spec.layers[1].experts = {.count = 4, .used = 2};
  EXPECT_EQ(shares(spec).at("blk.0.ffn_up.weight"), 1);
  EXPECT_EQ(shares(spec).at("blk.1.ffn_up_exps.weight"), 0.5);
  EXPECT_EQ(shares(spec).at("blk.1.ffn_gate_inp.weight"), 1);  // the router
}

TEST(Transformer, HasAStateForEachLayerOrNone) {
  const ModelSpec m = model_spec("tiny");
  const auto error_with = [&](size_t count) {
    Graph g;
    const Transformer transformer(m, Weights(g, [](const std::string&) { return DType::f32; }), 8);
    const TensorType rows{DType::i32, {3}, 0};
    const Value tokens = g.input("tokens", rows, m.vocab);
    const nn::Context ctx{.batch = {.sequence = g.input("sequence", rows), .position = g.input("position", rows, 8)}};
    std::vector<nn::LayerState> states(count);
    return testing::error_of([&] { transformer(tokens, ctx, states); });
  };
  EXPECT_EQ(error_with(3), "transformer: 3 states for 4 layers; give one for each, or none");
  EXPECT_EQ(error_with(4), "no error");
}

nlohmann::json gpt2_dimensions() {
  return {{"architecture", "gpt2"}, {"d_model", 24}, {"n_layers", 2}, {"n_heads", 4}, {"d_ff", 40}, {"context", 32}};
}

TEST(Gpt2, TensorsOfTheModelAndOfItsFile) {
  const ModelSpec m = spec_from_json(gpt2_dimensions(), "x.json");
  std::set<std::string> model, file;
  for (const TensorSpec& t : tensors_of(m)) model.insert(t.name + " " + t.shape.str());
  for (const FileTensor& t : file_tensors(m)) file.insert(t.name + " " + t.shape.str());
  for (const char* both : {"position_embd.weight [32,24]", "blk.1.attn_norm.bias [24]", "blk.0.ffn_up.bias [40]",
                           "blk.0.ffn_down.bias [24]", "output_norm.bias [24]", "blk.1.attn_output.bias [24]"}) {
    EXPECT_TRUE(model.contains(both)) << both;
    EXPECT_TRUE(file.contains(both)) << both;
  }
  for (const char* one : {"blk.0.attn_q.weight [24,24]", "blk.0.attn_k.bias [24]"}) {
    EXPECT_TRUE(model.contains(one)) << one;
    EXPECT_FALSE(file.contains(one)) << one;
  }
  EXPECT_TRUE(file.contains("blk.1.attn_qkv.weight [72,24]"));
  EXPECT_TRUE(file.contains("blk.1.attn_qkv.bias [72]"));
  EXPECT_FALSE(model.contains("blk.0.ffn_gate.weight [40,24]"));
  EXPECT_EQ(file.size(), 2u + 2 * 12 + 2);  // embeddings; six pairs a layer; the last norm
}

TEST(Gpt2, SizesAreThePublishedOnes) {
  // Radford et al. 2019 say 117M and 345M; these are the numbers of the weights that were published.
  EXPECT_EQ(parameter_count(model_spec("gpt2-124m")), 124439808);
  EXPECT_EQ(parameter_count(model_spec("gpt2-355m")), 354823168);
  EXPECT_EQ(parameter_count(model_spec("tinyllama-1b")), 1100048384);
}

TEST(Gpt2, JsonRoundTrip) {
  for (const nlohmann::json& more : std::vector<nlohmann::json>{
           {}, {{"tied", false}}, {{"layer_norm_eps", 1e-3}, {"name", "x"}}, {{"n_kv", 4}, {"d_head", 6}}}) {
    nlohmann::json j = gpt2_dimensions();
    if (!more.is_null()) j.update(more);
    const ModelSpec m = spec_from_json(j, "x.json");
    EXPECT_TRUE(spec_from_json(to_json(m), "x.json") == m) << j.dump();
  }
}

TEST(Gpt2, RefusesWhatItsFilesCannotHold) {
  const auto with = [](const nlohmann::json& more) {
    nlohmann::json j = gpt2_dimensions();
    j.update(more);
    return refusal(j);
  };
  EXPECT_EQ(with(nlohmann::json::object()), "accepted");
  EXPECT_NE(with({{"n_kv", 2}}).find("n_kv is 2; in the architecture gpt2 it is n_heads, 4"), std::string::npos);
  EXPECT_NE(with({{"d_head", 8}}).find("4 heads of width 8 are not d_model, 24"), std::string::npos);
  EXPECT_NE(with({{"window", 8}}).find("layer 0: window is 8; in the architecture gpt2 it is 0"), std::string::npos);
  EXPECT_NE(with({{"qk_norm", true}}).find("layer 0: qk_norm is true; in the architecture gpt2 it is false"),
            std::string::npos);
  EXPECT_NE(with({{"biases", {"attn_q"}}}).find("biases is [\"attn_q\"]; in the architecture gpt2 it is"),
            std::string::npos);
  EXPECT_NE(with({{"rope_base", 500}}).find("unknown key 'rope_base'"), std::string::npos);
  EXPECT_NE(with({{"rms_eps", 1e-5}}).find("unknown key 'rms_eps'"), std::string::npos);
  EXPECT_NE(with({{"architecture", "gpt3"}}).find("'gpt3' is not supported; supported: llama, gpt2"),
            std::string::npos);
  ModelSpec m = spec_from_json(gpt2_dimensions(), "x.json");
  m.architecture = "llama";
  EXPECT_THROW(m.validate(), Error);
}

// Files that differ from a sound one in one key or tensor.
class Gpt2File : public ::testing::Test {
 protected:
  std::string refusal(const std::string& without, const std::string& key = "", const gguf::Value& value = uint32_t(0),
                      const std::string& tensor = "") {
    const std::map<std::string, gguf::Value> sound{
        {"gpt2.embedding_length", uint32_t(24)},    {"gpt2.context_length", uint32_t(32)},
        {"gpt2.block_count", uint32_t(2)},          {"gpt2.feed_forward_length", uint32_t(40)},
        {"gpt2.attention.head_count", uint32_t(4)}, {"gpt2.attention.layer_norm_epsilon", 1e-5f}};
    gguf::Writer w("gpt2");
    for (const auto& [name, v] : sound)
      if (name != without) w.set(name, v);
    if (!key.empty()) w.set(key, value);
    std::vector<float> zeros(256 * 40);
    for (const FileTensor& t : file_tensors(spec_from_json(gpt2_dimensions(), "x.json")))
      if (t.name != without) w.add(t.name, View(zeros.data(), DType::f32, t.shape), DType::f32);
    if (!tensor.empty()) w.add(tensor, View(zeros.data(), DType::f32, {24}), DType::f32);
    const testing::Folder folder;
    const std::string path = folder.path("model.gguf");
    w.finish(path);
    std::string text = "accepted";
    try {
      spec_from_gguf(gguf::File::open(path));
    } catch (const Error& e) {
      text = e.what();
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(text.find(path), std::string::npos) << text;
    }
    return text;
  }
};

TEST_F(Gpt2File, MissingMetadataAndTensorsAreNamed) {
  EXPECT_EQ(refusal(""), "accepted");
  for (const char* name :
       {"gpt2.embedding_length", "gpt2.context_length", "gpt2.block_count", "gpt2.feed_forward_length",
        "gpt2.attention.head_count", "gpt2.attention.layer_norm_epsilon", "token_embd.weight", "position_embd.weight",
        "blk.1.attn_qkv.weight", "blk.0.attn_qkv.bias", "blk.0.attn_norm.bias", "output_norm.bias"}) {
    EXPECT_NE(refusal(name).find(name), std::string::npos) << name;
  }
}

TEST_F(Gpt2File, UnknownMetadataAndTensorsAreNamed) {
  for (const char* key : {"gpt2.rope.freq_base", "gpt2.attention.sliding_window", "gpt2.attention.scale", "gpt2.x"})
    EXPECT_NE(refusal("", key, 1.0f).find(fmt::format("metadata key {} is not known", key)), std::string::npos);
  EXPECT_NE(refusal("", "gpt2.expert_count", uint32_t(4)).find("gpt2.expert_count is 4; only 0"), std::string::npos);
  EXPECT_NE(refusal("", "gpt2.attention.head_count_kv", uint32_t(2)).find("head_count_kv is 2"), std::string::npos);
  EXPECT_NE(refusal("", "gpt2.attention.key_length", uint32_t(8)).find("key_length is 8"), std::string::npos);
  EXPECT_NE(refusal("", "gpt2.attention.head_count", uint32_t(5)).find("head_count is 5"), std::string::npos);
  EXPECT_NE(refusal("", "gpt2.context_length", uint32_t(33)).find("'position_embd.weight' is [32,24]"),
            std::string::npos);
  for (const char* tensor : {"rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight"})
    EXPECT_NE(refusal("", "", uint32_t(0), tensor).find(tensor), std::string::npos);
  EXPECT_EQ(refusal("", "gpt2.attention.key_length", uint32_t(6)), "accepted");
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

class LlamaFile : public ::testing::Test {
 protected:
  // A file of the smallest sound model, with more metadata and more tensors.
  gguf::File file(const std::vector<std::pair<std::string, gguf::Value>>& metadata, const std::string& tensor = "") {
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

  const testing::Folder folder_;
  const std::string path_ = folder_.path("model.gguf");
};

TEST_F(LlamaFile, DefaultsOfRopeScalingAreThoseOfLlamaCpp) {
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

TEST_F(LlamaFile, WarnsOfWhatIsNotHonoured) {
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

// A model that was trained further is still under its license, and still chats.
TEST_F(LlamaFile, WhatIsForOthersIsKept) {
  const std::vector<std::pair<std::string, gguf::Value>> theirs{{"general.license", std::string("mit")},
                                                                {"tokenizer.chat_template", std::string("{{ x }}")},
                                                                {"tokenizer.ggml.eot_token_id", uint32_t(7)}};
  auto all = theirs;
  all.emplace_back("general.quantization_version", uint32_t(2));  // of this file's weights alone
  all.emplace_back("tokenizer.ggml.model", std::string("none"));
  file(all);
  const auto device = make_reference_device();
  Model model = load_model(path_, *device);
  model.spec.name = "mine";
  const std::string path = folder_.path("saved.gguf");
  save_model(model, path, DType::f32);
  const gguf::File saved = gguf::File::open(path);
  for (const auto& [key, value] : theirs) EXPECT_EQ(saved.metadata().at(key), value) << key;
  EXPECT_EQ(saved.get_string("general.name"), "mine");
  EXPECT_FALSE(saved.has("general.quantization_version"));
}

TEST_F(LlamaFile, UnknownTensorsAreNamedWithTheNearest) {
  EXPECT_EQ(testing::error_of([&] { spec_from_gguf(file({}, "blk.0.attn_norm.bias")); }),
            path_ +
                ": tensor 'blk.0.attn_norm.bias' is not known in the architecture llama as these metadata state it; "
                "the nearest is 'blk.0.attn_norm.weight'");
}

// Arrays of sizes are read, written and computed with.
TEST_F(LlamaFile, LayersOfDifferentSizes) {
  nlohmann::json j = dimensions();
  j["layers"] = {{{"n_heads", 6}, {"n_kv", 2}}, {{"d_ff", 12}}};
  const ModelSpec spec = spec_from_json(j, "x.json");
  const auto device = make_test_device(1);
  save_model(random_model(spec, *device, 1), path_);
  const gguf::File f = gguf::File::open(path_);
  EXPECT_EQ(f.metadata().at("llama.attention.head_count"), gguf::Value(gguf::Array(std::vector<uint32_t>{6, 4})));
  EXPECT_EQ(f.get_u32("llama.attention.key_length"), 6u);
  EXPECT_TRUE(spec_from_gguf(f).layers == spec.layers);
  EXPECT_TRUE(warnings_of(f, spec_from_gguf(f)).empty());
  const std::string key = "llama.feed_forward_length";
  const auto refused = [&](const gguf::Array& value) {
    return testing::error_of([&] { spec_from_gguf(file({{key, value}})); });
  };
  const std::string text = path_ + ": metadata key '" + key + "': expected a number, or one for each of 2 layers";
  EXPECT_EQ(refused(std::vector<uint32_t>{28}), text);
  EXPECT_EQ(refused(std::vector<std::string>{"a", "b"}), text);
  EXPECT_EQ(refused(std::vector<int32_t>{28, -1}), path_ + ": metadata key '" + key + "': -1 does not fit into u32");
}

}  // namespace
}  // namespace toy::spec_test
