// What files of gemma4 and gpt-oss hold: refusals name what is wrong, and what older files have besides is let pass.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/test_device.h"
#include "toy/models/model.h"

namespace toy::gemma4_test {
namespace {

using testing::error_of;
using testing::expect_contains;

std::string error_with(const char* family, const std::map<std::string, gguf::Value>& more,
                       const std::string& without = "") {
  const testing::GoldenFamily g(family);
  return error_of([&] { spec_from_gguf(gguf::File::open(g.write(without, more))); });
}

TEST(Gemma4, ExpertsAreRefusedByName) {
  const std::string text = error_with("gemma4", {{"gemma4.expert_count", uint32_t(128)}});
  for (const char* part : {"gemma4.expert_count is 128", "Gemma 4 with experts is not supported", "dense"})
    expect_contains(text, part);
}

TEST(Gemma4, SharedKeysAndValues) {
  // llama.cpp's rule and Hugging Face's agree where the last two layers with their own are one with and one without a
  // window.
  expect_contains(
      error_with("gemma4_e", {{"gemma4.attention.shared_kv_layers", uint32_t(2)}}),
      "layer 4 would take keys and values of layer 3; in the architecture gemma4 they are those of layer 2");
  const testing::GoldenFamily g("gemma4_e");
  const ModelSpec m = spec_from_gguf(gguf::File::open(g.write()));
  std::vector<int64_t> sources;
  for (int64_t i = 0; i < 6; ++i) sources.push_back(kv_source(m, i));
  EXPECT_EQ(sources, (std::vector<int64_t>{0, 1, 2, 1, 1, 2}));
}

nlohmann::json small(const nlohmann::json& last) {
  return {{"architecture", "gemma4"},
          {"d_model", 24},
          {"n_layers", 2},
          {"n_heads", 2},
          {"d_head", 8},
          {"d_ff", 40},
          {"vocab", 20},
          {"layers", {nlohmann::json::object(), last}}};
}

TEST(Gemma4, LayersThatAFileCannotHold) {
  const auto text = [](const nlohmann::json& last) { return error_of([&] { spec_from_json(small(last), "x.json"); }); };
  expect_contains(text({{"d_head", 16}}), "layer 1: d_head is 16, that of another layer with a window 8");
  expect_contains(text({{"rope", "global"}}), "layers with a window have local rope");
  expect_contains(text({{"shared_kv", true}, {"window", 0}, {"rope", "global"}}),
                  "layer 1: shared_kv, but no earlier layer without a window has its own keys and values");
  expect_contains(text({{"shared_kv", true}, {"n_kv", 1}}), "n_kv, d_head or window differ from those of layer 0");
  EXPECT_EQ(text({{"d_head", 16}, {"window", 0}, {"rope", "global"}}), "no error");
}

// llama.cpp's converter writes maps of k and v that transformers 4 saved and nothing uses.
TEST(Gemma4, UnusedMapsOfSharedLayersAreLetPass) {
  const testing::GoldenFamily g("gemma4_e");
  const auto device = make_test_device(1);
  const Model model = load_model(g.write(), *device, LoadMode::trainable);
  const gguf::File file = gguf::File::open(g.path);
  gguf::Writer w("gemma4");
  for (const auto& [key, value] : file.metadata())
    if (key != "general.architecture") w.set(key, value);
  const auto add = [&](const gguf::TensorInfo& t, const std::string& name) {
    w.add(name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), *t.dtype);
  };
  for (const gguf::TensorInfo& t : file.tensors()) add(t, t.name);
  for (const char* part : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
    add(file.require(std::string("blk.1.") + part), std::string("blk.4.") + part);
  w.finish(g.folder.path("more.gguf"));
  EXPECT_TRUE(load_model(g.folder.path("more.gguf"), *device).spec == model.spec);
}

// Else v would silently be what k's map gives.
TEST(Gemma4, AMapOfVThatIsMissingOrElsewhereIsRefused) {
  expect_contains(error_with("gemma4_e", {}, "blk.0.attn_v.weight"),
                  "layer 0: v_is_k (no tensor attn_v), but the layer has a window");
  const testing::GoldenFamily g("gemma4_e");
  const gguf::File file = gguf::File::open(g.write());
  gguf::Writer w("gemma4");
  for (const auto& [key, value] : file.metadata())
    if (key != "general.architecture") w.set(key, value);
  const auto add = [&](const gguf::TensorInfo& t, const std::string& name) {
    w.add(name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), *t.dtype);
  };
  for (const gguf::TensorInfo& t : file.tensors()) add(t, t.name);
  add(file.require("blk.0.attn_v.weight"), "blk.9.attn_v.weight");
  w.finish(g.folder.path("more.gguf"));
  const auto device = make_test_device(1);
  expect_contains(error_of([&] { load_model(g.folder.path("more.gguf"), *device); }), "blk.9.attn_v.weight");
}

TEST(Gemma4, ItsSoftcapHasLlamaCppsDefault) {
  const testing::GoldenFamily g("gemma4");
  const auto softcap = [&](const std::string& path) { return spec_from_gguf(gguf::File::open(path)).logit_softcap; };
  EXPECT_EQ(softcap(g.write()), 4);
  EXPECT_EQ(softcap(g.write("gemma4.final_logit_softcapping")), 30);
  EXPECT_EQ(softcap(g.write("", {{"gemma4.final_logit_softcapping", 0.0f}})), 0);
}

TEST(GptOss, NeedsItsWindow) {
  expect_contains(error_with("gpt_oss", {}, "gpt-oss.attention.sliding_window"), "gpt-oss.attention.sliding_window");
  expect_contains(error_with("gpt_oss", {{"gpt-oss.attention.sliding_window", uint32_t(0)}}), "is 0");
}

}  // namespace
}  // namespace toy::gemma4_test
