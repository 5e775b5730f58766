// Files that are wrong in one way each: every one is refused with a message that names the thing.
#include <gtest/gtest.h>

#include <filesystem>

#include "gguf_raw.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy::gguf::gguf_malformed_test {
namespace {

using namespace testing;
using namespace toy::testing;

std::string refusal(std::string_view bytes) {
  const Aligned aligned(bytes);
  try {
    read_everything(File::parse(aligned.span(), "x.gguf"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
    return e.what();
  }
  return "";
}

struct Case {
  const char* name;
  std::string bytes;
  const char* message;  // a part of it

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

Raw with_key() { return Raw().header(0, 1); }
Raw with_tensor() { return Raw().header(1, 0); }

std::vector<Case> foreign_files() {
  return {
      {"empty", "", "the file ends after 0 bytes"},
      {"two_bytes", "GG", "the file ends after 2 bytes"},
      {"binary", std::string("\x01\x02\x03\x00\x05", 5), "not a GGUF file: it starts with '\\x01\\x02\\x03\\x00'"},
      {"text", "# A readme\nof some model\n", "it looks like a text file"},
      {"lfs", "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"},
      {"zip", std::string("PK\x03\x04\x00\x00", 6),
       "zip archive, perhaps a PyTorch model; save the model as safetensors"},
      {"pickle", std::string("\x80\x02}q\x00", 5), "Python pickle"},
      {"safetensors", Raw().put(uint64_t(70)).bytes + "{\"a\":",
       "it looks like a safetensors file; convert its folder first (toy convert"},
      {"sentencepiece", std::string("\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02", 16), "for 'toy tokenizer'"},
      {"ggjt", std::string("tjgg\x03\x00", 6), "before GGUF"},
      {"big_endian", std::string("GGUF\x00\x00\x00\x03", 8), "version 3 is byte-swapped: a big-endian GGUF file"},
  };
}

std::vector<Case> bad_headers() {
  return {
      {"version0", Raw().header(0, 0, 0).bytes, "x.gguf: header at offset 4: GGUF version 0 is not supported"},
      {"version1", Raw().header(0, 0, 1).bytes, "GGUF version 1 is not supported (versions 2 and 3 are); convert"},
      {"version4", Raw().header(0, 0, 4).bytes, "GGUF version 4 is not supported (versions 2 and 3 are)"},
      {"no_counts", Raw().header(0, 0).bytes.substr(0, 12), "the file ends inside the number of tensors (8 bytes"},
      {"huge_tensors", Raw().header(1ull << 60, 0).bytes, "1152921504606846976 tensors, at least 32 bytes each"},
      {"huge_keys", Raw().header(0, ~0ull).bytes, "18446744073709551615 metadata keys, at least 13 bytes each"},
  };
}

std::vector<Case> bad_metadata() {
  Raw twice = Raw().header(0, 2).key("k", kU32, 1u).key("k", kU32, 2u);
  const auto array = [](uint32_t type, uint64_t count) {
    return with_key().string("k").put(uint32_t(kArray)).put(type).put(count);
  };
  return {
      {"empty_key", with_key().string("").put(uint32_t(kU64)).put(uint64_t(1)).bytes, "the key is empty"},
      {"long_key", with_key().put(uint64_t(1) << 63).put(uint64_t(0)).bytes, "the key of 9223372036854775808 bytes"},
      {"unknown_type", with_key().key("k", 13, uint64_t(0)).bytes, "key 'k' at offset 33: unknown type 13"},
      {"bool2", with_key().key("k", kBool, uint8_t(2)).bytes, "metadata key 'k' at offset 37: a bool is 0 or 1, not 2"},
      {"bools", array(kBool, 2).put(uint8_t(1)).put(uint8_t(255)).bytes, "a bool is 0 or 1, not 255"},
      {"long_string", with_key().key("k", kString, uint64_t(9)).bytes, "a string of 9 bytes, but the file has 0 left"},
      {"nested", array(kArray, 0).bytes, "metadata key 'k' at offset 37: arrays of arrays are not supported"},
      {"element_type", array(99, 0).bytes, "unknown type 99 of the array's elements"},
      {"many_numbers", array(kU64, 1ull << 61).bytes, "2305843009213693952 array elements, at least 8 bytes each"},
      {"many_strings", array(kString, 5).put(uint64_t(0)).bytes, "5 strings, at least 8 bytes each"},
      {"many_bools", array(kBool, ~0ull).bytes, "array elements, at least 1 bytes each"},
      {"twice", twice.bytes, "metadata key 'k' at offset 49: the key occurs twice"},
      {"control", with_key().key("\n\xff", 77, uint64_t(0)).bytes, "metadata key '\\x0a\\xff'"},
      {"align_type", with_key().key("general.alignment", kU64, uint64_t(32)).bytes, "expected u32, found u64"},
      {"align0", with_key().key("general.alignment", kU32, 0u).bytes, "'general.alignment': 0 is not a power of two"},
      {"align4", with_key().key("general.alignment", kU32, 4u).bytes, "4 is not a power of two that is a multiple"},
      {"align48", with_key().key("general.alignment", kU32, 48u).bytes, "48 is not a power of two"},
  };
}

std::vector<Case> bad_tensors() {
  const int64_t big = int64_t(1) << 40;
  const auto one = [](const std::vector<int64_t>& dims, uint32_t type, uint64_t offset = 0) {
    return with_tensor().tensor("t", dims, type, offset).data(64).bytes;
  };
  const auto two = [](const char* a, const char* b, uint64_t at) {
    return Raw().header(2, 0).tensor(a, {16}, 0, 0).tensor(b, {8}, 0, at).data(96).bytes;
  };
  return {
      {"no_name", with_tensor().tensor("", {8}, 0, 0).data(32).bytes, "tensor 1 of 1 at offset 32: the name is empty"},
      {"rank0", one({}, 0), "tensor 't' at offset 33: 0 dimensions; 1 to 4 are supported"},
      {"rank5", one({1, 1, 1, 1, 1}, 0), "5 dimensions; 1 to 4 are supported"},
      {"dim0", one({4, 0}, 0), "tensor 't' at offset 45: dimension 1 is 0; it must be at least 1"},
      {"negative_dim", one({-4}, 0), "dimension 0 is -4"},
      {"many_elements", one({big, big}, 0), "the number of elements does not fit into 63 bits"},
      {"many_bytes", one({int64_t(1) << 62}, 28), "the size in bytes of F64 [4611686018427387904] does not fit"},
      {"wrapped_bytes", one({big}, 0), "its 4398046511104 bytes at offset 0 of the data end after the file's end"},
      {"unknown_type", one({8}, 1000), "unknown type 1000; the file may be newer"},
      {"retired_type", one({8}, 31), "type 31 was removed from ggml"},
      {"half_block", one({48}, 2), "row length 48 is not a multiple of 32, the block size of Q4_0"},
      {"half_superblock", one({128, 2}, 12), "row length 128 is not a multiple of 256, the block size of Q4_K"},
      {"misaligned", one({8}, 0, 16), "its data's offset 16 is not a multiple of the alignment 32"},
      {"far_offset", one({8}, 0, ~0ull - 31), "its 32 bytes at offset 18446744073709551584 of the data end after"},
      {"short_data", one({8}, 0, 64), "(64 bytes of data are there); the file is truncated"},
      {"no_data", with_tensor().tensor("t", {8}, 0, 0).bytes, "(0 bytes of data are there)"},
      {"twice", two("t", "t", 64), "tensor 't' at offset 65: the name occurs twice"},
      {"overlap", two("t", "u", 32), "the data of tensors 't' and 'u' overlap at offset 32 of the data"},
      {"same_place", two("t", "u", 0), "overlap at offset 0"},
  };
}

class GgufMalformed : public ::testing::TestWithParam<Case> {};

TEST_P(GgufMalformed, IsRefused) {
  const std::string text = refusal(GetParam().bytes);
  EXPECT_TRUE(text.starts_with("x.gguf: ")) << text;
  EXPECT_NE(text.find(GetParam().message), std::string::npos) << text << "\nlacks\n" << GetParam().message;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Foreign, GgufMalformed, ::testing::ValuesIn(foreign_files()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Header, GgufMalformed, ::testing::ValuesIn(bad_headers()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Metadata, GgufMalformed, ::testing::ValuesIn(bad_metadata()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Tensor, GgufMalformed, ::testing::ValuesIn(bad_tensors()), name_of_case);

TEST(GgufRobust, TruncatedAtEveryByte) {
  const std::string whole = small_valid_file();
  ASSERT_EQ(refusal(whole), "");
  for (size_t n = 0; n < whole.size(); ++n) ASSERT_NE(refusal(whole.substr(0, n)), "") << "cut at " << n;
}

TEST(GgufRobust, ChangedBytes) {
  const std::string whole = small_valid_file();
  const Philox random(1, "gguf mutations");
  uint64_t draw = 0;
  int refused = 0;
  constexpr int kMutations = 60000;
  for (int m = 0; m < kMutations; ++m) {
    std::string bytes = whole;
    for (uint64_t left = 1 + random.below(draw++, 4); left > 0; --left) {
      char& byte = bytes[random.below(draw++, bytes.size())];
      // Flip a bit, or put one of the bytes that matter most.
      const uint64_t how = random.below(draw++, 11);
      byte = how < 8 ? char(byte ^ (1 << how)) : char("\x00\xff\x7f"[how - 8]);
    }
    refused += !refusal(bytes).empty();
  }
  EXPECT_GT(refused, kMutations / 10);
  EXPECT_LT(refused, kMutations);
}

// What the fuzzer and the writers of tests found worth keeping; made by tests/fuzz/make_gguf_corpus.py.
TEST(GgufCorpus, IsRefusedOrRead) {
  const std::filesystem::path folder = std::filesystem::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus/gguf";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    ++files;
    const std::string name = entry.path().filename().string(), bytes = slurp(entry.path()), text = refusal(bytes);
    EXPECT_TRUE(name.starts_with("bad_") ? !text.empty() : true) << name << " was read";
    EXPECT_TRUE(name.starts_with("ok_") ? text.empty() : true) << name << ": " << text;
    EXPECT_LT(bytes.size(), 4096u) << name;
  }
  EXPECT_GE(files, 20) << folder;
}

}  // namespace
}  // namespace toy::gguf::gguf_malformed_test
