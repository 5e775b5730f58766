#include "talk/input.h"

#include <gtest/gtest.h>

namespace toy::talk::input_test {
namespace {

TEST(MessageLines, AMessageIsALineOrSeveral) {
  MessageLines lines;
  EXPECT_EQ(lines.add("one"), "one");
  EXPECT_EQ(lines.add("carriage return\r"), "carriage return");
  EXPECT_EQ(lines.add("first \\"), std::nullopt);
  EXPECT_TRUE(lines.pending());
  EXPECT_EQ(lines.add("second\\"), std::nullopt);
  EXPECT_EQ(lines.add(""), "first \nsecond\n");
  EXPECT_FALSE(lines.pending());
  EXPECT_EQ(lines.add("\"\"\""), std::nullopt);
  EXPECT_EQ(lines.add("int x;\\"), std::nullopt);
  EXPECT_EQ(lines.add(""), std::nullopt);
  EXPECT_EQ(lines.add("end\"\"\""), "int x;\\\n\nend");
  EXPECT_EQ(lines.add("\"\"\"all in one\"\"\""), "all in one");
  EXPECT_EQ(lines.add("\"\"\"lost"), std::nullopt);
  EXPECT_EQ(lines.take(), "lost\n");
  EXPECT_EQ(lines.add("new"), "new");
}

TEST(Commands, AreTakenApart) {
  EXPECT_FALSE(parse_command("hello /help"));
  EXPECT_FALSE(parse_command("//etc/passwd is a file"));
  EXPECT_EQ(plain_message("//etc/passwd is a file"), "/etc/passwd is a file");
  EXPECT_EQ(plain_message("a // b"), "a // b");
  EXPECT_EQ(parse_command("/")->name, "");
  EXPECT_EQ(parse_command("/undo")->name, "undo");
  EXPECT_EQ(parse_command("/undo")->rest, "");
  const auto c = parse_command("/system   Be brief.\nBe kind. ");
  EXPECT_EQ(c->name, "system");
  EXPECT_EQ(c->rest, "Be brief.\nBe kind.");
}

}  // namespace
}  // namespace toy::talk::input_test
