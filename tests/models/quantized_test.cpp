// Models whose matrices are stored in quantized types: loading gives the values that their blocks stand for.
#include <gtest/gtest.h>

#include <fstream>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/family.h"
#include "toy/models/model.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy::quantized_test {
namespace {

using testing::expect_contains;
using testing::message_of;

// Rows of 256: whole blocks of every type.
ModelSpec small(const std::string& size) {
  return testing::small_model(size, {.vocab = 40,
                                     .d_model = 256,
                                     .context = 16,
                                     .layers = 3,
                                     .heads = 4,
                                     .kv_heads = size == "tiny" ? 2 : 4,
                                     .d_head = 64,
                                     .d_ff = 256});
}

// Stores the matrices of a file in all quantized types in turn; `blocks` of the first one may be changed.
void store_quantized(const std::string& from, const std::string& to, std::vector<std::byte>* blocks = nullptr) {
  const gguf::File file = gguf::File::open(from);
  gguf::Writer writer(file.get_string("general.architecture"));
  for (const auto& [key, value] : file.metadata()) writer.set(key, value);
  size_t next = size_t(DType::q4_0);
  for (const gguf::TensorInfo& t : file.tensors()) {
    const View view(const_cast<std::byte*>(t.data), *t.dtype, t.shape);
    const bool matrix = t.shape.rank() >= 2 && !t.name.starts_with("position");
    const DType stored = matrix ? DType(next) : *t.dtype;
    if (matrix && blocks && !blocks->empty()) {
      writer.add(t.name, View(blocks->data(), stored, t.shape), stored);
      blocks = nullptr;
    } else {
      writer.add(t.name, view, stored);
    }
    if (matrix && ++next == std::size(kDTypes)) next = size_t(DType::q4_0);
  }
  writer.finish(to);
}

class QuantizedModel : public ::testing::TestWithParam<const char*> {
 protected:
  const testing::Folder folder_;
  const std::string plain_ = folder_.path("plain.gguf"), path_ = folder_.path("quantized.gguf");
  const std::unique_ptr<Device> device_ = make_test_device(3);

  void SetUp() override { save_model(random_model(small(GetParam()), *device_, 1), plain_); }
};

TEST_P(QuantizedModel, LoadsTheValuesOfItsBlocks) {
  store_quantized(plain_, path_);
  const gguf::File file = gguf::File::open(path_);
  for (const LoadMode mode : {LoadMode::mapped, LoadMode::trainable})
    for (const bool reference : {false, true}) {
      const auto device = reference ? make_reference_device() : make_test_device(3);
      const Model model = load_model(path_, *device, mode);
      const bool trainable = mode == LoadMode::trainable;
      ASSERT_EQ(model.warnings.size(), trainable ? 1u : 0u);
      if (trainable) expect_contains(model.warnings[0], "MXFP4");
      std::set<DType> seen;
      for (const FileTensor& t : file_tensors(model.spec)) {
        const gguf::TensorInfo& info = file.require(t.name);
        seen.insert(*info.dtype);
        std::vector<float> expected(size_t(info.shape.count())), got;
        convert(View(const_cast<std::byte*>(info.data), *info.dtype, info.shape),
                View(expected.data(), DType::f32, info.shape));
        for (const TensorSpec& part : t.parts) {
          const std::vector<float> values = model.params->read(part.name);
          got.insert(got.end(), values.begin(), values.end());
          EXPECT_EQ(is_quantized(model.params->type(part.name).dtype), !trainable && is_quantized(*info.dtype))
              << part.name;
        }
        EXPECT_EQ(got, expected) << t.name << " of type " << info.type_name;
      }
      EXPECT_EQ(seen.size(), 13u + 1) << "every type occurs";
    }
}

TEST_P(QuantizedModel, ABrokenBlockIsNamed) {
  std::vector<std::byte> blocks(bytes_of(DType::q4_0, Shape{40, 256}));
  blocks[200 * 18 + 1] = blocks[300 * 18 + 1] = std::byte(0x7c);  // the scale is infinite
  store_quantized(plain_, path_, &blocks);
  const std::string error = message_of([&] { load_model(path_, *device_, LoadMode::trainable); });
  expect_contains(error, path_ + ": tensor 'token_embd.weight': the scale of block 200 is infinite");
}

// A vector is never quantized: what computes with it would have to know the type.
TEST_P(QuantizedModel, VectorsAndOtherTypesAreRefused) {
  const gguf::File file = gguf::File::open(plain_);
  gguf::Writer writer(file.get_string("general.architecture"));
  for (const auto& [key, value] : file.metadata()) writer.set(key, value);
  for (const gguf::TensorInfo& t : file.tensors())
    writer.add(t.name, View(const_cast<std::byte*>(t.data), *t.dtype, t.shape),
               t.name == "output_norm.weight" ? DType::q8_0 : DType::f32);
  writer.finish(path_);
  expect_contains(message_of([&] { load_model(path_, *device_); }),
                  "tensor 'output_norm.weight' is Q8_0; supported: F32, F16, BF16, and for matrices Q4_0, ");
}

INSTANTIATE_TEST_SUITE_P(Sizes, QuantizedModel, ::testing::Values("tiny", "gpt2-tiny"),
                         [](const auto& test) { return std::string(test.param) == "tiny" ? "llama" : "gpt2"; });

}  // namespace
}  // namespace toy::quantized_test
