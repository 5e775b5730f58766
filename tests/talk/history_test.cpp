#include "talk/history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "testing/files.h"

namespace toy::talk::history_test {
namespace {

class History : public ::testing::Test, protected toy::testing::Folder {};

TEST_F(History, IsKeptForTheNextChat) {
  const std::string file = path("state/toy/chat_history");
  HistoryFile first(file);
  EXPECT_TRUE(first.entries().empty());
  first.add("one");
  first.add("one");
  first.add("two\nlines \"quoted\"");
  HistoryFile second(file);
  EXPECT_EQ(second.entries(), (std::vector<std::string>{"one", "two\nlines \"quoted\""}));
  EXPECT_EQ(second.warning(), "");
  struct stat s = {};
  ASSERT_EQ(::stat(file.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

TEST_F(History, AnOldOneIsCutToItsLatestEntries) {
  std::string text;
  for (int i = 0; i < 2500; ++i) text += "\"" + std::to_string(i) + "\"\n";
  const std::string file = write("long", text);
  EXPECT_EQ(HistoryFile(file).entries().size(), 1000u);
  const std::string shorter = toy::testing::slurp(file);
  EXPECT_TRUE(shorter.starts_with("\"1500\"\n"));
  EXPECT_TRUE(shorter.ends_with("\"2499\"\n"));
}

TEST_F(History, AnotherFileStaysAsItIs) {
  const std::string file = write("mine", "\"one\"\nmy diary\n");
  HistoryFile history(file);
  EXPECT_NE(history.warning().find(file), std::string::npos);
  EXPECT_TRUE(history.entries().empty());
  history.add("two");
  EXPECT_EQ(toy::testing::slurp(file), "\"one\"\nmy diary\n");
  EXPECT_EQ(history.entries().size(), 1u);  // of this chat
  HistoryFile nowhere("");
  nowhere.add("x");
  HistoryFile folder(path());
  folder.add("x");
}

TEST_F(History, IsWhereStatesAre) {
  ::setenv("HOME", "/home/me", 1);
  ::setenv("XDG_STATE_HOME", "/states", 1);
  EXPECT_EQ(default_history_path(), "/states/toy/chat_history");
  ::setenv("XDG_STATE_HOME", "not/absolute", 1);
  EXPECT_EQ(default_history_path(), "/home/me/.local/state/toy/chat_history");
  ::unsetenv("XDG_STATE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(default_history_path(), "");
}

}  // namespace
}  // namespace toy::talk::history_test
