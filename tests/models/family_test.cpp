// A model family that the library does not have, given where models are stated and loaded.
#include "toy/models/family.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/model.h"

namespace toy::family_test {
namespace {

using testing::expect_contains;
using testing::message_of;

// Metadata of its own: a width that the file calls "heads" and "ffn". A Llama otherwise, with layer norms.
Family with_layer_norms(const std::string& name) {
  Family f;
  f.defaults.architecture = name;
  f.defaults.norm = NormKind::layer;
  f.defaults.layers = {LayerSpec{}};
  f.read = [](Metadata& metadata, ModelSpec& m) {
    const int64_t heads = metadata.u32("heads"), d_ff = metadata.u32("ffn");
    for (LayerSpec& l : m.layers) l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
  };
  f.write = [](MetadataWriter& w, const ModelSpec& m) {
    w.u32("heads", m.layers.front().heads);
    w.u32("ffn", m.layers.front().d_ff);
  };
  return f;
}
std::shared_ptr<const Family> shared(Family f) { return std::make_shared<const Family>(std::move(f)); }

nlohmann::json dimensions(const std::string& architecture) {
  return {
      {"architecture", architecture}, {"d_model", 24}, {"n_layers", 2}, {"n_heads", 3}, {"d_ff", 40}, {"vocab", 20}};
}

TEST(Family, OfAProgramIsSavedAndLoaded) {
  const testing::Folder folder;
  const auto device = make_test_device(1);
  const Families mine{shared(with_layer_norms("other")), shared(with_layer_norms("mine"))};
  const ModelSpec spec = spec_from_json(dimensions("mine"), "x.json", mine);
  EXPECT_EQ(spec.family, mine[1]);
  EXPECT_EQ(spec.norm, NormKind::layer);
  EXPECT_EQ(spec_from_json(to_json(spec), "x.json", mine), spec);

  const Model model = random_model(spec, *device, 1);
  const std::string path = folder.path("model.gguf");
  save_model(model, path);
  const Model loaded = load_model(path, *device, LoadMode::trainable, mine);
  EXPECT_EQ(loaded.spec, spec);
  EXPECT_TRUE(loaded.warnings.empty());
  for (const TensorSpec& t : tensors_of(spec)) EXPECT_EQ(loaded.params->read(t.name), model.params->read(t.name));
  // Without the family nobody knows what the file says; the message names all that are known.
  expect_contains(message_of([&] { load_model(path, *device); }), "'mine' is not supported; supported: llama, gpt2");
  expect_contains(message_of([&] { load_model(path, *device, LoadMode::mapped, {mine[0]}); }), "other, llama, gpt2");
}

TEST(Family, ChecksAndWarnsWhereItIsAsked) {
  const testing::Folder folder;
  const auto device = make_test_device(1);
  Family f = with_layer_norms("mine");
  f.check = [](const ModelSpec& m) { check(m.d_model <= 24, "mine: d_model is {}, at most 24", m.d_model); };
  f.read = [read = f.read](Metadata& metadata, ModelSpec& m) {
    read(metadata, m);
    metadata.warn(m.name + " is odd");
  };
  const Families mine{shared(std::move(f))};
  ModelSpec spec = spec_from_json(dimensions("mine"), "x.json", mine);
  save_model(random_model(spec, *device, 1), folder.path("m.gguf"));
  EXPECT_EQ(load_model(folder.path("m.gguf"), *device, LoadMode::mapped, mine).warnings,
            std::vector<std::string>{"x.json is odd"});
  spec.d_model = 30;
  expect_contains(message_of([&] { spec.validate(); }), "d_model is 30, at most 24");
}

TEST(Family, OfTheSameNameGoesBeforeABuiltInOne) {
  const Families mine{shared(with_layer_norms("llama"))};
  const size_t before = families().size();
  EXPECT_EQ(spec_from_json(dimensions("llama"), "x.json", mine).norm, NormKind::layer);
  EXPECT_EQ(spec_from_json(dimensions("llama"), "x.json").norm, NormKind::rms);
  EXPECT_EQ(families().size(), before);  // nothing was registered
}

TEST(Family, ThatIsNotCompleteOrNotTheModelsIsRefused) {
  Family nameless = with_layer_norms(""), mute = with_layer_norms("mine"), bare = with_layer_norms("mine");
  mute.write = nullptr;
  bare.defaults.layers.clear();
  for (const Family& f : {nameless, mute, bare})
    expect_contains(message_of([&] { spec_from_json(dimensions("mine"), "x.json", {shared(f)}); }), "it needs a name");
  expect_contains(message_of([] { spec_of(nullptr); }), "null");
  ModelSpec spec = spec_from_json(dimensions("mine"), "x.json", {shared(with_layer_norms("mine"))});
  spec.architecture = "llama";
  expect_contains(message_of([&] { spec.validate(); }), "'llama', and its family is 'mine'");
}

}  // namespace
}  // namespace toy::family_test
