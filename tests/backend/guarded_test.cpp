// The memory that kernels are checked with finds what it is there to find.
#include "testing/guarded.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace toy::test::guarded_test {
namespace {

TEST(Guarded, AnAccessPastTheEndsIsAFault) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Guarded memory(100);
  const volatile char* const p = reinterpret_cast<const char*>(memory.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
  EXPECT_EQ(char(p[99]), 0);
  EXPECT_DEATH((void)p[128], "");
  EXPECT_DEATH((void)p[-ptrdiff_t(Guarded::page())], "");
  const Guarded exact(100, 4);
  EXPECT_DEATH((void)*reinterpret_cast<const volatile char*>(exact.data() + 100), "");
}

TEST(Guarded, AWriteBesideTheBytesIsSeen) {
  for (const ptrdiff_t at : {-1, 100, 127}) {
    const Guarded memory(100);
    memory.data()[0] = memory.data()[99] = std::byte{1};
    EXPECT_TRUE(memory.intact());
    memory.data()[at] = std::byte{1};
    EXPECT_FALSE(memory.intact()) << at;
  }
}

}  // namespace
}  // namespace toy::test::guarded_test
