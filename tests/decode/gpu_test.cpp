// Models of every kind of layer with the kernels of GPUs: a row has the same bits in one piece, in pieces, token by
// token and beside another sequence; and its logits are near the cpu's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"

namespace toy::gpu_test {
namespace {

using testing::all_logits;
using testing::same_bits;

struct Case {
  const char* name;
  const char* json;
  DType kv = DType::f32;
};

class GpuDecoding : public ::testing::TestWithParam<Case> {};

TEST_P(GpuDecoding, BitsOfARowAnywhere) {
  const auto gpu = make_emulated_device(), cpu = make_cpu_device(1);
  const ModelSpec spec = spec_from_json(nlohmann::json::parse(GetParam().json), "test");
  const Model model = random_model(spec, *gpu, 3, 2.0), same = random_model(spec, *cpu, 3, 2.0);
  const DecoderOptions options{.sequences = 2, .context = 80, .max_rows = 70, .kv = GetParam().kv};
  const std::vector<int32_t> ids = testing::random_ids(68, 61, Philox(7, "ids"));  // a page holds 64
  Decoder whole(*gpu, model, options), pieces(*gpu, model, options), on_cpu(*cpu, same, options);
  const std::vector<float> expected = all_logits(whole, 0, ids, ids.size()), near = all_logits(on_cpu, 0, ids, 33);

  // 33 rows, then 31 beside one of another sequence, then four by themselves.
  std::vector<float> got = all_logits(pieces, 0, {ids.begin(), ids.begin() + 33}, 33);
  std::vector<DecodeRow> rows{{1, 5, false}};
  for (size_t i = 33; i < 64; ++i) rows.push_back({0, ids[i], true});
  pieces.decode(rows);
  for (size_t i = 0; i < 31; ++i) got.insert(got.end(), pieces.logits(i).begin(), pieces.logits(i).end());
  const std::vector<float> last = all_logits(pieces, 0, {ids.begin() + 64, ids.end()}, 1);
  got.insert(got.end(), last.begin(), last.end());
  EXPECT_TRUE(same_bits(got, expected));

  // Each of some 30 ops behind each other moves a row by at most the roundings of its longest sum, 64, and levels of
  // q8_0 are other ones where a number lies between two.
  const double each = GetParam().kv == DType::q8_0 ? 0x1p-8 : 30 * 64 * 0x1p-24;
  double largest = 0;
  for (const float v : near) largest = std::max(largest, double(std::fabs(v)));
  for (size_t i = 0; i < near.size(); ++i) ASSERT_NEAR(expected[i], near[i], each * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Models, GpuDecoding,
    ::testing::Values(
        Case{"qwen35", R"({"architecture": "qwen35", "d_model": 32, "n_layers": 4, "n_heads": 2, "n_kv": 1,
            "d_head": 16, "d_ff": 48, "vocab": 61, "context": 100, "rope_dims": 8, "delta_key_heads": 1,
            "delta_value_heads": 2, "delta_width": 16})"},
        Case{"granitehybrid",
             R"({"architecture": "granitehybrid", "d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv": 1,
            "d_ff": 32, "vocab": 61, "context": 100, "mamba2_heads": 4, "mamba2_width": 16, "mamba2_state": 20,
            "experts": 4, "experts_used": 2, "shared_d_ff": 32, "layers": "mamba2,attn"})"},
        Case{"gemma2",
             R"({"architecture": "gemma2", "d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 32,
            "d_ff": 48, "vocab": 61, "context": 100, "window": 20, "attention_softcap": 5, "logit_softcap": 4})",
             DType::q8_0},
        Case{"kimi_linear", R"({"architecture": "kimi-linear", "d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 48,
            "vocab": 61, "context": 100, "delta_value_heads": 2, "delta_width": 16, "latent_width": 32, "latent_key": 32,
            "latent_shared_key": 32, "latent_value": 16, "experts": 4, "experts_used": 2, "shared_d_ff": 48,
            "layers": "kda(experts=0,experts_used=0,shared_d_ff=0),mla"})"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::gpu_test
