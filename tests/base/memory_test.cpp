#include "toy/base/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "toy/base/error.h"

namespace toy::memory_test {
namespace {

TEST(Memory, KnowsWhatThereIs) {
  EXPECT_GT(available_memory(), size_t(1) << 20);
  EXPECT_GT(peak_resident_memory(), size_t(1) << 20);
}

TEST(Memory, RefusesWhatDoesNotFit) {
  EXPECT_NO_THROW(require_memory(1 << 20, "a test"));
  try {
    require_memory(size_t(1) << 60, "a test");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_EQ(std::string(e.what()).rfind("memory: a test needs 1073741824.00 GiB", 0), 0u) << e.what();
  }
}

TEST(Memory, AnonymousMemoryIsWhatWasTouched) {
  constexpr size_t kBytes = size_t(32) << 20;
  const size_t before = anonymous_memory();
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GE(anonymous_memory(), before + kBytes * 9 / 10);
  EXPECT_LE(anonymous_memory(), peak_resident_memory());
  EXPECT_EQ(touched.back(), 1);
}

TEST(Memory, ReadsSizes) {
  const std::pair<const char*, size_t> good[] = {
      {"4G", size_t(4) << 30},   {"4g", size_t(4) << 30}, {"6gib", size_t(6) << 30},   {"512M", size_t(512) << 20},
      {"6GiB", size_t(6) << 30}, {"6GB", 6000000000},     {"1.5G", size_t(3) << 29},   {"2048K", size_t(2) << 20},
      {"5MB", 5000000},          {"1T", size_t(1) << 40}, {"1048576", size_t(1) << 20}};
  for (const auto& [text, bytes] : good) EXPECT_EQ(parse_bytes("memory", text), bytes) << text;
  for (const char* bad : {"", "G", "4X", "-4G", "4 G", "4G ", "1e9", "1.2.3G", ".", "4GB2", "4iB", "0", "1023K", "nan",
                          "inf", "0x10G", "2000000T"})
    try {
      parse_bytes("memory", bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_EQ(std::string(e.what()).rfind(std::string("memory: '") + bad + "' is ", 0), 0u) << e.what();
    }
}

// Neither fits into a double; the message is that of their size.
TEST(Memory, ReadsSizesOfHundredsOfDigits) {
  const std::string nines(400, '9'), small = "0." + std::string(400, '0') + "1";
  for (const auto& [text, expected] :
       {std::pair(nines, std::string("' is more than any machine has")),
        std::pair(small + "G", std::string("' is 0 B; expected at least 1.0 MiB, as in 512M or 4G"))})
    try {
      parse_bytes("memory", text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_EQ(e.what(), "memory: '" + text + expected);
    }
  EXPECT_EQ(parse_bytes("memory", std::string(400, '0') + "4G"), size_t(4) << 30);
  EXPECT_EQ(parse_bytes("memory", ".5G"), size_t(1) << 29);
  EXPECT_EQ(parse_bytes("memory", "2.M"), size_t(2) << 20);
}

TEST(Memory, FormatsBytes) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(size_t(3) << 20), "3.0 MiB");
  EXPECT_EQ(format_bytes(size_t(5) << 29), "2.50 GiB");
}

}  // namespace
}  // namespace toy::memory_test
