// Decoding on weights in blocks, of every type: rows of x in 8 bits have the same bits however a prompt was cut,
// whatever else is decoded, and for any number of threads; exact products have the bits of the same weights in f32.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "toy/formats/gguf.h"
#include "toy/tensor/convert.h"

namespace toy::quantized_test {
namespace {

constexpr int64_t kVocab = 61;
using Logits = std::map<size_t, std::vector<float>>;  // by position

enum class Kind { dense, mixture, hybrid };

// Rows of 256 and 512: whole blocks of every type.
ModelSpec small(Kind kind) {
  ModelSpec s = testing::small_model(
      "tiny", {.vocab = kVocab, .d_model = 256, .context = 160, .heads = 4, .kv_heads = 2, .d_head = 64, .d_ff = 512});
  if (kind == Kind::mixture)
    for (LayerSpec& l : s.layers) l.d_ff = 256, l.experts = {.count = 4, .used = 2};
  if (kind == Kind::hybrid) set_layers(s, "gdn(delta_key_heads=2,delta_width=64),attn(window=50)");
  return s;
}

struct Case {
  DType type;
  Kind kind;
};
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const DTypeInfo& t : kDTypes)
    if (is_quantized(t.type)) list.push_back({t.type, Kind::dense});
  for (const DType t : {DType::q8_0, DType::q4_k, DType::mxfp4}) list.push_back({t, Kind::mixture});
  for (const DType t : {DType::q8_0, DType::q4_k}) list.push_back({t, Kind::hybrid});
  return list;
}

class QuantizedDecoding : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto device = make_test_device(2);
    const std::string plain = folder_.path("plain.gguf");
    save_model(random_model(small(GetParam().kind), *device, 3, 2.0), plain);
    const gguf::File file = gguf::File::open(plain);
    const std::string architecture = file.get_string("general.architecture");
    gguf::Writer blocks(architecture), floats(architecture);
    std::vector<std::unique_ptr<Buffer>> kept;
    for (const auto& [key, value] : file.metadata())
      if (key != "general.architecture") blocks.set(key, value), floats.set(key, value);
    for (const gguf::TensorInfo& t : file.tensors()) {
      const View from(const_cast<std::byte*>(t.data), *t.dtype, t.shape);
      const bool whole = t.shape.rank() >= 2 && t.shape.back() % info_of(GetParam().type).block == 0;
      const DType stored = whole ? GetParam().type : DType::f32;
      kept.push_back(std::make_unique<Buffer>(bytes_of(stored, t.shape)));
      const View in_blocks(kept.back()->data(), stored, t.shape);
      convert(from, in_blocks);
      kept.push_back(std::make_unique<Buffer>(bytes_of(DType::f32, t.shape)));
      const View as_floats(kept.back()->data(), DType::f32, t.shape);
      convert(in_blocks, as_floats);
      blocks.add(t.name, in_blocks, stored), floats.add(t.name, as_floats, DType::f32);
    }
    blocks.finish(blocks_), floats.finish(floats_);
  }

  // The sequence's logits at some positions, fed in pieces of these sizes, with `others` more sequences of single steps
  // beside it.
  Logits run(const std::string& path, const std::vector<size_t>& pieces, int threads, int others, bool exact,
             bool repack = false) {
    const auto device = make_test_device(threads);
    const Model model = load_model(path, *device);
    Decoder decoder(*device, model, {.sequences = 1 + others, .kv = DType::f32, .exact = exact, .repack = repack});
    const std::vector<int32_t> ids = testing::random_ids(140, kVocab, Philox(7, "a"));
    Logits logits;
    size_t at = 0;
    for (const size_t piece : pieces) {
      std::vector<DecodeRow> rows;
      std::vector<size_t> wanted;
      for (int other = 1; other <= others; ++other) rows.push_back({other, ids[(at * 7 + size_t(other)) % 140], false});
      for (size_t i = 0; i < piece && at < ids.size(); ++i, ++at) {
        const bool of_interest = at % 23 == 0 || at > 134;
        rows.push_back({0, ids[at], of_interest});
        if (of_interest) wanted.push_back(at);
      }
      decoder.decode(rows);
      for (size_t i = 0; i < wanted.size(); ++i)
        logits[wanted[i]] = {decoder.logits(i).begin(), decoder.logits(i).end()};
    }
    EXPECT_EQ(at, ids.size());
    return logits;
  }

  static void expect_same(const Logits& a, const Logits& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (const auto& [at, row] : a)
      EXPECT_EQ(std::memcmp(row.data(), b.at(at).data(), row.size() * sizeof(float)), 0) << what << " at " << at;
  }

  const testing::Folder folder_;
  const std::string blocks_ = folder_.path("blocks.gguf"), floats_ = folder_.path("floats.gguf");
};

TEST_P(QuantizedDecoding, ARowHasTheSameBitsAnywhere) {
  const Logits whole = run(blocks_, {140}, 1, 0, false);
  expect_same(run(blocks_, {140}, 3, 0, false), whole, "3 threads");
  expect_same(run(blocks_, std::vector<size_t>(140, 1), 2, 0, false), whole, "token by token");
  expect_same(run(blocks_, std::vector<size_t>(20, 7), 2, 0, false), whole, "pieces of 7");
  expect_same(run(blocks_, {64, 64, 1, 2, 3, 4, 2}, 2, 7, false), whole, "beside seven others");
}

TEST_P(QuantizedDecoding, RepackedWeightsGiveTheSameBits) {
  const Logits whole = run(blocks_, {140}, 2, 0, false);
  for (const int threads : {1, 2, 3}) expect_same(run(blocks_, {140}, threads, 0, false, true), whole, "repacked");
  expect_same(run(blocks_, {100, 1, 1, 2, 3, 33}, 2, 7, false, true), whole, "repacked, in pieces, beside others");
}

// Copies count as a decoder's memory. Exact products and GPUs have none.
TEST_P(QuantizedDecoding, TheMemoryPlanCountsRepackedWeights) {
  const auto device = make_test_device(2);
  const Model model = load_model(blocks_, *device);
  DecoderOptions options{.kv = DType::f32};
  const size_t without = decoder_bytes(*device, model, options);
  EXPECT_EQ(Decoder(*device, model, options).repacked_bytes(), 0u);
  options.repack = true;
  const Decoder decoder(*device, model, options);
  EXPECT_EQ(decoder_bytes(*device, model, options), without + decoder.repacked_bytes());
  size_t largest = 0;
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.shape.rank() == 2) largest = std::max(largest, bytes_of(model.params->stored(t.name), t.shape));
  EXPECT_GE(decoder.repacked_bytes(), device->host_visible() ? largest : 0);  // kernels of GPUs read the file's blocks
  options.exact = true;
  EXPECT_EQ(Decoder(*device, model, options).repacked_bytes(), 0u);
}

TEST_P(QuantizedDecoding, ExactProductsHaveTheBitsOfFloats) {
  const Logits floats = run(floats_, {100, 1, 1, 38}, 2, 1, false);
  for (const int threads : {1, 2, 3}) expect_same(run(blocks_, {100, 1, 1, 38}, threads, 1, true), floats, "exact");
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& test) {
  const char* const kinds[] = {"", "_experts", "_hybrid"};
  return std::string(name_of(test.param.type)) + kinds[size_t(test.param.kind)];
}
INSTANTIATE_TEST_SUITE_P(Types, QuantizedDecoding, ::testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace toy::quantized_test
