// Lists of layers of all kinds, and what is refused of them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "models/fields.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/models/model.h"
#include "toy/models/transformer.h"
#include "toy/runtime/evaluate.h"
#include "toy/train/trainer.h"

namespace toy::mixers_test {
namespace {

using nlohmann::json;

json hybrid(const std::string& architecture, const char* layers, int64_t n) {
  json j{{"architecture", architecture},
         {"d_model", 32},
         {"n_layers", n},
         {"n_heads", 4},
         {"n_kv", 2},
         {"d_ff", 40},
         {"vocab", 31},
         {"context", 64},
         {"layers", layers},
         {"conv_width", 4}};
  if (!architecture.starts_with("lfm2")) j["mamba2_heads"] = j["mamba2_width"] = 8, j["mamba2_state"] = 6;
  return j;
}

std::string refusal(json j, const json& more = json::object()) {
  j.update(more);
  return testing::error_of([&] { spec_from_json(j, "x.json"); });
}

TEST(Mixers, KeysAreDimensionsOfLayersAndHaveOnePlace) {
  for (const MixerDef& mixer : mixers()) {
    std::vector<std::string> keys;
    const LayerSpec layer{.mixer = mixer.kind};
    EXPECT_EQ(MixerKind(layer.mixer), mixer.kind);
    visit_fields_of_layer(layer, [&](const char* key, const auto&) { keys.push_back(key); });
    EXPECT_EQ(&mixer, &mixer_of(mixer.kind));
    std::vector<std::string_view> read = mixer.also;
    for (const MixerField& f : mixer.fields) read.push_back(f.key);
    for (const std::string_view key : read)
      EXPECT_EQ(std::count(keys.begin(), keys.end(), key), 1) << name_of(mixer.kind) << " " << key;
    EXPECT_EQ(mixer.usual_conv > 0, mixer.has("conv_width")) << name_of(mixer.kind);
  }
}

TEST(Mixers, SizesThatAreRefused) {
  const json toy = hybrid("toy", "mamba2,conv", 2);
  const auto refused = [&](const json& more) { return refusal(toy, more); };
  EXPECT_EQ(refused({{"mamba2_heads", -1}}), "model x.json: layer 0: mamba2_heads is -1, expected 1 to 4096");
  EXPECT_EQ(refused({{"mamba2_width", 1025}}), "model x.json: layer 0: mamba2_width is 1025, expected 1 to 1024");
  EXPECT_EQ(refused({{"mamba2_state", -1}}), "model x.json: layer 0: mamba2_state is -1, expected 1 to 1024");
  EXPECT_EQ(refused({{"mamba2_groups", 3}}),
            "model x.json: layer 0: mamba2_heads 8 is not a multiple of mamba2_groups 3");
  EXPECT_EQ(refused({{"conv_width", 0}}), "model x.json: layer 1: conv_width is 0, expected 1 to 1024");
  EXPECT_EQ(refused({{"layers", "longconv(conv_width=65537)"}}),
            "model x.json: layer 0: conv_width is 65537, expected 1 to 65536");
  EXPECT_EQ(refused({{"layers", "ffn(d_ff=0)"}}), "model x.json: layer 0: mixer is none and d_ff 0, so it has nothing");
  EXPECT_EQ(refused({{"d_ff", 0}, {"experts", 4}, {"experts_used", 2}}),
            "model x.json: layer 0: experts are 4, but d_ff is 0");
  EXPECT_EQ(refused({{"experts", 4}, {"experts_used", 2}, {"experts_scale", 0}}),
            "model x.json: layer 0: experts_sum_eps is 0 and experts_scale 0, expected at least 0 and above 0");
  EXPECT_EQ(refused({{"layers", "mamba,conv"}}), "layers 'mamba,conv': there is no 'mamba'; did you mean 'mamba2'?");
  // What only other kinds have is not looked at.
  for (const json& more : {json{{"n_kv", 3}}, json{{"d_head", 5}}, json{{"rope_dims", 99}}, json{{"delta_width", -1}}})
    EXPECT_EQ(refused(more), "no error");
  EXPECT_EQ(refused({{"delta_width", "x"}}), "x.json: 'delta_width' is \"x\", expected a whole number of 64 bits");
  EXPECT_EQ(refused({{"n_kv", 3}, {"layers", "conv,attn"}}),
            "model x.json: layer 1: 4 query heads are not a multiple of 3 kv heads");
  EXPECT_EQ(testing::error_of([] {
              ModelSpec m = model_spec("tiny");
              for (LayerSpec& l : m.layers) l.d_ff = 0;
              m.validate();
            }),
            "model tiny: d_ff is 0, expected 1 to 1048576");
}

TEST(Mixers, ModelsThatFilesCannotHold) {
  EXPECT_EQ(refusal(hybrid("lfm2", "conv,conv", 2)),
            "model x.json: 0 layers of attention and 2 short_conv, of 2; the architecture lfm2 needs both, and has no "
            "others");
  EXPECT_EQ(refusal(hybrid("lfm2", "conv,attn,ffn", 3)),
            "model x.json: 1 layers of attention and 1 short_conv, of 3; the architecture lfm2 needs both, and has no "
            "others");
  EXPECT_EQ(refusal(hybrid("granitehybrid", "mamba2,attn", 2), {{"mamba2_heads", 4}}),
            "model x.json: 4 mamba2 heads of width 8 are not twice d_model, 32, which the architecture granitehybrid "
            "needs");
  EXPECT_EQ(refusal(hybrid("granitehybrid", "mamba2(d_ff=0),attn", 2)),
            "model x.json: layer 0: d_ff is 0; in the architecture granitehybrid every layer has an ffn");
  EXPECT_EQ(refusal(hybrid("granitehybrid", "mamba2(mamba2_groups=2),attn,mamba2", 3)),
            "model x.json: layer 2: mamba2_groups is 1, that of layer 0 is 2; a file of the architecture granitehybrid "
            "has one for all layers");
  EXPECT_EQ(refusal(hybrid("nemotron_h", "mamba2,ffn,attn", 3)),
            "model x.json: layer 0: d_ff is 40; in the architecture nemotron_h a layer with a mixer has no ffn, 0");
  EXPECT_EQ(
      refusal(hybrid("nemotron_h", "mamba2(d_ff=0),ffn", 2)),
      "model x.json: layers of mamba2, attention and none are 1, 0 and 1, of 2; the architecture nemotron_h needs "
      "them, and has no others");
  EXPECT_EQ(
      refusal(hybrid("lfm2moe", "conv,attn(experts=0,experts_used=0),conv", 3), {{"experts", 4}, {"experts_used", 2}}),
      "model x.json: layer 1: experts or d_ff differ from other layers; in the architecture lfm2moe, layers "
      "without experts come first and are alike, and so are those with experts");
}

TEST(Mixers, FilesThatContradictThemselves) {
  const auto refused = [](const char* golden, const std::string& key, const gguf::Value& value) {
    const testing::GoldenFamily family(golden);
    const std::string text = testing::error_of([&] {
      spec_from_gguf(gguf::File::open(family.write("", {{key, value}})));
    });
    return text.substr(text.find(": ") + 2);  // without the path
  };
  EXPECT_EQ(refused("mamba2", "mamba2.ssm.inner_size", uint32_t(121)),
            "mamba2.ssm.inner_size is 121, not a multiple of mamba2.ssm.time_step_rank, 6");
  EXPECT_EQ(refused("mamba2", "mamba2.ssm.time_step_rank", uint32_t(0)),
            "mamba2.ssm.inner_size is 120, not a multiple of mamba2.ssm.time_step_rank, 0");
  EXPECT_EQ(refused("mamba2", "mamba2.ssm.group_count", uint32_t(4)),
            "model mamba2: layer 0: mamba2_heads 6 is not a multiple of mamba2_groups 4");
  EXPECT_EQ(refused("nemotron_h", "nemotron_h.feed_forward_length", uint32_t(56)),
            "layer 2 has both attention and an ffn; expected one");
  EXPECT_EQ(refused("nemotron_h_moe", "nemotron_h_moe.expert_group_count", uint32_t(2)),
            "nemotron_h_moe.expert_group_count is 2; only 1 is supported here");
  EXPECT_EQ(refused("lfm2moe", "lfm2moe.expert_gating_func", uint32_t(1)),
            "lfm2moe.expert_gating_func is 1; only 2 is supported here");
  EXPECT_EQ(refused("kimi_linear", "kimi-linear.attention.key_length", uint32_t(21)),
            "kimi-linear.attention.key_length is 21; only 22 is supported here");
  EXPECT_EQ(refused("kimi_linear", "kimi-linear.expert_shared_count", uint32_t(0)),
            "kimi-linear.expert_shared_count is 0, expected 1 to 4096");
}

// A list replaces the layers of a size; the file holds them, and training changes every tensor.
TEST(Mixers, AListOfAllKindsIsTrainedSavedAndRead) {
  const auto device = make_test_device(2);
  const testing::Folder folder;
  ModelSpec spec = model_spec("hybrid-tiny", 50, 64);
  set_layers(spec, "longconv(conv_width=9), mamba2(mamba2_state=8), conv, ffn");
  EXPECT_EQ(spec.architecture, "toy");
  EXPECT_EQ(std::get<MambaSizes>(spec.layers[1].mixer).heads * std::get<MambaSizes>(spec.layers[1].mixer).width,
            2 * spec.d_model);
  EXPECT_EQ(std::get<ShortConv>(spec.layers[2].mixer).width, 3);
  Model model = random_model(spec, *device, 3);
  std::map<std::string, std::vector<float>> before;
  for (const TensorSpec& t : tensors_of(spec)) {
    before[t.name] = model.params->read(t.name);
    const bool vector = t.shape.rank() == 1 || t.shape.back() == 1 || t.name.ends_with("norm.weight");
    EXPECT_EQ(t.decays(), !vector && t.init != TensorSpec::Init::own) << t.name;
  }
  Windows batch;
  for (int32_t i = 0; i < 64; ++i)
    batch.inputs.push_back((i * 7 + i * i) % 50), batch.targets.push_back((i * 5 + 3) % 50);
  Trainer trainer(*device, model, {.batch = 2, .tokens = 32});
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    last = double(trainer.step(batch, 3e-3).loss);
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first - 0.5);
  for (const TensorSpec& t : tensors_of(spec)) EXPECT_NE(before[t.name], model.params->read(t.name)) << t.name;
  save_model(model, folder.path("model.gguf"));
  const Model again = load_model(folder.path("model.gguf"), *device, LoadMode::trainable);
  EXPECT_TRUE(again.spec == spec);
  EXPECT_EQ(again.warnings, std::vector<std::string>());
  for (const TensorSpec& t : tensors_of(spec)) {
    const std::vector<float> a = model.params->read(t.name), b = again.params->read(t.name);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6 * std::abs(a[i])) << t.name;
  }
}

// A filter's random weights fade, and keep the size of what they are applied to.
TEST(Mixers, LongFiltersFade) {
  const auto device = make_test_device(1);
  ModelSpec spec = model_spec("tiny");
  set_layers(spec, "longconv(conv_width=256)");
  const std::vector<float> w = random_model(spec, *device, 3).params->read("blk.0.ssm_conv1d.weight");
  const size_t channels = size_t(spec.d_model);
  double all = 0, old = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const double square = double(w[i]) * double(w[i]);
    all += square;
    if (i % 256 < 128) old += square;
  }
  EXPECT_NEAR(all / double(channels), 1, 0.25);
  EXPECT_LT(old, 0.02 * all);
  EXPECT_GT(old, 0);
}

// The formula of the comment, in loops.
TEST(Mixers, LongConvIsItsFormula) {
  constexpr int64_t n = 7, d = 3, width = 5;
  const Philox random(3, "long conv");
  uint64_t at = 0;
  const auto numbers = [&](int64_t count) {
    std::vector<float> v;
    for (int64_t i = 0; i < count; ++i) v.push_back(float(random.normal(at++)));
    return v;
  };
  const std::vector<float> x = numbers(n * d), in = numbers(2 * d * d), filter = numbers(d * width),
                           out = numbers(d * d);
  ModelSpec spec;
  spec.d_model = d, spec.layers = {{.mixer = LongConv{width}}};
  Graph g;
  RopeTables ropes(g, spec, 0);
  const auto mixer = make_mixer(spec, 0, Weights(g, [](const std::string&) { return DType::f32; }), ropes);
  const TensorType rows{DType::i32, {n}, 0};
  const nn::Context ctx{.batch = {.sequence = g.constant(rows, {0, 0, 0, 0, 0, 0, 0}),
                                  .position = g.constant(rows, {0, 1, 2, 3, 4, 5, 6})}};
  nn::LayerState state;
  const Evaluated y =
      evaluate(mixer->call(g.constant({DType::f32, {n, d}, 0}, {x.begin(), x.end()}), state, ctx),
               {.feeds = {{"ssm_in.weight", in}, {"ssm_conv1d.weight", filter}, {"ssm_out.weight", out}}});
  const auto mapped = [&](int64_t t, int64_t row) {
    double sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += double(in[size_t(row * d + i)]) * double(x[size_t(t * d + i)]);
    return sum;
  };
  for (int64_t t = 0; t < n; ++t)
    for (int64_t o = 0; o < d; ++o) {
      double want = 0;
      for (int64_t c = 0; c < d; ++c) {
        double mixed = 0;
        for (int64_t j = 0; j < width && j <= t; ++j)
          mixed += double(filter[size_t(c * width + width - 1 - j)]) * mapped(t - j, d + c);
        const double gate = mapped(t, c);
        want += double(out[size_t(o * d + c)]) * mixed * gate / (1 + std::exp(-gate));
      }
      EXPECT_NEAR(y.values[size_t(t * d + o)], want, 1e-12 * (1 + std::abs(want)));
    }
}

}  // namespace
}  // namespace toy::mixers_test
