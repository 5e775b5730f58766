// Words of command lines.
#include "toy/base/shell_word.h"

#include <gtest/gtest.h>

namespace toy::shell_word_test {
namespace {

TEST(ShellWord, IsPlainInQuotesOrEscaped) {
  EXPECT_EQ(shell_quoted("out/tiny-1.gguf"), "out/tiny-1.gguf");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("My Books/a.txt"), "'My Books/a.txt'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$HOME;"), "'$HOME;'");
  EXPECT_EQ(shell_quoted("a\nb"), "$'a\\012b'");
}

}  // namespace
}  // namespace toy::shell_word_test
