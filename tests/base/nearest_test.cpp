// Suggestions for unknown words and files.
#include "toy/base/nearest.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/files.h"

namespace toy::nearest_test {
namespace {

TEST(Nearest, ATypingMistakeOrNothing) {
  EXPECT_EQ(nearest("traim", {"infer", "train"}), "train");
  EXPECT_EQ(nearest("serve", {"infer", "train"}), "");
  EXPECT_EQ(nearest("tarin", {"infer", "train"}), "train");  // swapped letters are one mistake
  EXPECT_EQ(nearest("--tempreture", {"--temperature"}), "--temperature");
  EXPECT_EQ(nearest("--heads", {"--grads"}), "");  // two letters of five
  EXPECT_EQ(nearest("--format", {"--lora"}), "");
}

TEST(Nearest, OneLetterThatIsWrongMissingOrTooMuch) {
  const std::vector<std::string> roles = {"system", "user", "assistant", "tool"};
  for (const char* word : {"usr", "usar", "uuser"}) EXPECT_EQ(misspelt(word, roles), "user") << word;
  for (const char* word : {"user", "user1", "tools", "root", "buyer", "human", ""})
    EXPECT_EQ(misspelt(word, roles), "") << word;
}

TEST(Nearest, LongerNamesOfChoices) {
  const std::vector<std::string> choices = {"attn", "gdn", "adamw", "adamw8", "cosine", "no"};
  const std::pair<const char*, const char*> meant[] = {{"attention", "attn"},
                                                       {"gated_deltanet", "gdn"},
                                                       {"adamw_torch", "adamw"},
                                                       {"adamw8bit_paged", "adamw8"},
                                                       {"cosine_with_restarts", "cosine"},
                                                       {"cosin", "cosine"},
                                                       {"north_of_it", ""},
                                                       {"banter", ""},
                                                       {"gdn attn of it", ""},
                                                       {"", ""}};
  for (const auto& [word, choice] : meant) EXPECT_EQ(meant_choice(word, choices), choice) << word;
}

TEST(Nearest, FilesOfTheFolder) {
  const testing::Folder folder;
  const std::string book = folder.write("texts/book.txt", "a");
  EXPECT_EQ(no_such_file(folder.path("texts/bok.txt")),
            folder.path("texts/bok.txt") + ": no such file; did you mean '" + book + "'?");
  EXPECT_EQ(no_such_file(folder.path("texts/novel.md")),
            folder.path("texts/novel.md") + ": no such file; check the path");
  EXPECT_EQ(no_such_file(folder.path("text/a/book.txt")),
            folder.path("text/a/book.txt") + ": no such file; there is no folder '" + folder.path("text") + "'");
  testing::expect_contains(no_such_file("https://a.org/b.txt"), "it is an address; download it first");
  testing::expect_contains(no_such_file("~/b.txt"), "the shell replaces ~ only where a word begins with it");
  for (const char* windows : {"C:\\My Books\\b.txt", "C:/My Books/b.txt"})
    EXPECT_EQ(no_such_file(windows), std::string(windows) +
                                         ": no such file; it is a path of Windows, and WSL has it as '/mnt/c/My "
                                         "Books/b.txt'");
  EXPECT_EQ(why_no_path("c:b"), "");
  testing::expect_contains(no_such_file("*.txt"), "the shell replaces * only in a word of its own");
}

}  // namespace
}  // namespace toy::nearest_test
