// Families whose layers have parts of their own: a row has the same bits in training's forward, in a prompt cut
// anywhere, token by token, among others, and for any number of threads; with keys and values of each type.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/files.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/formats/requantize.h"
#include "toy/models/transformer.h"

namespace toy::family_bits_test {
namespace {

using testing::all_logits;
using testing::same_bits;

constexpr int64_t kContext = 200, kVocab = 61;

struct Case {
  const char* name;
  const char* json;
};
const Case kCases[] = {
    {"gpt_oss", R"({"architecture": "gpt-oss", "d_model": 64, "n_layers": 3, "n_heads": 6, "n_kv": 2, "d_head": 32,
      "d_ff": 96, "vocab": 61, "context": 200, "window": 20, "experts": 5, "experts_used": 2, "rope_scaling": "yarn",
      "rope_factor": 4, "rope_original_context": 50})"},
    {"gemma4", R"({"architecture": "gemma4", "d_model": 64, "n_layers": 6, "n_heads": 4, "n_kv": 2, "d_head": 32,
      "d_ff": 96, "vocab": 61, "context": 200, "window": 20, "logit_softcap": 4, "layers": [{}, {}, {}, {}, {},
      {"d_head": 64, "n_kv": 1, "v_is_k": true}]})"},
    // The last two layers use keys and values of the two before.
    {"gemma4_e", R"({"architecture": "gemma4", "d_model": 64, "n_layers": 6, "n_heads": 4, "n_kv": 2, "d_head": 32,
      "d_ff": 96, "vocab": 61, "context": 200, "window": 20, "layer_embedding": 32, "layers": [{}, {}, {},
      {"window": 0, "rope": "global", "d_head": 64}, {"shared_kv": true, "d_ff": 192},
      {"shared_kv": true, "d_ff": 192, "d_head": 64}]})"},
    {"qwen35", testing::kQwen35},
    {"qwen3next", testing::kQwen3Next},
    {"windows", testing::kHybridWithWindows},
    {"shared_kv", testing::kHybridWithSharedKv},
    {"recurrent", testing::kOnlyRecurrent},
    {"mamba2", R"({"architecture": "mamba2", "d_model": 64, "n_layers": 3, "vocab": 61, "context": 200,
      "mamba2_heads": 8, "mamba2_width": 16, "mamba2_state": 20, "mamba2_groups": 2})"},
    {"granitehybrid", R"({"architecture": "granitehybrid", "d_model": 64, "n_layers": 3, "n_heads": 2, "n_kv": 1,
      "d_ff": 96, "vocab": 61, "context": 200, "mamba2_heads": 8, "mamba2_width": 16, "mamba2_state": 20,
      "experts": 5, "experts_used": 2, "shared_d_ff": 64, "embedding_scale": 5, "layers": "mamba2,attn,mamba2"})"},
    {"nemotron_h", R"({"architecture": "nemotron_h", "d_model": 64, "n_layers": 4, "n_heads": 2, "n_kv": 1,
      "d_ff": 0, "vocab": 61, "context": 200, "mamba2_heads": 6, "mamba2_width": 16, "mamba2_state": 20,
      "mamba2_groups": 3, "layers": "mamba2,ffn(d_ff=96),attn,mamba2"})"},
    {"nemotron_h_moe", R"({"architecture": "nemotron_h_moe", "d_model": 64, "n_layers": 3, "n_heads": 2, "n_kv": 1,
      "d_ff": 0, "vocab": 61, "context": 200, "mamba2_heads": 6, "mamba2_width": 16, "mamba2_state": 20,
      "experts_latent": 32, "layers": "mamba2,ffn(d_ff=96,experts=5,experts_used=2,shared_d_ff=32),attn"})"},
    // Of each kind, and filters of one column, and none.
    {"toy", R"({"architecture": "toy", "d_model": 64, "n_layers": 8, "n_heads": 2, "n_kv": 1, "d_ff": 96,
      "vocab": 61, "context": 200, "mamba2_heads": 3, "mamba2_width": 16, "mamba2_state": 20, "conv_width": 4,
      "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 16, "layers":
      "longconv(conv_width=70),attn,mamba2,gdn,conv,longconv(conv_width=1),mamba2(conv_width=1,d_ff=0),mamba2(conv_width=0)*1"})"},
    {"kimi_linear", R"({"architecture": "kimi-linear", "d_model": 64, "n_layers": 3, "n_heads": 4, "d_ff": 96,
      "vocab": 61, "context": 200, "delta_value_heads": 4, "delta_width": 16, "latent_width": 32,
      "latent_key": 32, "latent_shared_key": 32, "latent_value": 16, "experts": 5, "experts_used": 2, "shared_d_ff": 96,
      "layers": "kda(experts=0,experts_used=0,shared_d_ff=0),mla,kda"})"},
    {"lfm2", R"({"architecture": "lfm2", "d_model": 64, "n_layers": 4, "n_heads": 2, "n_kv": 1, "d_ff": 96,
      "vocab": 61, "context": 200, "layers": "conv,conv,attn,conv"})"},
    {"lfm2moe", R"({"architecture": "lfm2moe", "d_model": 64, "n_layers": 3, "n_heads": 2, "n_kv": 1, "d_ff": 96,
      "vocab": 61, "context": 200, "experts": 5, "experts_used": 2, "layers": "conv(experts=0,experts_used=0),attn,conv"})"},
};

// No tensor is what it is at the beginning of training: biases and sinks are 0 there.
Model model_of(const char* json, const Device& device) {
  Model m = random_model(spec_from_json(nlohmann::json::parse(json), "test"), device, 3, 2.0);
  for (const TensorSpec& t : tensors_of(m.spec))
    if (t.init == TensorSpec::Init::zeros || t.init == TensorSpec::Init::ones) {
      std::vector<float> values = m.params->read(t.name);
      const Philox random(5, t.name);
      for (size_t i = 0; i < values.size(); ++i) values[i] += float(random.normal(i)) * 0.3f;
      m.params->write(t.name, values);
    }
  return m;
}

std::vector<int32_t> ids_of(const char* stream) { return testing::random_ids(150, kVocab, Philox(7, stream)); }

// Eight sequences at their own pace; the logits of the one in the middle.
std::vector<float> among_others(const Device& device, const Model& model, DecoderOptions options) {
  options.sequences = 8, options.max_rows = 100;
  Decoder many(const_cast<Device&>(device), model, options);
  const std::vector<int32_t> mine = ids_of("a"), other = ids_of("b");
  std::vector<float> result;
  for (size_t i = 0; i < mine.size(); i += 10) {
    std::vector<DecodeRow> rows;
    for (int s = 0; s < 8; ++s) {
      if (s != 3 && many.state().length(s) > 150) many.state().reset(s);
      for (size_t k = 0; k < (s == 3 ? 10 : size_t(s) * 2); ++k)
        rows.push_back({s, s == 3 ? mine[i + k] : other[(i + k) % other.size()], s == 3});
    }
    many.decode(rows);
    for (size_t k = 0; k < 10; ++k) result.insert(result.end(), many.logits(k).begin(), many.logits(k).end());
  }
  return result;
}

class FamilyBits : public ::testing::TestWithParam<Case> {};

TEST_P(FamilyBits, TrainingsForwardPiecesThreadsAndOthers) {
  const auto device = make_test_device(2);
  const Model model = model_of(GetParam().json, *device);
  const std::vector<int32_t> ids = ids_of("a");
  Graph g;
  const TensorType rows{DType::i32, {int64_t(ids.size())}, 0};
  const Value in = g.input("tokens", rows, kVocab);
  const nn::Context ctx{
      .batch = {.sequence = g.input("sequence", rows), .position = g.input("position", rows, kContext)}};
  const Transformer transformer(model.spec, model.weights(g), kContext);
  const std::vector<Value> logits{transformer.head.logits(transformer(in, ctx))};
  Session session(*device, std::make_shared<const Plan>(compile(g, logits, {}, *device)), {model.params.get()});
  std::vector<int32_t> position(ids.size());
  for (size_t i = 0; i < position.size(); ++i) position[i] = int32_t(i);
  session.set("tokens", ids);
  session.set("sequence", std::vector<int32_t>(ids.size()));
  session.set("position", position);
  session.run();
  const std::vector<float> expected = session.values(0);
  const std::map<int, std::vector<size_t>> pieces_of_threads{{1, {1, 7, 64, 150}}, {2, {1, 64}}, {3, {7, 150}}};
  for (const auto& [threads, pieces] : pieces_of_threads)
    for (const size_t piece : pieces) {
      const auto team = make_test_device(threads);
      const Model same = model_of(GetParam().json, *team);
      Decoder d(*team, same, {.max_rows = 64, .kv = DType::f32});
      EXPECT_TRUE(same_bits(all_logits(d, 0, ids, piece), expected)) << threads << " threads, pieces of " << piece;
    }
  EXPECT_TRUE(same_bits(among_others(*device, model, {.kv = DType::f32}), expected));
}

TEST_P(FamilyBits, KeysAndValuesOfEachType) {
  const auto device = make_test_device(2);
  const Model model = model_of(GetParam().json, *device);
  const std::vector<int32_t> ids = ids_of("a");
  for (const DType kv : {DType::f16, DType::q8_0}) {
    Decoder whole(*device, model, {.kv = kv}), single(*device, model, {.kv = kv}), pieces(*device, model, {.kv = kv});
    const std::vector<float> expected = all_logits(whole, 0, ids, ids.size());
    EXPECT_TRUE(same_bits(all_logits(single, 0, ids, 1), expected)) << name_of(kv);
    EXPECT_TRUE(same_bits(all_logits(pieces, 0, ids, 37), expected)) << name_of(kv);
    EXPECT_TRUE(same_bits(among_others(*device, model, {.kv = kv}), expected)) << name_of(kv);
  }
}

// Experts in MXFP4 (where there are some), the other matrices in Q8_0: what gpt-oss is published as.
TEST_P(FamilyBits, QuantizedWeights) {
  const auto device = make_test_device(2);
  const testing::Folder folder;
  save_model(model_of(GetParam().json, *device), folder.path("floats.gguf"));
  gguf::requantize(gguf::File::open(folder.path("floats.gguf")), folder.path("blocks.gguf"), {.mix = "MXFP4_MOE"});
  const gguf::File file = gguf::File::open(folder.path("blocks.gguf"));
  for (const gguf::TensorInfo& t : file.tensors())
    EXPECT_EQ(t.shape.rank() == 3, *t.dtype == DType::mxfp4) << t.name << " " << t.type_name;
  const Model model = load_model(file.path(), *device);
  const std::vector<int32_t> ids = ids_of("a");
  for (const bool exact : {false, true}) {
    Decoder whole(*device, model, {.exact = exact}), single(*device, model, {.exact = exact});
    const std::vector<float> expected = all_logits(whole, 0, ids, ids.size());
    EXPECT_TRUE(same_bits(all_logits(single, 0, ids, 1), expected));
    EXPECT_TRUE(same_bits(among_others(*device, model, {.exact = exact}), expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyBits, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::family_bits_test
