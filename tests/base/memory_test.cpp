#include "toy/base/memory.h"

#include <gtest/gtest.h>

#include "toy/base/error.h"

namespace toy {
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

TEST(Memory, FormatsBytes) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(size_t(3) << 20), "3.0 MiB");
  EXPECT_EQ(format_bytes(size_t(5) << 29), "2.50 GiB");
}

}  // namespace
}  // namespace toy
