// gpt-oss as it is published: experts in MXFP4, which a folder has as bytes and exponents and a GGUF as blocks.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/backend/devices.h"
#include "toy/formats/requantize.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"
#include "toy/tensor/convert.h"

namespace toy::mxfp4_test {
namespace {

using nlohmann::json;
constexpr int64_t kExperts = 3, kWidth = 64, kHidden = 96, kBlock = 17;

class Mxfp4 : public ::testing::Test {
 protected:
  void SetUp() override {
    const json size = {{"architecture", "gpt-oss"},
                       {"d_model", kWidth},
                       {"n_layers", 2},
                       {"n_heads", 4},
                       {"n_kv", 2},
                       {"d_head", 16},
                       {"d_ff", kHidden},
                       {"vocab", 50},
                       {"context", 100},
                       {"window", 20},
                       {"experts", kExperts},
                       {"experts_used", 2}};
    const auto device = make_cpu_device(2);
    save_model(random_model(spec_from_json(size, "test"), *device, 3, 2.0), folder_.path("floats.gguf"));
    gguf::requantize(gguf::File::open(folder_.path("floats.gguf")), gguf_, {.mix = "MXFP4_MOE"});
    hf::convert_gguf(gguf::File::open(gguf_), hf_);
  }

  // The folder's experts as bytes: of a group of 32, byte i has the elements 2i and 2i + 1, the first in its low half.
  // Rows of gate and up take turns. `drop`: a name to leave out.
  void pack(const std::string& drop = "") const {
    const gguf::File file = gguf::File::open(gguf_);
    const std::string path = hf_ + "/model.safetensors";
    std::map<std::string, std::pair<std::vector<int64_t>, std::string>> bytes;
    for (int layer = 0; layer < 2; ++layer)
      for (const bool down : {false, true}) {
        const std::string blk = "blk." + std::to_string(layer) + ".ffn_";
        const std::vector<std::string> parts = down ? std::vector<std::string>{blk + "down_exps.weight"}
                                                    : std::vector{blk + "gate_exps.weight", blk + "up_exps.weight"};
        const int64_t rows = down ? kWidth : kHidden, groups = (down ? kHidden : kWidth) / 32;
        std::string blocks, scales;
        for (int64_t row = 0; row < kExperts * rows; ++row)
          for (const std::string& part : parts)
            for (int64_t g = 0; g < groups; ++g) {
              const auto* block =
                  reinterpret_cast<const uint8_t*>(file.require(part).data) + (row * groups + g) * kBlock;
              scales += char(block[0]);
              const auto element = [&](int i) { return i < 16 ? block[1 + i] & 15 : block[1 + i - 16] >> 4; };
              for (int i = 0; i < 16; ++i) blocks += char(element(2 * i) | element(2 * i + 1) << 4);
            }
        const std::string name =
            "model.layers." + std::to_string(layer) + ".mlp.experts." + (down ? "down_proj" : "gate_up_proj");
        const int64_t all = rows * int64_t(parts.size());
        bytes[name + "_blocks"] = {{kExperts, all, groups, 16}, blocks};
        bytes[name + "_scales"] = {{kExperts, all, groups}, scales};
      }
    bytes.erase(drop);
    json header;
    std::string data;
    const auto add = [&](const std::string& name, const std::string& type, const std::vector<int64_t>& shape,
                         const std::string& more) {
      header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + more.size()}}};
      data += more;
    };
    {
      const safetensors::File floats = safetensors::File::open(path);
      for (const auto& [name, view] : floats.tensors())
        if (!name.ends_with("_proj"))
          add(name, safetensors::type_name(view.dtype), {view.shape.begin(), view.shape.end()},
              std::string(static_cast<const char*>(view.data), view.bytes()));
    }
    for (const auto& [name, tensor] : bytes) add(name, "U8", tensor.first, tensor.second);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t length = text.size();
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8) << text << data;
  }

  const testing::Folder folder_;
  const std::string gguf_ = folder_.path("blocks.gguf"), hf_ = folder_.path("hf"), again_ = folder_.path("again.gguf");
};

std::vector<float> values_of(const gguf::TensorInfo& t) {
  std::vector<float> values(size_t(t.shape.count()));
  convert(View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), View(values.data(), DType::f32, t.shape));
  return values;
}

TEST_F(Mxfp4, AFolderOfBytesBecomesTheSameBlocks) {
  pack();
  hf::convert_folder(hf_, again_);
  const gguf::File want = gguf::File::open(gguf_), got = gguf::File::open(again_);
  EXPECT_EQ(got.get_u32("general.file_type"), 38u);
  int experts = 0;
  for (const gguf::TensorInfo& t : want.tensors()) {
    if (!t.name.ends_with("_exps.weight")) continue;
    const gguf::TensorInfo& other = got.require(t.name);
    ASSERT_EQ(other.type_name, "MXFP4") << t.name;
    EXPECT_EQ(std::memcmp(t.data, other.data, t.bytes), 0) << t.name;
    ++experts;
  }
  EXPECT_EQ(experts, 6);
}

// A folder of floats holds every value of MXFP4 exactly, and so does a GGUF made with another type.
TEST_F(Mxfp4, ValuesAreKeptAsFloats) {
  hf::convert_folder(hf_, again_);
  const gguf::File want = gguf::File::open(gguf_);
  for (const bool packed : {false, true}) {
    if (packed) pack();
    if (packed) hf::convert_folder(hf_, again_, {.type = DType::bf16});
    const gguf::File got = gguf::File::open(again_);
    for (const gguf::TensorInfo& t : want.tensors())
      if (t.name.ends_with("_exps.weight")) {
        EXPECT_EQ(got.require(t.name).type_name, "BF16") << t.name;
        EXPECT_EQ(values_of(got.require(t.name)), values_of(t)) << t.name;
      }
  }
}

TEST_F(Mxfp4, MissingScalesAreNamed) {
  const std::string name = "model.layers.1.mlp.experts.down_proj";
  pack(name + "_scales");
  const std::string text = testing::error_of([&] { hf::convert_folder(hf_, again_); });
  EXPECT_NE(text.find("'" + name + "_scales' missing"), std::string::npos) << text;
  EXPECT_NE(text.find("[3,64,3,16]"), std::string::npos) << text;
}

}  // namespace
}  // namespace toy::mxfp4_test
