// Adapters of PEFT: the one that tests/golden/make_lora_golden.py trained, and where rows and columns of every family
// are.
#include "toy/hf/peft.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

using testing::expect_contains;
using testing::message_of;

const std::string kGolden = TOY_SOURCE_DIR "/tests/golden/";

std::vector<float> floats(const View& v) {
  std::vector<float> out(size_t(v.count()));
  convert(v, View(out.data(), DType::f32, v.shape));
  return out;
}

void expect_read_and_written(const std::string& variant, const std::string& of_peft, size_t tensors) {
  const auto device = make_cpu_device(1);
  Model model = load_model(kGolden + "llama_bias.model.gguf", *device);
  hf::load_peft(model, kGolden + of_peft);
  const gguf::File golden = gguf::File::open(kGolden + "lora_" + variant + ".golden.gguf");
  size_t compared = 0;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter < 0 || t.name.ends_with("_square")) continue;
    const gguf::TensorInfo& want = golden.require("end." + t.name);
    const auto* values = reinterpret_cast<const float*>(want.data);
    EXPECT_EQ(model.params->read(t.name), std::vector<float>(values, values + want.shape.count())) << t.name;
    ++compared;
  }
  EXPECT_EQ(compared, tensors);
  for (const auto& [name, map] : model.spec.adapters[0].maps) {
    const double alpha = variant != "output" ? 6 : name == "output.weight" ? 5 : name == "token_embd.weight" ? 6 : 4;
    EXPECT_FLOAT_EQ(map.scale, float(alpha / (name == "output.weight" ? 2 : 3))) << name;
  }

  // And back: the same tensors.
  const testing::Folder folder;
  hf::save_peft(model, 0, folder.path("peft"));
  const auto before = safetensors::File::open(kGolden + of_peft + "/adapter_model.safetensors"),
             after = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
  EXPECT_EQ(after.tensors().size(), tensors);
  for (const auto& [name, view] : before.tensors()) {
    if (name.find("lora_") == name.npos) continue;  // tables that PEFT stores with adapters of embeddings
    ASSERT_TRUE(after.tensors().contains(name)) << name;
    EXPECT_EQ(after.tensors().find(name)->second.shape, view.shape) << name;
    EXPECT_EQ(floats(after.tensors().find(name)->second), floats(view)) << name;
  }
  Model again = load_model(kGolden + "llama_bias.model.gguf", *device);
  hf::load_peft(again, folder.path("peft"));
  EXPECT_EQ(again.spec.adapters, model.spec.adapters);
}

TEST(Peft, ReadsWhatPeftWrote) {
  expect_read_and_written("llama", "lora_peft", 28);
  expect_read_and_written("output", "lora_output", 8);
  expect_read_and_written("dora", "lora_dora", 42);
}

// What an adapter adds to a folder's weights is B A of its PEFT files, in the folder's order of rows and columns.
TEST(Peft, AddsToTheFoldersWeights) {
  const auto device = make_cpu_device(1);
  for (const char* size : {"tiny", "hybrid-tiny"}) {
    const testing::Folder folder;
    Model model = random_model(model_spec(size, 256), *device, 3);
    save_model(model, folder.path("base.gguf"));
    model.spec.adapters = {lora_adapter(model.spec, {.rank = 2, .alpha = 3})};
    add_adapter_weights(model, 1);
    for (const auto& [name, map] : model.spec.adapters[0].maps) {
      std::vector<float> b = model.params->read(name + ".lora_b");
      const Philox random(4, name);
      for (size_t i = 0; i < b.size(); ++i) b[i] = float(random.normal(i));
      model.params->write(name + ".lora_b", b);
    }
    hf::save_peft(model, 0, folder.path("peft"));
    Model again = load_model(folder.path("base.gguf"), *device);
    hf::load_peft(again, folder.path("peft"));
    EXPECT_EQ(again.spec.adapters, model.spec.adapters) << size;
    for (const TensorSpec& t : tensors_of(model.spec))
      if (t.adapter == 0) EXPECT_EQ(again.params->read(t.name), model.params->read(t.name)) << t.name;
    merge_adapters(model);
    save_model(model, folder.path("merged.gguf"));
    for (const char* name : {"base", "merged"})
      hf::convert_gguf(gguf::File::open(folder.path(name + std::string(".gguf"))), folder.path(name),
                       {.type = DType::f32, .tokenizer = false});
    const auto base = safetensors::File::open(folder.path("base/model.safetensors")),
               merged = safetensors::File::open(folder.path("merged/model.safetensors")),
               peft = safetensors::File::open(folder.path("peft/adapter_model.safetensors"));
    size_t maps = 0;
    for (const auto& [name, view] : base.tensors()) {
      std::string stem = name.substr(0, name.rfind('.'));
      const auto a = peft.tensors().find("base_model.model." + stem + ".lora_A.weight"),
                 b = peft.tensors().find("base_model.model." + stem + ".lora_B.weight");
      const std::vector<float> before = floats(view), after = floats(merged.tensors().find(name)->second);
      if (a == peft.tensors().end()) {
        EXPECT_EQ(after, before) << name;
        continue;
      }
      ++maps;
      const std::vector<float> fa = floats(a->second), fb = floats(b->second);
      const int64_t rows = view.shape[0], columns = view.shape[1];
      for (int64_t o = 0; o < rows; ++o)
        for (int64_t i = 0; i < columns; ++i) {
          double added = 0;
          for (int64_t r = 0; r < 2; ++r) added += double(fb[size_t(o * 2 + r)]) * double(fa[size_t(r * columns + i)]);
          const size_t at = size_t(o * columns + i);
          ASSERT_NEAR(after[at], double(before[at]) + 1.5 * added, 1e-5) << name << " " << o << " " << i;
        }
    }
    EXPECT_EQ(maps, peft.tensors().size() / 2) << size;
    EXPECT_GT(maps, 0u);
  }
}

TEST(Peft, RefusesWhatItCannotRead) {
  const auto device = make_cpu_device(1);
  const testing::Folder folder;
  const auto with = [&](const std::string& json) {
    folder.write("peft/adapter_config.json", json);
    Model model = load_model(kGolden + "llama_bias.model.gguf", *device);
    return message_of([&] { hf::load_peft(model, folder.path("peft")); });
  };
  std::filesystem::create_directories(folder.path("peft"));
  std::filesystem::copy_file(kGolden + "lora_peft/adapter_model.safetensors",
                             folder.path("peft/adapter_model.safetensors"));
  expect_contains(with(R"({"peft_type": "IA3"})"), "only LORA is supported");
  expect_contains(with(R"({"peft_type": "LORA", "use_dora": true, "lora_alpha": 6})"), "has no lora_magnitude_vector");
  expect_contains(with(R"({"peft_type": "LORA"})"), "'lora_alpha' is null, expected a number");
  expect_contains(with("[]"), "no JSON object");
  Model other = random_model(model_spec("tiny"), *device, 1);
  expect_contains(message_of([&] { hf::load_peft(other, kGolden + "lora_peft"); }), "lora_A [3,20]");
}

}  // namespace
}  // namespace toy
