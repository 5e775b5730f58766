// Models that are split over files, as llama.cpp's gguf-split does, and what the names of files say.
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/gguf_name.h"
#include "toy/formats/gguf.h"

namespace toy::gguf::split_test {
namespace {

namespace fs = std::filesystem;
using toy::testing::error_of;
using toy::testing::expect_contains;

class SplitGguf : public ::testing::Test, protected toy::testing::Folder {
 protected:
  // Part i of n holds these tensors, each of two values that begin with its number.
  std::string part(int i, int n, const std::vector<std::string>& tensors, int total = 3) const {
    const std::string file = name(i, n);
    Writer w("llama");
    w.set("split.no", uint16_t(i - 1));
    w.set("split.count", uint16_t(n));
    w.set("split.tensors.count", int32_t(total));
    if (i == 1) w.set("general.name", std::string("whole"));
    for (const std::string& t : tensors)
      w.add(t, View(const_cast<float*>(&values_[2 * size_t(t[0] - 'a')]), DType::f32, {2}), DType::f32);
    w.finish(file);
    return file;
  }
  std::string name(int i, int n) const { return path(fmt::format("m-{:05}-of-{:05}.gguf", i, n)); }
  const std::vector<float> values_{0, 1, 2, 3, 4, 5, 6, 7};
};

// The first part may hold metadata alone.
TEST_F(SplitGguf, AnyPartOpensAll) {
  part(1, 3, {}), part(2, 3, {"b", "a"}), part(3, 3, {"c"});
  for (int i = 1; i <= 3; ++i) {
    const File file = File::open(name(i, 3));
    EXPECT_EQ(file.path(), name(i, 3));
    EXPECT_EQ(file.get_string("general.name"), "whole");
    EXPECT_FALSE(file.has("split.count"));
    ASSERT_EQ(file.tensors().size(), 3u);
    for (const char* t : {"a", "b", "c"})
      EXPECT_EQ(reinterpret_cast<const float*>(file.require(t).data)[1], float(2 * (t[0] - 'a') + 1)) << t;
    EXPECT_EQ(file.tensors()[0].name, "b");
    EXPECT_EQ(file.file_bytes(), fs::file_size(name(1, 3)) + fs::file_size(name(2, 3)) + fs::file_size(name(3, 3)));
    file.map_ahead();
  }
}

// Links to a part, under any name and to links; and a folder of links, whose files have no such names.
TEST_F(SplitGguf, AreFoundThroughLinks) {
  part(1, 3, {"a"}), part(2, 3, {"b"}), part(3, 3, {"c"});
  fs::create_directories(path("links"));
  fs::create_directories(path("cache"));
  fs::create_symlink(name(1, 3), path("links/model.gguf"));
  fs::create_symlink("model.gguf", path("links/again.gguf"));
  fs::create_symlink("../m-00002-of-00003.gguf", path("links/m-00002-of-00003.gguf"));
  fs::create_symlink("other", path("links/loop"));
  fs::create_symlink("loop", path("links/other"));
  for (const char* link : {"links/model.gguf", "links/again.gguf", "links/m-00002-of-00003.gguf"}) {
    const File file = File::open(path(link));
    EXPECT_EQ(file.path(), path(link));
    EXPECT_EQ(file.get_string("general.name"), "whole");
    ASSERT_EQ(file.tensors().size(), 3u) << link;
    EXPECT_EQ(reinterpret_cast<const float*>(file.require("c").data)[1], 5.f);
  }
  for (int i = 1; i <= 3; ++i) {  // as in the cache of Hugging Face
    fs::rename(name(i, 3), path("cache/" + std::to_string(i)));
    fs::create_symlink("cache/" + std::to_string(i), name(i, 3));
  }
  EXPECT_EQ(File::open(name(2, 3)).tensors().size(), 3u);
  EXPECT_EQ(File::open(path("links/again.gguf")).tensors().size(), 3u);
  EXPECT_FALSE(find_split(path("links/loop")));
  EXPECT_EQ(find_split(path("links/model.gguf"))->missing(), 0);
  fs::remove(path("cache/3"));
  EXPECT_EQ(find_split(path("links/model.gguf"))->missing(), 3);
  expect_contains(error_of([&] { File::open(path("links/model.gguf")); }), "part 3 of 3 is missing, ");
}

TEST_F(SplitGguf, AMissingOrWrongPartIsNamed) {
  part(1, 3, {"a"}), part(3, 3, {"c"});
  const auto refusal = [this](int i = 1) { return error_of([&] { File::open(name(i, 3)); }); };
  for (const int i : {1, 3}) {
    EXPECT_EQ(refusal(i),
              name(i, 3) + ": part 2 of 3 is missing, " + name(2, 3) + "; download it into the same folder");
  }
  fs::copy_file(name(3, 3), name(2, 3));
  expect_contains(refusal(), "m-00002-of-00003.gguf: by its metadata it is part 3 of 3");
  fs::remove(name(2, 3));
  part(2, 3, {"a"});
  expect_contains(refusal(), "the tensor 'a' is in two of its 3 parts");
  part(2, 3, {});
  expect_contains(refusal(), "its 3 parts have 2 tensors, and by the metadata they should have 3");
  part(2, 3, {"b"});
  EXPECT_EQ(File::open(name(2, 3)).tensors().size(), 3u);
  fs::rename(name(1, 3), path("m.gguf"));
  expect_contains(error_of([&] { File::open(path("m.gguf")); }), "one of 3 parts of a model, whose names end with");
}

TEST(GgufNames, Split) {
  const auto name = split_name("a/b-00002-of-00010.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a/b");
  EXPECT_EQ(name->part, 2);
  EXPECT_EQ(name->parts, 10);
  EXPECT_EQ(name->of(7), "a/b-00007-of-00010.gguf");
  for (const char* other : {"", "b.gguf", "b-00003-of-00002.gguf", "b-00000-of-00002.gguf", "b-1-of-2.gguf",
                            "b-00001-of-00002.bin", "b-00001-of-000002.gguf"})
    EXPECT_FALSE(split_name(other)) << other;
  EXPECT_EQ(split_name(std::string(100'000, 'x') + "-00001-of-00002.gguf")->parts, 2);
}

TEST(GgufNames, FilesThatGoWithModels) {
  for (const char* name : {"mmproj-model-f16.gguf", "a/Qwen-mmproj-Q8_0.gguf", "x.MMPROJ.gguf", "imatrix.gguf",
                           "imatrix_unsloth.gguf", "a/Llama-3-8B-imatrix.gguf", "Llama-3.imatrix.gguf"})
    EXPECT_TRUE(is_side_file_name(name)) << name;
  for (const char* name :
       {"model.gguf", "mmproj/model.gguf", "Llama-Q4_K_M-imatrix.gguf", "imatrix-IQ2_XS.gguf", "L3-i1-Q6_K.gguf"})
    EXPECT_FALSE(is_side_file_name(name)) << name;
}

TEST(GgufNames, TheFirstKeysSayWhatItIs) {
  const toy::testing::Folder folder;
  const auto type = [&](const char* architecture, std::optional<std::string> stated) {
    Writer w(architecture);
    w.set("general.quantization_version", uint32_t(2));
    if (stated) w.set("general.type", *stated);
    w.set("tokenizer.ggml.tokens", Array(std::vector<std::string>{"a"}));
    w.finish(folder.path("f.gguf"));
    return type_of_file(folder.path("f.gguf"));
  };
  EXPECT_EQ(type("llama", "model"), "model");
  EXPECT_EQ(type("llama", {}), "");
  EXPECT_EQ(type("imatrix", "imatrix"), "imatrix");
  EXPECT_EQ(type("clip", {}), "mmproj");
  EXPECT_EQ(type("clip", "mmproj"), "mmproj");
  for (const char* text : {"", "GGUF", "no GGUF", "GGUF\3\0\0\0\0\0"})
    EXPECT_EQ(type_of_file(folder.write("text", text)), "") << text;
  EXPECT_EQ(type_of_file(folder.path("nowhere")), "");
}

}  // namespace
}  // namespace toy::gguf::split_test
