// Models that begin with the weights of others: which tensor, cut or repeated, and lenses folded into files.
#include "toy/models/grow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/decoder.h"

namespace toy::grow_test {
namespace {

ModelSpec llama(int64_t layers = 2) {
  return testing::small_model("tiny", {.vocab = 31,
                                       .d_model = 24,
                                       .context = 32,
                                       .tied = false,
                                       .layers = layers,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .d_head = 6,
                                       .d_ff = 40});
}

Model grown(const ModelSpec& spec, const Model& donor, const Device& device) {
  Model m{spec, std::make_unique<ParamStore>(device), nullptr};
  ThreadPool threads(1);
  for (const TensorSpec& t : tensors_of(spec)) {
    const Origin origin = origin_of(t, spec, donor.spec);
    m.params->add(t.name, {DType::f32, t.shape, 0});
    m.params->write(
        t.name, origin.how == Origin::fresh ? initial_values(t, 1, 1, threads) : values_from(origin, t, spec, donor));
  }
  return m;
}

std::vector<float> logits_of(Device& device, const Model& model) {
  Decoder decoder(device, model, {.context = 8, .max_rows = 8, .kv = DType::f32, .exact = true});
  std::vector<DecodeRow> rows;
  for (const int32_t id : {3, 30, 1, 4, 1, 5, 9}) rows.push_back({0, id, true});
  decoder.decode(rows);
  std::vector<float> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = decoder.logits(i);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0, top = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double(a[i]) - double(b[i]))), top = std::max(top, std::abs(double(b[i])));
  return most / top;
}

TEST(Grow, OfTheSameSizeItIsTheDonor) {
  const auto device = make_test_device(2);
  const Model donor = random_model(llama(), *device, 1, 2);
  EXPECT_EQ(logits_of(*device, grown(llama(), donor, *device)), logits_of(*device, donor));
}

TEST(Grow, BlocksRepeatOrEnd) {
  const auto device = make_test_device(1);
  const Model donor = random_model(llama(3), *device, 1);
  const Model deeper = grown(llama(5), donor, *device), shallower = grown(llama(2), donor, *device);
  for (const Model* m : {&deeper, &shallower})
    for (int i = 0; i < int(m->spec.layers.size()); ++i)
      EXPECT_EQ(m->params->read("blk." + std::to_string(i) + ".ffn_up.weight"),
                donor.params->read("blk." + std::to_string(i % 3) + ".ffn_up.weight"));
  EXPECT_EQ(deeper.params->read("output_norm.weight"), donor.params->read("output_norm.weight"));
}

// The pairs that turn lie next to each other in a llama, and half a head apart in a qwen2: the same model.
TEST(Grow, RowsOfHeadsFollowTheFamily) {
  const auto device = make_test_device(1);
  ModelSpec spec = llama();
  const Model donor = random_model(spec, *device, 1, 2);
  nlohmann::json dimensions(to_json(spec));
  dimensions["architecture"] = "qwen2", dimensions["biases"] = {"attn_q", "attn_k", "attn_v"};
  for (const char* fixed_by_the_family : {"rope_pairing"}) dimensions.erase(fixed_by_the_family);
  const ModelSpec other = spec_from_json(dimensions, "other");
  ASSERT_NE(other.rope.pairing, spec.rope.pairing);
  const Model m = grown(other, donor, *device);
  EXPECT_NE(m.params->read("blk.0.attn_q.weight"), donor.params->read("blk.0.attn_q.weight"));
  // Products of q and k have their sums in another order.
  EXPECT_LE(distance(logits_of(*device, m), logits_of(*device, donor)), 64 * 0x1p-24);
}

TEST(Grow, WidthsAreCutAndRepeated) {
  const auto device = make_test_device(1);
  const Model donor = random_model(llama(), *device, 1);
  ModelSpec spec = llama();
  spec.d_model = 36;  // repeated
  for (LayerSpec& l : spec.layers) l.heads = 6, l.kv_heads = 3, l.d_head = 4, l.d_ff = 17;
  const Model m = grown(spec, donor, *device);
  const auto at = [](const Model& model, const std::string& name, int64_t row, int64_t column) {
    return model.params->read(name)[size_t(row * model.params->type(name).shape.back() + column)];
  };
  // Head 5 of 6 is head 1 of 4; of its 4 elements, pairs are 0, 1 and 2, 3, which are the first ones of 6.
  const float narrower = float(std::sqrt(24.0 / 36));
  EXPECT_FLOAT_EQ(at(m, "blk.0.attn_q.weight", 5 * 4 + 3, 30),
                  narrower * at(donor, "blk.0.attn_q.weight", 1 * 6 + 3, 6));
  EXPECT_FLOAT_EQ(at(m, "blk.1.attn_v.weight", 2 * 4 + 1, 2),
                  narrower * at(donor, "blk.1.attn_v.weight", 0 * 6 + 1, 2));
  EXPECT_EQ(at(m, "blk.0.attn_output.weight", 25, 4 * 4 + 2), at(donor, "blk.0.attn_output.weight", 1, 0 * 6 + 2));
  EXPECT_FLOAT_EQ(at(m, "blk.0.ffn_up.weight", 16, 35), narrower * at(donor, "blk.0.ffn_up.weight", 16, 11));
  EXPECT_FLOAT_EQ(at(m, "blk.0.ffn_down.weight", 35, 16),
                  float(std::sqrt(40.0 / 17)) * at(donor, "blk.0.ffn_down.weight", 11, 16));
  EXPECT_EQ(m.params->read("blk.0.attn_norm.weight"), std::vector<float>(36, 1.0f));
}

TEST(Grow, WhatMeansSomethingElseBeginsFresh) {
  ModelSpec donor = llama(), spec = llama(3);
  set_layers(spec, "gdn,attn,attn");
  spec.layers[1].ffn = FfnKind::geglu;
  spec.layers[2].qk_norm = LayerSpec::head_norm;
  std::map<std::string, Origin> origins;
  for (const TensorSpec& t : tensors_of(spec)) origins[t.name] = origin_of(t, spec, donor);
  EXPECT_EQ(origins.at("blk.0.attn_norm.weight").how, Origin::copied);
  EXPECT_EQ(origins.at("blk.0.ssm_out.weight").reason, "the donor has none");
  EXPECT_EQ(origins.at("blk.1.ffn_up.weight").reason, "the donor's block has another kind of ffn");
  EXPECT_EQ(origins.at("blk.1.attn_q.weight").how, Origin::copied);
  EXPECT_EQ(origins.at("blk.2.attn_q_norm.weight").reason, "the donor has none");
  EXPECT_EQ(origins.at("blk.2.ffn_up.weight").tensor, "blk.0.ffn_up.weight");
}

// What is saved has the logits of the model with its lens, in every type of the donor, with the output tied or not.
TEST(Lens, FoldedIsUnfolded) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  for (const bool tied : {true, false})
    for (const DType type : {DType::f32, DType::q8_0}) {
      ModelSpec spec = llama();
      spec.tied = tied, spec.lens = 64, spec.roles.freeze = {kDonorEmbedding};
      Model m = random_model(spec, *device, 1, 2);
      const std::vector<float> values = m.params->read(kDonorEmbedding);
      auto store = std::make_unique<ParamStore>(*device);
      for (const TensorSpec& t : tensors_of(spec)) {
        store->add(t.name, {t.name == kDonorEmbedding ? type : DType::f32, t.shape, 0});
        store->write(t.name, m.params->read(t.name));
      }
      m.params = std::move(store);
      save_model(m, folder.path("folded.gguf"));
      const Model folded = load_model(folder.path("folded.gguf"), *device);
      EXPECT_EQ(folded.spec.lens, 0);
      EXPECT_EQ(folded.params->type("token_embd.weight").shape, (Shape{31, 24}));
      EXPECT_FALSE(folded.params->has(kLens));
      // Sums of 64 and 24 products, in another order, and some dozen operations behind them.
      EXPECT_LE(distance(logits_of(*device, folded), logits_of(*device, m)), 128 * 0x1p-24) << tied;
    }
}

}  // namespace
}  // namespace toy::grow_test
