// Models of layers of several kinds as data: lists of layers, JSON, files of the architecture `toy`, and files of
// Qwen 3.5 whose metadata contradict each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/files.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/decoder.h"
#include "toy/models/family.h"
#include "toy/models/model.h"
#include "toy/train/trainer.h"

namespace toy::hybrid_test {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::message_of;

// ---- lists of layers

ModelSpec with_layers(const std::string& list, const std::string& size = "tiny") {
  ModelSpec m = model_spec(size);
  set_layers(m, list);
  return m;
}

TEST(LayerLists, SayWhatEachLayerIs) {
  const ModelSpec m = with_layers(" gdn ( conv_width = 0 , delta_width=8) * 3 ,attn(window=128,rope=none) ");
  ASSERT_EQ(m.layers.size(), 4u);
  EXPECT_EQ(m.architecture, "toy");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.layers[i].mixer, MixerKind::gated_delta) << i;
    EXPECT_EQ(std::get<DeltaNet>(m.layers[i].mixer), (DeltaNet{.key_heads = 4, .value_heads = 4, .width = 8})) << i;
  }
  EXPECT_EQ(m.layers[3].mixer, MixerKind::attention);
  EXPECT_EQ(m.layers[3].window, 128);
  EXPECT_EQ(m.layers[3].rope, LayerRope::none);
  EXPECT_TRUE(with_layers("gdn,attn") == with_layers("gdn,attn,gdn,attn"));
  EXPECT_TRUE(with_layers("gdn*1,attn*1") == with_layers("gdn,attn"));
  // What the family can state stays in it.
  EXPECT_TRUE(with_layers("attn") == model_spec("tiny"));
  EXPECT_EQ(with_layers("attn(n_heads=8),attn").architecture, "llama");
  EXPECT_TRUE(with_layers("gdn*3,attn", "hybrid-tiny") == model_spec("hybrid-tiny"));
  EXPECT_EQ(with_layers("attn,gdn*3", "hybrid-tiny").architecture, "qwen35");
  EXPECT_EQ(with_layers("gdn", "hybrid-tiny").architecture, "toy");
}

// Sizes that a JSON file does not give are those that --layers takes.
TEST(LayerLists, InFilesHaveTheUsualSizes) {
  const std::string list = "gdn,kda,mla,mamba2,conv,longconv,attn,ffn";
  const nlohmann::json j = {{"name", "x"},   {"architecture", "toy"}, {"n_layers", 8},
                            {"d_model", 32}, {"n_heads", 2},          {"n_kv", 1},
                            {"d_ff", 40},    {"vocab", 31},           {"context", 64}};
  nlohmann::json with_list = j;
  with_list["layers"] = list;
  ModelSpec m = spec_from_json(j, "x.json");
  set_layers(m, list);
  EXPECT_TRUE(spec_from_json(with_list, "x.json") == m);
  EXPECT_EQ(std::get<DeltaNet>(m.layers[0].mixer).conv, 4);
  EXPECT_EQ(std::get<KimiDelta>(m.layers[1].mixer).width, 16);
  // Each size that is given stays; only the others are the usual ones.
  with_list["layers"] = list, with_list["delta_key_heads"] = 1, with_list["mamba2_width"] = 8;
  m = spec_from_json(with_list, "x.json");
  EXPECT_EQ(std::get<DeltaNet>(m.layers[0].mixer).key_heads, 1);
  EXPECT_EQ(std::get<DeltaNet>(m.layers[0].mixer).value_heads, 2);
  EXPECT_EQ(std::get<MambaSizes>(m.layers[3].mixer).heads, 8);  // twice d_model
  with_list["mixer"] = "gated_delta", with_list["layers"] = "gdn*7,attn";
  EXPECT_EQ(std::get<DeltaNet>(spec_from_json(with_list, "x.json").layers[0].mixer).conv, 4);
  with_list["conv_width"] = 0, with_list["layers"] = "gdn*8";  // given, so it stays
  EXPECT_EQ(std::get<DeltaNet>(spec_from_json(with_list, "x.json").layers[0].mixer).conv, 0);
}

// A size is said once where all layers that have it agree. Those of mixers that a layer does not have mean nothing.
TEST(LayerLists, OfFilesHaveTheSizesOfTheirMixers) {
  const nlohmann::json all = to_json(with_layers("gdn(delta_width=8),attn,kda(delta_width=8,conv_width=3),attn"));
  EXPECT_EQ(all.at("delta_width"), 8);
  EXPECT_EQ(all.at("delta_key_heads"), 4);
  EXPECT_FALSE(all.contains("conv_width") || all.contains("mixer"));
  const nlohmann::json layers = nlohmann::json::parse(
      R"([{"mixer": "gated_delta", "conv_width": 4}, {}, {"mixer": "kimi_delta", "conv_width": 3}, {}])");
  EXPECT_EQ(all.at("layers"), layers);
  nlohmann::json with_others = all;
  with_others["mamba2_width"] = 5, with_others["layers"][1]["delta_width"] = 99;
  for (const nlohmann::json& j : {all, with_others})
    EXPECT_EQ(nlohmann::json(to_json(spec_from_json(j, "x.json"))), all);
  ModelSpec m = with_layers("gdn(delta_width=8),attn");
  set_layers(m, "kda,gdn");  // sizes with the same keys stay; others are those of a layer that has them
  EXPECT_EQ(std::get<KimiDelta>(m.layers[0].mixer).width, 8);
  EXPECT_EQ(std::get<DeltaNet>(m.layers[1].mixer).width, 8);
}

TEST(LayerLists, AreRefusedWithTheirPosition) {
  const auto refusal = [](const std::string& list) {
    ModelSpec m = model_spec("tiny");
    const std::string text = message_of([&] { set_layers(m, list); });
    EXPECT_TRUE(m == model_spec("tiny")) << list;  // as before
    const std::string head = "layers '" + list + "': ";
    return text.starts_with(head) ? text.substr(head.size()) : text;
  };
  EXPECT_EQ(refusal("attn,gdn(window=128)"), "layer 1: the mixer gated_delta has no window");
  EXPECT_EQ(refusal("mla(differential=true)"), "layer 0: the mixer latent has no differential");
  EXPECT_EQ(refusal("kda(latent_width=7)"), "layer 0: the mixer kimi_delta has no latent_width");
  EXPECT_EQ(refusal("kda(delta_key_heads=2)"), "layer 0: the mixer kimi_delta has no delta_key_heads");
  EXPECT_EQ(refusal("gdn(mixer=attention)"), "the mixer stands in front of the brackets");
  EXPECT_EQ(refusal("attn(rope_dims=-2)"),
            "model tiny: rope_dims is -2, expected an even number of at most d_head, 16, or 0 for all");
  const std::string name = "expected one of attn, gdn, mamba2, conv, longconv, kda, mla, ffn at character ",
                    close = "expected ')' at character ";
  EXPECT_EQ(refusal(""), name + "1");
  EXPECT_EQ(refusal("  "), name + "3");
  const std::string use = "; use one of attn, gdn, mamba2, conv, longconv, kda, mla, ffn";
  EXPECT_EQ(refusal("zzz"), "layers: there is no 'zzz'" + use);
  EXPECT_EQ(refusal("attn, zzz *2"), "there is no 'zzz'" + use);
  EXPECT_EQ(refusal("gated_delta"), "layers: there is no 'gated_delta'" + use);
  EXPECT_EQ(refusal("attention"), "layers: there is no 'attention'; did you mean 'attn'?");
  EXPECT_EQ(refusal("attn,"), name + "6");
  EXPECT_EQ(refusal(",attn"), name + "1");
  EXPECT_EQ(refusal("gdn*3;attn"), "expected ',' or the end at character 6");
  EXPECT_EQ(refusal("gdn attn"), "layers: there is no 'gdn attn'" + use);
  EXPECT_EQ(refusal("gdn*"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*x"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*99999999999999999999"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*0"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*-1"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*4097"), "expected a number from 1 to 4096 at character 5");
  EXPECT_EQ(refusal("gdn*4096,attn"), "more than 4096 layers");
  EXPECT_EQ(refusal("attn(window=3"), close + "14");
  EXPECT_EQ(refusal("attn(window)"), "expected '=' at character 12");
  EXPECT_EQ(refusal("attn(window=3))"), "expected ',' or the end at character 15");
  EXPECT_EQ(refusal("attn(,)"), "expected a setting at character 6");
  EXPECT_EQ(refusal("attn(window=3,window=4)"), "expected each setting once at character 15");
  EXPECT_EQ(refusal("attn(windw=3)"), "layer 0: unknown key 'windw'; did you mean 'window'?");
  EXPECT_EQ(refusal("gdn,attn(window=)"), "layer 1: 'window' is \"\", expected a whole number of 64 bits");
  EXPECT_EQ(refusal("gdn,attn(rope=nowhere)"), "layer 1: 'rope' is \"nowhere\"; there are: global, local, none");
  EXPECT_EQ(refusal("gdn*3"), "a list of 3 layers does not repeat in a model of 4 layers");
  EXPECT_EQ(refusal("gdn*8"), "a list of 8 layers does not repeat in a model of 4 layers");
  expect_contains(refusal("gdn(delta_key_heads=3)"), "layer 0: 4 value heads are not a multiple of 3 key heads");
  expect_contains(refusal("gdn(delta_width=0)"), "layer 0: delta_width is 0, expected 1 to 1024");
  expect_contains(refusal("attn(window=-1)"), "layer 0: window is -1");
  expect_contains(refusal("gdn,attn(shared_kv=true)"),
                  "layer 1: shared_kv, but no earlier layer without a window has its own keys and values");
}

// A family of a program cannot hold them either.
TEST(LayerLists, LeaveTheFamilyOfAProgram) {
  Family f;
  f.defaults = model_spec("tiny");
  f.defaults.architecture = "mine", f.defaults.layers.resize(1);
  f.read = [](Metadata&, ModelSpec&) {};
  f.write = [](MetadataWriter&, const ModelSpec&) {};
  ModelSpec m = spec_of(std::make_shared<const Family>(std::move(f)));
  m.validate();
  set_layers(m, "gdn");
  EXPECT_EQ(m.architecture, "toy");
  EXPECT_EQ(m.family, nullptr);
}

// ---- JSON

TEST(HybridJson, RoundTrip) {
  std::vector<ModelSpec> specs;
  for (const char* json : {testing::kQwen35, testing::kQwen3Next, testing::kHybridWithWindows,
                           testing::kHybridWithSharedKv, testing::kOnlyRecurrent})
    specs.push_back(spec_from_json(nlohmann::json::parse(json), "x.json"));
  for (const char* size : {"hybrid-tiny", "hybrid-60m"}) specs.push_back(model_spec(size));
  for (const char* size : {"tiny", "gpt2-tiny", "hybrid-tiny"})
    for (const char* list :
         {"gdn*3,attn", "gdn", "attn(window=24),attn", "attn(window=24,qk_norm=rows)",
          "gdn(conv_width=0),attn(n_heads=8,n_kv=8,d_head=8,ffn=geglu),gdn(delta_heads=tile,d_ff=96),attn(v_norm=true)",
          "attn(rope=none)*2,gdn(delta_packed=true,delta_heads=interleave,delta_key_heads=2)*2",
          "attn(attention_softcap=30.5)*3,gdn"})
      specs.push_back(with_layers(list, size));
  specs.push_back(with_layers("gdn*3,attn"));
  for (LayerSpec& l : specs.back().layers) l.norm_place = NormPlace::both;
  specs.back().embedding_scale = 0, specs.back().tied = false;
  specs.push_back(with_layers("gdn*3,attn(window=9)"));
  specs.back().rope = {.scaling = RopeSpec::Scaling::yarn, .factor = 4, .original_context = 64};
  for (const ModelSpec& m : specs) {
    m.validate();
    const ModelSpec again = spec_from_json(nlohmann::json(to_json(m)), "x.json");
    EXPECT_TRUE(again == m) << to_json(m).dump() << "\n" << to_json(again).dump();
  }
}

// ---- files of the architecture `toy`

class ToyFile : public ::testing::Test, protected testing::Folder {
 protected:
  // The file of a model, with a key left out or another value. Of tensors as they are.
  std::string change(const std::string& from, const std::string& without,
                     const std::map<std::string, gguf::Value>& more, const std::string& renamed = "",
                     const std::string& name = "") const {
    const gguf::File f = gguf::File::open(from);
    gguf::Writer w(f.get_string("general.architecture"));
    for (const auto& [key, value] : f.metadata())
      if (key != "general.architecture" && key != without) w.set(key, value);
    for (const auto& [key, value] : more) w.set(key, value);
    for (const gguf::TensorInfo& t : f.tensors())
      w.add(t.name == renamed ? name : t.name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), *t.dtype);
    w.finish(path("changed.gguf"));
    return path("changed.gguf");
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
};

TEST_F(ToyFile, RoundTrip) {
  std::vector<ModelSpec> specs;
  for (const char* json : {testing::kHybridWithWindows, testing::kOnlyRecurrent})
    specs.push_back(spec_from_json(nlohmann::json::parse(json), "x.json"));
  for (const char* size : {"hybrid-tiny", "gpt2-tiny"}) specs.push_back(with_layers("gdn,attn(window=24)", size));
  for (const ModelSpec& spec : specs) {
    const Model model = random_model(spec, *device_, 3);
    save_model(model, path("m.gguf"));
    const Model again = load_model(path("m.gguf"), *device_);
    EXPECT_TRUE(again.spec == model.spec) << to_json(again.spec).dump();
    EXPECT_EQ(again.warnings, std::vector<std::string>());
    for (const TensorSpec& t : tensors_of(model.spec)) {
      const std::vector<float> a = model.params->read(t.name), b = again.params->read(t.name);
      for (size_t i = 0; i < a.size(); ++i)
        if (t.in_file == TensorSpec::InFile::same)
          ASSERT_EQ(a[i], b[i]) << t.name;
        else  // log(exp(w)): w is rounded once, exp(w) by half a unit, which is as much of the logarithm, absolutely
          ASSERT_NEAR(a[i], b[i], 0x1p-24 * (1 + 2 * std::abs(a[i]))) << t.name;
    }
  }
}

TEST_F(ToyFile, BrokenDimensionsAreRefused) {
  const ModelSpec spec = spec_from_json(nlohmann::json::parse(testing::kHybridWithWindows), "x.json");
  save_model(random_model(spec, *device_, 3), path("m.gguf"));
  const auto refusal = [&](const std::string& without, const std::map<std::string, gguf::Value>& more) {
    const std::string file = change(path("m.gguf"), without, more);
    const std::string text = message_of([&] { spec_from_gguf(gguf::File::open(file)); });
    EXPECT_TRUE(text.starts_with(file + ": ")) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << text;
    EXPECT_EQ(text, message_of([&] { load_model(file, *device_); }));
    return text;
  };
  const std::string key = "toy.dimensions";
  expect_contains(refusal(key, {}), key);
  for (const char* text : {"", "{", "not JSON", "{\"d_model\": 64,}"}) expect_contains(refusal("", {{key, text}}), key);
  for (const char* text : {"[]", "5", "null", "\"text\""}) {
    expect_contains(refusal("", {{key, text}}), key);
    expect_contains(refusal("", {{key, text}}), "expected a JSON object of dimensions");
  }
  expect_contains(refusal("", {{key, std::string(100000, '[')}}), "levels");
  expect_contains(refusal("", {{key, uint32_t(5)}}), key);
  const auto with = [&](const char* name, const nlohmann::json& value) {
    nlohmann::json j(to_json(spec));
    j[name] = value;
    return refusal("", {{key, j.dump()}});
  };
  const std::string others = "d_model, n_layers and context are ";
  expect_contains(with("d_model", 32), others + "32, 6 and 200; other keys say 64, 6 and 200");
  expect_contains(with("context", 100), others + "64, 6 and 100");
  expect_contains(refusal("", {{"toy.block_count", uint32_t(5)}}), "other keys say 64, 5 and 200");
  expect_contains(with("n_layers", 3), "layer");
  expect_contains(with("architecture", "llama"), "in the architecture llama it is");
  expect_contains(with("architecture", "nothing"), key);
  expect_contains(with("vocab", 60), "token_embd.weight");
  expect_contains(with("d_ff", 95), "ffn_gate.weight");
  expect_contains(with("tied", true), "'output.weight' is not known");
  expect_contains(with("delta_width", 15), "is [");
  expect_contains(with("windows", 3), "unknown key 'windows'; did you mean 'window'?");
  expect_contains(with("d_model", "wide"), "'d_model'");
  expect_contains(with("layers", nlohmann::json::array()), "'layers'");
  expect_contains(with("layers", "gdn*5"), "a list of 5 layers");
  expect_contains(with("layers", "gdn*6"), "blk.2.attn");
  // What another architecture could state is not this one.
  save_model(random_model(with_layers("attn(window=9),attn"), *device_, 3), path("m.gguf"));
  nlohmann::json llama(to_json(model_spec("tiny")));
  expect_contains(refusal("", {{key, llama.dump()}}), key + ": architecture is 'llama', expected 'toy'");
  // Tensors of a layer of the other kind.
  save_model(random_model(spec, *device_, 3), path("m.gguf"));
  const std::string other = change(path("m.gguf"), "", {}, "blk.0.ssm_out.weight", "blk.0.attn_output.weight");
  expect_contains(message_of([&] { spec_from_gguf(gguf::File::open(other)); }), "'blk.0.ssm_out.weight' is missing");
}

// ---- a Llama, said in another way

TEST(ToyArchitecture, APlainLlamaHasTheSameBits) {
  const auto device = make_test_device(2);
  ModelSpec plain = testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 40, .context = 64, .tied = false, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52});
  ModelSpec stated = plain;
  stated.architecture = "toy";
  stated = spec_from_json(nlohmann::json(to_json(stated)), "x.json");
  const testing::Folder folder;
  std::vector<std::vector<float>> logits, weights;
  std::vector<double> losses;
  for (const ModelSpec& spec : {plain, stated}) {
    const std::string file = folder.path(spec.architecture + ".gguf");
    save_model(random_model(spec, *device, 3, 2.0), file);
    Model model = load_model(file, *device, LoadMode::trainable);
    EXPECT_EQ(model.spec.architecture, spec.architecture);
    Decoder d(*device, model, {});
    logits.push_back(testing::all_logits(d, 0, testing::random_ids(60, 61, Philox(7, "a")), 60));
    Trainer trainer(*device, model, {.batch = 2, .tokens = 20});
    const Windows batch{testing::random_ids(40, 61, Philox(7, "b")), testing::random_ids(40, 61, Philox(7, "c"))};
    for (int step = 0; step < 2; ++step) losses.push_back(trainer.step(batch, 1e-2).loss);
    std::vector<float>& all = weights.emplace_back();
    for (const TensorSpec& t : tensors_of(spec)) {
      const std::vector<float> values = model.params->read(t.name);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  EXPECT_TRUE(testing::same_bits(logits[0], logits[1]));
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(losses[1], losses[3]);
  EXPECT_TRUE(testing::same_bits(weights[0], weights[1]));
}

// ---- files of Qwen 3.5: three layers, of which the second is attention; 2 key heads, 6 value heads of width 8

class Qwen35File : public ::testing::Test {
 protected:
  std::string refusal(const std::string& without, const std::map<std::string, gguf::Value>& more = {}) {
    const std::string file = g_.write(without, more);
    const std::string text = message_of([&] { load_model(file, *device_); });
    EXPECT_TRUE(text.starts_with(file + ": ")) << text;
    return text;
  }
  static std::string key(const char* name) { return std::string("qwen35.") + name; }
  std::unique_ptr<Device> device_ = make_test_device(1);
  const testing::GoldenFamily g_{"qwen35"};
  const testing::Folder folder_;
};

TEST_F(Qwen35File, MissingMetadataAreNamed) {
  for (const char* name : {"rope.dimension_count", "rope.freq_base", "rope.dimension_sections", "ssm.conv_kernel",
                           "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "attention.head_count",
                           "block_count", "feed_forward_length", "attention.layer_norm_rms_epsilon"})
    expect_contains(refusal(key(name)), key(name));
  EXPECT_EQ(error_of([&] { load_model(g_.write(key("ssm.inner_size")), *device_); }), "no error");
  // The list says the same as the interval, 2.
  EXPECT_EQ(error_of([&] { load_model(g_.write(key("attention.recurrent_layers")), *device_); }), "no error");
  EXPECT_EQ(error_of([&] { load_model(g_.write(key("full_attention_interval")), *device_); }), "no error");
}

TEST_F(Qwen35File, MetadataThatContradictEachOther) {
  const auto with = [&](const char* name, gguf::Value value) { return refusal("", {{key(name), std::move(value)}}); };
  const uint32_t huge = std::numeric_limits<uint32_t>::max();
  expect_contains(with("ssm.group_count", uint32_t(4)), "6 value heads are not a multiple of 4 key heads");
  expect_contains(with("ssm.group_count", uint32_t(0)), "delta_key_heads is 0");
  expect_contains(with("ssm.group_count", uint32_t(3)), "attn_qkv.weight");
  expect_contains(with("ssm.time_step_rank", uint32_t(4)), "qwen35.ssm.inner_size is 48; only 32");
  expect_contains(with("ssm.inner_size", uint32_t(47)), "qwen35.ssm.inner_size is 47; only 48");
  expect_contains(with("ssm.state_size", uint32_t(16)), "qwen35.ssm.inner_size is 48; only 96");
  expect_contains(with("ssm.state_size", huge), "qwen35.ssm.state_size is 4294967295, expected 1 to 1024");
  for (const char* without : {"", "qwen35.ssm.inner_size"}) {
    const std::map<std::string, gguf::Value> both{{key("ssm.state_size"), huge}, {key("ssm.time_step_rank"), huge}};
    expect_contains(refusal(without, both), "qwen35.ssm.state_size is 4294967295");
  }
  expect_contains(refusal(key("ssm.inner_size"), {{key("ssm.time_step_rank"), huge}}), "delta_value_heads");
  expect_contains(refusal(key("ssm.inner_size"), {{key("ssm.state_size"), uint32_t(0)}}), "delta_width is 0");
  expect_contains(with("ssm.conv_kernel", uint32_t(0)), "conv_width is 0");
  expect_contains(with("ssm.conv_kernel", uint32_t(1)), "blk.0.ssm_conv1d.weight");
  expect_contains(with("ssm.conv_kernel", huge), "conv_width is 4294967295");
  expect_contains(with("attention.head_count", uint32_t(3)), "not a multiple of 2 kv heads");
  expect_contains(with("full_attention_interval", uint32_t(0)), "qwen35.full_attention_interval is 0");
  const std::string kinds = "needs layers of both kinds", list = "attention.recurrent_layers";
  using Flags = std::vector<bool>;
  for (const bool all : {false, true}) expect_contains(with(list.c_str(), gguf::Array(Flags(3, all))), kinds);
  for (const size_t n : {size_t(0), size_t(2), size_t(4)})
    expect_contains(with(list.c_str(), gguf::Array(Flags(n, true))), key(list.c_str()));
  expect_contains(with(list.c_str(), gguf::Array(Flags{false, true, true})), "blk.0.attn_q.weight' is missing");
  expect_contains(with(list.c_str(), gguf::Array(Flags{true, true, false})), "blk.1.attn_qkv.weight' is missing");
  expect_contains(refusal(key(list.c_str()), {{key("full_attention_interval"), uint32_t(1)}}), kinds);
  expect_contains(refusal(key(list.c_str()), {{key("full_attention_interval"), huge}}), kinds);
  expect_contains(refusal(key(list.c_str()), {{key("full_attention_interval"), uint32_t(3)}}), "is missing");
}

TEST_F(Qwen35File, SectionsAreThoseOfThePairsThatTurn) {
  const auto with = [&](gguf::Value value) {
    return refusal("", {{key("rope.dimension_sections"), std::move(value)}});
  };
  using Numbers = std::vector<int32_t>;
  const std::string name = key("rope.dimension_sections");
  for (const Numbers& short_ones : {Numbers{0, 1, 0, 0}, Numbers{1, 0, 0, 0}, Numbers{0, 0, 0, 2}})
    expect_contains(with(gguf::Array(short_ones)), "but 2 pairs turn");
  for (const Numbers& odd : {Numbers{}, Numbers{1, 1}, Numbers{1, 1, 0}, Numbers{1, 1, 0, 0, 0}, Numbers{1, -1, 0, 0}})
    expect_contains(with(gguf::Array(odd)), name);
  expect_contains(with(gguf::Array(Numbers{1, 1})),
                  name + "' is a list of 2, expected 4 sections, at least 1, 1, 0, 0");
  expect_contains(with(std::string("1,1")), name);
  EXPECT_EQ(error_of([&] {
              load_model(g_.write("", {{name, gguf::Array(Numbers{9, 9, 9, 0})}}), *device_);
            }),
            "no error");
  for (const uint32_t turned : {uint32_t(3), uint32_t(18), uint32_t(1) << 31, std::numeric_limits<uint32_t>::max()})
    EXPECT_NE(refusal("", {{key("rope.dimension_count"), turned}}), "") << turned;
}

TEST_F(Qwen35File, BlocksThatPredictAreLeftOut) {
  const auto with = [&](uint32_t n) { return refusal("", {{key("nextn_predict_layers"), n}}); };
  for (const uint32_t n : {uint32_t(3), uint32_t(9), std::numeric_limits<uint32_t>::max()})
    expect_contains(with(n), "qwen35.nextn_predict_layers is " + std::to_string(n) + " of 3 blocks");
  expect_contains(with(2), "needs layers of both kinds");
  // One of four, with a tensor that belongs to it and one that does not.
  const auto file = [&](const std::string& tensor) {
    const gguf::File f = gguf::File::open(
        g_.write("", {{key("nextn_predict_layers"), uint32_t(1)},
                      {key("block_count"), uint32_t(4)},
                      {key("attention.recurrent_layers"), gguf::Array(std::vector<bool>{true, false, true, false})}}));
    gguf::Writer w("qwen35");
    for (const auto& [k, value] : f.metadata())
      if (k != "general.architecture") w.set(k, value);
    for (const gguf::TensorInfo& t : f.tensors())
      w.add(t.name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), *t.dtype);
    const float zero = 0;
    w.add(tensor, View(const_cast<float*>(&zero), DType::f32, {1}), DType::f32);
    w.finish(folder_.path("predicting.gguf"));
    return folder_.path("predicting.gguf");
  };
  const Model model = load_model(file("blk.3.nextn.eh_proj.weight"), *device_);
  EXPECT_EQ(model.spec.layers.size(), 3u);
  ASSERT_EQ(model.warnings.size(), 1u);
  expect_contains(model.warnings[0], "the last 1 of 4 blocks predict further tokens");
  expect_contains(error_of([&] { load_model(file("blk.3.nextn.mystery.weight"), *device_); }), "is not known");
  expect_contains(error_of([&] { load_model(file("blk.2.nextn.eh_proj.weight"), *device_); }), "is not known");
}

TEST_F(Qwen35File, RatesAreNegative) {
  const gguf::File f = gguf::File::open(g_.write());
  for (const float bad : {0.0f, 0.5f, -INFINITY, NAN}) {
    gguf::Writer w("qwen35");
    for (const auto& [k, value] : f.metadata())
      if (k != "general.architecture") w.set(k, value);
    std::deque<std::vector<float>> kept;
    for (const gguf::TensorInfo& t : f.tensors()) {
      const float* from = reinterpret_cast<const float*>(t.data);
      std::vector<float>& values = kept.emplace_back(from, from + t.shape.count());
      if (t.name == "blk.2.ssm_a") values[4] = bad;
      w.add(t.name, View(values.data(), DType::f32, t.shape), DType::f32);
    }
    w.finish(folder_.path("rates.gguf"));
    const std::string text = message_of([&] { load_model(folder_.path("rates.gguf"), *device_); });
    EXPECT_EQ(text, fmt::format("{}: tensor 'blk.2.ssm_a': element 4 is {}, expected below 0",
                                folder_.path("rates.gguf"), bad));
  }
}

// Also after a training that diverged, a file can be read again.
TEST_F(Qwen35File, RatesThatOverflowAreStillRates) {
  Model m = random_model(model_spec("hybrid-tiny"), *device_, 3);
  m.params->write("blk.0.ssm_a_log", std::vector<float>{1000, -1000, 0, 88.9f});
  save_model(m, folder_.path("diverged.gguf"));
  const Model again = load_model(folder_.path("diverged.gguf"), *device_);
  for (const float a : again.params->read("blk.0.ssm_a_log")) EXPECT_TRUE(std::isfinite(a)) << a;
}

TEST_F(Qwen35File, FiltersMayBeStoredInF16) {
  const gguf::File f = gguf::File::open(g_.write());
  gguf::Writer w("qwen35");
  for (const auto& [k, value] : f.metadata())
    if (k != "general.architecture") w.set(k, value);
  for (const gguf::TensorInfo& t : f.tensors())
    w.add(t.name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape),
          t.name.find("conv1d") == std::string::npos ? *t.dtype : DType::f16);
  w.finish(folder_.path("f16.gguf"));
  const Model m = load_model(folder_.path("f16.gguf"), *device_);
  EXPECT_EQ(m.params->host("blk.0.ssm_conv1d.weight").view().dtype, DType::f32);
}

TEST_F(Qwen35File, TensorsOfTheOtherKindAreRefused) {
  for (const char* name : {"blk.0.ssm_out.weight", "blk.0.ssm_a", "blk.2.ssm_dt.bias", "blk.2.ssm_conv1d.weight",
                           "blk.1.attn_q.weight", "blk.1.attn_k_norm.weight", "blk.0.ssm_norm.weight"})
    expect_contains(refusal(name), std::string("the tensor '") + name + "' is missing");
}

}  // namespace
}  // namespace toy::hybrid_test
