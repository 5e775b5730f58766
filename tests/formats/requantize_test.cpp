#include "toy/formats/requantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy::gguf::requantize_test {
namespace {

using toy::testing::error_of;
using toy::testing::expect_contains;

std::vector<float> noise(int64_t n, uint32_t seed) {
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = float(int32_t((uint32_t(i) + seed) * 2654435761u)) * 0x1p-34f;  // [-1/8, 1/8)
  return out;
}

// tests/golden/make_mix_golden.py asked llama.cpp.
TEST(Mixes, GiveTheTypesOfLlamaCpp) {
  const toy::testing::Folder folder;
  const auto golden =
      nlohmann::json::parse(std::ifstream(std::string(TOY_SOURCE_DIR) + "/tests/golden/quant_mixes.golden.json"));
  const std::vector<float> zeros(1 << 14);
  for (const auto& [name, model] : golden.items()) {
    const std::string arch = model["architecture"], path = folder.path(name + ".gguf");
    Writer writer(arch);
    for (const auto& [key, value] : model["metadata"].items()) writer.set(arch + "." + key, value.get<uint32_t>());
    std::vector<std::string> names;
    Imatrix ones;
    for (const auto& t : model["tensors"]) {
      names.push_back(t[0]);
      const std::vector<int64_t> dims = t[1];
      writer.add(names.back(), View(const_cast<float*>(zeros.data()), DType::f32, Shape(std::span(dims))), DType::f32);
      ones.columns[names.back()] = std::vector<float>(size_t(dims.back()), 1);
    }
    writer.finish(path);
    const File file = File::open(path);
    for (const auto& [mix, types] : model["types"].items()) {
      std::vector<std::string> expected(names.size(), types["most"]);
      for (const auto& [type, numbers] : types.items())
        if (type != "most")
          for (const size_t i : numbers) expected[i] = type;
      const auto plan = plan_requantize(file, {.mix = mix, .imatrix = model["imatrix"] ? &ones : nullptr});
      ASSERT_EQ(plan.size(), names.size());
      for (size_t i = 0; i < plan.size(); ++i) {
        EXPECT_EQ(plan[i].name, names[i]);
        EXPECT_EQ(type_name(plan[i].to), expected[i]) << name << " " << mix << " " << names[i];
        EXPECT_EQ(plan[i].weighted, bool(model["imatrix"]) && is_quantized(plan[i].to)) << name << " " << names[i];
      }
    }
  }
}

class Requantize : public ::testing::Test {
 protected:
  const toy::testing::Folder folder_;
  const std::string from_ = folder_.path("from.gguf"), to_ = folder_.path("to.gguf");
  const Shape big_{3, 100, 512}, wide_{2, 40960};

  // Two stacked experts, rows longer than a piece, 16-bit floats, a vector, integers.
  void SetUp() override {
    const std::vector<float> big = noise(big_.count(), 1), wide = noise(wide_.count(), 2), gain = noise(512, 3);
    std::vector<uint16_t> halves(512 * 64);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = to_f16(noise(1, uint32_t(i))[0]).bits;
    const std::vector<int32_t> ids{1, 2, 3, 4};
    Writer w("llama");
    w.set("llama.block_count", uint32_t(8));
    w.set("general.file_type", uint32_t(0));
    w.set("tokenizer.ggml.tokens", Array(std::vector<std::string>{"a", "b"}));
    w.add("blk.0.ffn_down_exps.weight", view(big, big_), DType::f32);
    w.add("blk.0.ffn_up.weight", view(wide, wide_), DType::f32);
    w.add("blk.0.ffn_gate.weight", View(halves.data(), DType::f16, {64, 512}), DType::f16);
    w.add("blk.0.ffn_norm.weight", view(gain, {512}), DType::f32);
    w.add("ids.weight", View(const_cast<int32_t*>(ids.data()), DType::i32, {2, 2}), DType::i32);
    w.finish(from_);
  }

  static View view(const std::vector<float>& values, const Shape& shape) {
    return {const_cast<float*>(values.data()), DType::f32, shape};
  }
  static std::vector<float> values_of(const TensorInfo& t) {
    std::vector<float> out(size_t(t.shape.count()));
    convert(View(const_cast<std::byte*>(t.data), *t.dtype, t.shape), View(out.data(), DType::f32, t.shape));
    return out;
  }
  static std::string bytes_of_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(Requantize, WritesTheBlocksOfQuantizeAndTellsTheErrors) {
  std::vector<RequantizedTensor> reports;
  requantize(File::open(from_), to_, {.mix = "q4_k_m", .threads = 3},
             [&](const RequantizedTensor& r) { reports.push_back(r); });
  const File from = File::open(from_), to = File::open(to_);
  EXPECT_EQ(to.get_u32("general.file_type"), 15u);
  EXPECT_EQ(to.get_u32("general.quantization_version"), 2u);
  EXPECT_EQ(to.get_u32("llama.block_count"), 8u);
  EXPECT_EQ(to.get_strings("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(reports.size(), 5u);
  for (size_t i = 0; i < reports.size(); ++i) {
    const RequantizedTensor& r = reports[i];
    const TensorInfo &before = from.tensors()[i], &after = to.tensors()[i];
    EXPECT_EQ(r.name, after.name);
    EXPECT_EQ(r.from, before.dtype);
    EXPECT_EQ(r.to, after.dtype);
    EXPECT_EQ(r.bytes_before, before.bytes);
    EXPECT_EQ(r.bytes_after, after.bytes);
    EXPECT_FALSE(r.weighted);
    if (r.to == r.from) {
      EXPECT_EQ(std::memcmp(after.data, before.data, before.bytes), 0) << r.name;
      EXPECT_EQ(r.rmse, 0);
      continue;
    }
    const std::vector<float> x = values_of(before), y = values_of(after);
    std::vector<std::byte> blocks(after.bytes);
    quantize(r.to, x, {}, blocks.data());
    EXPECT_EQ(std::memcmp(after.data, blocks.data(), blocks.size()), 0) << r.name;
    double square = 0, error = 0, largest = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      square += double(x[k]) * double(x[k]);
      error += std::pow(double(y[k]) - double(x[k]), 2);
      largest = std::max(largest, std::fabs(double(y[k]) - double(x[k])));
    }
    EXPECT_NEAR(r.rms, std::sqrt(square / double(x.size())), 1e-12);
    EXPECT_NEAR(r.rmse, std::sqrt(error / double(x.size())), 1e-12);
    EXPECT_EQ(r.largest_error, largest);
  }
  EXPECT_EQ(reports[0].to, DType::q6_k);  // ffn_down
  EXPECT_EQ(reports[1].to, DType::q4_k);
  EXPECT_EQ(reports[3].to, DType::f32);
  EXPECT_EQ(reports[4].to, DType::i32);
}

TEST_F(Requantize, SameBytesForAnyTeamAndInPlace) {
  requantize(File::open(from_), to_, {.mix = "Q5_K_M", .threads = 1});
  const std::string expected = bytes_of_file(to_);
  requantize(File::open(from_), to_, {.mix = "Q5_K_M", .threads = 5});
  EXPECT_TRUE(bytes_of_file(to_) == expected);
  requantize(File::open(from_), from_, {.mix = "Q5_K_M"});
  EXPECT_TRUE(bytes_of_file(from_) == expected);
  // From a type to itself nothing changes; to others, the values that are there are quantized.
  requantize(File::open(from_), to_, {.mix = "Q5_K_M"});
  EXPECT_TRUE(bytes_of_file(to_) == expected);
  requantize(File::open(from_), to_, {.mix = "F32"});
  const File from = File::open(from_), to = File::open(to_);
  for (const TensorInfo& t : to.tensors())
    if (t.dtype == DType::f32) {
      EXPECT_EQ(values_of(t), values_of(from.require(t.name))) << t.name;
    }
}

TEST_F(Requantize, PatternsOverrideAndImportanceIsUsed) {
  Imatrix m;
  m.columns["blk.0.ffn_down_exps.weight"] = std::vector<float>(3 * 512, 1);
  for (size_t i = 0; i < 512; ++i) m.columns["blk.0.ffn_down_exps.weight"][2 * 512 + i] = i % 7 == 0 ? 50 : 1;
  std::vector<RequantizedTensor> reports;
  const RequantizeOptions options{.mix = "Q4_0",
                                  .types = {{"*gate*", DType::f32}, {"*ffn_down*", DType::iq4_nl}, {"*", DType::q8_0}},
                                  .imatrix = &m};
  requantize(File::open(from_), to_, options, [&](const RequantizedTensor& r) { reports.push_back(r); });
  const File from = File::open(from_), to = File::open(to_);
  EXPECT_EQ(reports[0].to, DType::iq4_nl);
  EXPECT_EQ(reports[1].to, DType::q8_0);
  EXPECT_EQ(reports[2].to, DType::f32);
  EXPECT_EQ(reports[3].to, DType::f32) << "norms are not matrices";
  EXPECT_EQ(reports[4].to, DType::i32);
  EXPECT_TRUE(reports[0].weighted);
  EXPECT_FALSE(reports[1].weighted);
  // Each expert has its own.
  const std::vector<float> x = values_of(from.tensors()[0]);
  const size_t expert = size_t(big_.count()) / 3, bytes = to.tensors()[0].bytes / 3;
  for (size_t e = 0; e < 3; ++e) {
    std::vector<std::byte> blocks(bytes);
    quantize(DType::iq4_nl, std::span(x).subspan(e * expert, expert),
             std::span(m.columns.begin()->second).subspan(e * 512, 512), blocks.data());
    EXPECT_EQ(std::memcmp(to.tensors()[0].data + e * bytes, blocks.data(), bytes), 0) << e;
  }
}

TEST_F(Requantize, Refuses) {
  const File from = File::open(from_);
  expect_contains(error_of([&] { plan_requantize(from, {.mix = "Q9"}); }),
                  "there is no type 'Q9'; use one of F32, F16");
  expect_contains(error_of([&] { plan_requantize(from, {.mix = "Q5_K_XL"}); }),
                  "did you mean Q5_0, Q5_1, Q5_K_S or Q5_K_M?");
  Imatrix m;
  m.columns["blk.0.ffn_up.weight"] = {1, 2, 3};
  expect_contains(error_of([&] { requantize(from, to_, {.mix = "Q4_0", .imatrix = &m}); }),
                  "tensor 'blk.0.ffn_up.weight' has 40960 columns, the imatrix 3; it was made for another model");
  // What a tensor cannot be stored as is named, and nothing is left behind; so is what the caller throws.
  std::vector<float> values(512 * 4, 1);
  values[700] = std::nanf("");
  Writer w("llama");
  w.add("a.weight", view(values, {4, 512}), DType::f32);
  w.finish(folder_.path("nan.gguf"));
  const File broken = File::open(folder_.path("nan.gguf"));
  expect_contains(error_of([&] { requantize(broken, to_, {.mix = "Q8_0"}); }),
                  "nan.gguf: tensor 'a.weight': quantize: value 700 is nan");
  values[700] = 70000;
  Writer large("llama");
  large.add("a.weight", view(values, {4, 512}), DType::f32);
  large.finish(folder_.path("nan.gguf"));
  const File wide = File::open(folder_.path("nan.gguf"));
  expect_contains(error_of([&] { requantize(wide, to_, {.mix = "F16"}); }),
                  "nan.gguf: tensor 'a.weight': a value of 70000 is too large for f16; use bf16 or f32");
  EXPECT_THROW(requantize(from, to_, {.mix = "Q8_0"}, [](const RequantizedTensor&) { throw 1; }), int);
  EXPECT_FALSE(std::filesystem::exists(to_));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("")), {}), 2);
}

/// The older format, byte by byte.
struct Dat {
  std::string bytes;
  template <class T>
  Dat& put(T v) {
    bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Dat& text(std::string_view s) {
    put(int32_t(s.size()));
    bytes += s;
    return *this;
  }
};

class ImatrixFile : public ::testing::Test {
 protected:
  const toy::testing::Folder folder_;
  const std::string path_ = folder_.path("imatrix");

  Imatrix read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_imatrix(path_);
  }
};

TEST_F(ImatrixFile, ReadsTheBinaryFormat) {
  Dat dat;
  dat.put(2).text("a.weight").put(4).put(3).put(4.0f).put(8.0f).put(0.0f);
  dat.text("b.weight").put(0).put(1).put(5.0f);
  Imatrix m = read(dat.bytes);
  EXPECT_EQ(m.columns.size(), 2u);
  EXPECT_EQ(m.columns["a.weight"], (std::vector<float>{1, 2, 0}));
  EXPECT_EQ(m.columns["b.weight"], std::vector<float>{5});
  EXPECT_EQ(m.chunks, 0u);
  for (size_t n = 0; n < dat.bytes.size(); ++n)
    EXPECT_NE(error_of([&] { read(dat.bytes.substr(0, n)); }), "no error") << n;
  std::string damaged = dat.bytes;
  damaged.replace(damaged.size() - 4, 4, "\xff\xff\xff\xff");  // NaN
  expect_contains(error_of([&] { read(damaged); }), "tensor 'b.weight': an importance is");
  damaged.replace(4, 4, "\xff\xff\xff\xff");
  expect_contains(error_of([&] { read(damaged); }), "is -1; neither an imatrix nor a GGUF file");
  expect_contains(error_of([&] { read("root:x:0:0"); }), "no importance matrix: it looks like a text file");
  m = read(dat.put(7).text("wiki.txt").bytes);
  EXPECT_EQ(m.chunks, 7u);
  EXPECT_EQ(m.datasets, std::vector<std::string>{"wiki.txt"});
}

TEST_F(ImatrixFile, ReadsGguf) {
  const std::vector<float> sums{2, 4, 6, 8, 10, 12};
  std::vector<float> counts{2, 0, 1};
  const auto write = [&](const Shape& s, const Shape& c) {
    Writer w("none");
    w.set("general.type", std::string("imatrix"));
    w.set("imatrix.datasets", Array(std::vector<std::string>{"a.txt", "b.txt"}));
    w.set("imatrix.chunk_count", uint32_t(9));
    w.add("x.weight.in_sum2", View(const_cast<float*>(sums.data()), DType::f32, s), DType::f32);
    w.add("x.weight.counts", View(const_cast<float*>(counts.data()), DType::f32, c), DType::f32);
    w.finish(path_);
  };
  write({3, 2}, {3, 1});
  const Imatrix m = read_imatrix(path_);
  EXPECT_EQ(m.columns.at("x.weight"), (std::vector<float>{1, 2, 1, 1, 10, 12}));  // an expert that was never asked
  EXPECT_EQ(m.chunks, 9u);
  EXPECT_EQ(m.datasets, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(m.counts.at("x.weight"), counts);
  write({5}, {2});
  expect_contains(error_of([&] { read_imatrix(path_); }), "'x.weight' has 5 sums for 2 counts");
  for (const float bad : {-1.0f, std::nanf(""), INFINITY}) {
    counts[1] = bad;
    write({3, 2}, {3, 1});
    expect_contains(error_of([&] { read_imatrix(path_); }), "tensor 'x.weight': a count is");
  }
  Writer empty("none");
  empty.finish(path_);
  expect_contains(error_of([&] { read_imatrix(path_); }), "it holds no importance matrix");
}

TEST_F(ImatrixFile, WritesWhatItReads) {
  Imatrix m;
  m.columns = {{"a.weight", {1, 2, 0}}, {"x.weight", {1, 2, 3, 4, 5, 6}}};
  m.counts = {{"a.weight", {1024}}, {"x.weight", {8, 2}}};
  m.datasets = {"a.txt"}, m.chunks = 2, m.chunk_size = 512;
  write_imatrix(m, path_);
  const File file = File::open(path_);
  EXPECT_EQ(file.get_string("general.type"), "imatrix");
  EXPECT_EQ(file.get_u32("imatrix.chunk_size"), 512u);
  EXPECT_EQ(file.require("x.weight.in_sum2").shape, (Shape{2, 3}));
  EXPECT_EQ(file.require("x.weight.counts").shape, (Shape{2, 1}));
  const Imatrix back = read_imatrix(path_);
  EXPECT_EQ(back.columns, m.columns);
  EXPECT_EQ(back.counts, m.counts);
  EXPECT_EQ(back.datasets, m.datasets);
  EXPECT_EQ(back.chunks, 2u);
  EXPECT_EQ(back.chunk_size, 512u);
  m.counts["x.weight"] = {1, 1, 1, 1};
  expect_contains(error_of([&] { write_imatrix(m, path_); }), "have no counts that fit");
}

}  // namespace
}  // namespace toy::gguf::requantize_test
