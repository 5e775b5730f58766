#include "toy/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "safetensors_bytes.h"
#include "testing/aligned.h"
#include "testing/files.h"
#include "toy/base/error.h"

namespace toy::safetensors_test {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  // A file with this header and so many bytes of data.
  void raw(const std::string& header, size_t data, uint64_t length) const {
    std::ofstream f(path_, std::ios::binary | std::ios::trunc);
    f.write(reinterpret_cast<const char*>(&length), sizeof length);
    f << header << std::string(data, '\x01');
  }
  void refuses(std::string header, size_t data, const std::string& words) const {
    header.resize((header.size() + 7) / 8 * 8, ' ');
    raw(header, data, header.size());
    refused(words);
  }
  void refused(const std::string& words) const {
    try {
      safetensors::File::open(path_);
      ADD_FAILURE() << "taken; expected: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(path_), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }

  const toy::testing::Folder folder_;
  const std::string path_ = folder_.path("a.safetensors");
};

TEST_F(Safetensors, RoundTripOfEveryTypeAndShape) {
  alignas(8) std::byte bytes[96];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = std::byte(i * 7);
  std::map<std::string, View> views{{"scalar", View(bytes, DType::f32, {})},
                                    {"empty", View(bytes, DType::f32, {0, 3})},
                                    {"\"odd\" name\n", View(bytes + 8, DType::f32, {1, 2, 1, 2})}};
  for (const DTypeInfo& t : kDTypes)
    if (t.kind != DTypeInfo::quantized) views[std::string(t.name)] = View(bytes + 16, t.type, {3, 3});
  safetensors::Writer w;
  for (const auto& [name, view] : views) w.add(name, view);
  w.finish(path_);
  const auto file = safetensors::File::open(path_);
  ASSERT_EQ(file.tensors().size(), views.size());
  for (const auto& [name, view] : views) {
    const View& got = file.tensors().at(name);
    EXPECT_EQ(got.dtype, view.dtype) << name;
    EXPECT_EQ(got.shape, view.shape) << name;
    EXPECT_EQ(std::memcmp(got.data, view.data, view.bytes()), 0) << name;
  }
  EXPECT_EQ(safetensors::type_name(DType::bf16), "BF16");
}

TEST_F(Safetensors, NothingIsAFileToo) {
  safetensors::Writer().finish(path_);
  EXPECT_TRUE(safetensors::File::open(path_).tensors().empty());
}

TEST_F(Safetensors, BadTensors) {
  float values[4] = {};
  safetensors::Writer w;
  w.add("a", View(values, DType::f32, {4}));
  EXPECT_THROW(w.add("a", View(values, DType::f32, {4})), Error);
  EXPECT_THROW(w.add("__metadata__", View(values, DType::f32, {4})), Error);
  View strided(values, DType::f32, {2});
  strided.stride[0] = 2;
  EXPECT_THROW(w.add("b", strided), Error);
}

TEST_F(Safetensors, BadFiles) {
  std::ofstream(path_) << "short";
  refused("5 bytes");
  std::ofstream(path_) << "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n";
  refused("not a safetensors file: it is a git-lfs pointer");
  raw("{}", 0, 1000);
  refused("cut off");
  raw("{}", 0, ~uint64_t(0));
  refused("cut off");
  refuses("[]", 0, "not a JSON object");
  refuses("{\"a\":", 0, "the text ends too early");
  refuses(std::string(200000, '['), 0, "more than 64 levels");
  refuses(R"({"a":1})", 0, "'a' has no list 'shape'");
  refuses(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "no list 'data_offsets'");
  refuses(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "no dtype");
  refuses(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,4]}})", 4, "F8, which is not known");
  refuses(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "whole numbers");
  refuses(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "whole numbers");
  refuses(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "6 dimensions");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "does not lie at [0,4]");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "does not lie at [0,8]");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "does not lie");
  refuses(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "does not lie");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "a gap");
  refuses(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      4, "overlap");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "1 bytes after");
}

TEST_F(Safetensors, TensorsThatAreNotAlignedAreCopied) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    raw(header + std::string(spaces, ' '), 8, header.size() + spaces);
    safetensors::File file = safetensors::File::open(path_);
    const safetensors::File moved = std::move(file);
    const View& a = moved.tensors().at("a");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % alignof(float), 0u) << spaces;
    EXPECT_EQ(std::memcmp(a.data, "\1\1\1\1\1\1\1\1", 8), 0) << spaces;
  }
}

TEST_F(Safetensors, TypesWithoutAView) {
  const std::string header = R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BOOL","shape":[1,3],"data_offsets":[8,11]}})";
  raw(header, 11, header.size());
  const safetensors::File file = safetensors::File::open(path_);
  EXPECT_EQ(file.bytes().at("a").type, "I64");
  EXPECT_EQ(file.bytes().at("b").type, "BOOL");
  EXPECT_EQ(file.bytes().at("b").shape, (Shape{1, 3}));
  refuses(R"({"a":{"dtype":"I64","shape":[2],"data_offsets":[0,8]}})", 8, "does not lie at [0,8]");
}

// What the fuzzer and the writers of tests found worth keeping; made by tests/fuzz/make_safetensors_corpus.py.
TEST(SafetensorsCorpus, IsRefusedOrRead) {
  const std::filesystem::path folder = std::filesystem::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus/safetensors";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    const std::string name = entry.path().filename().string();
    const toy::testing::Aligned aligned(testing::slurp(entry.path()));
    bool refused = false;
    try {
      toy::testing::sum_of_bytes(safetensors::File::parse(aligned.span(), name));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
      refused = true;
    }
    EXPECT_EQ(refused, name.starts_with("bad_")) << name;
  }
  EXPECT_GE(files, 20) << folder;
}

}  // namespace
}  // namespace toy::safetensors_test
