#include "toy/data/documents.h"

#include <gtest/gtest.h>

#include "testing/errors.h"

namespace toy::documents_test {
namespace {

using namespace testing;

// The documents of a text that comes in parts of `step` bytes. Every part must lie where it says that it does.
std::vector<std::string> cut(const std::string& rule, bool keep, const std::string& text, size_t step) {
  std::vector<std::string> documents(1);
  DocumentCutter cutter(
      parse_documents(rule), keep,
      [&](std::string_view part, uint64_t at) {
        EXPECT_EQ(text.substr(at, part.size()), part);
        documents.back() += part;
      },
      [&] { documents.emplace_back(); });
  for (size_t i = 0; i < text.size(); i += step) cutter.push(std::string_view(text).substr(i, step));
  cutter.finish();
  documents.pop_back();  // finish() ended the last
  return documents;
}

void expect_cut(const std::string& rule, bool keep, const std::string& text, const std::vector<std::string>& expected) {
  for (size_t step = 1; step <= text.size() + 1; ++step)
    EXPECT_EQ(cut(rule, keep, text, step), expected) << rule << ", parts of " << step;
}

TEST(Documents, FilesAndNone) {
  expect_cut("files", true, "a\n\nb", {"a\n\nb"});
  expect_cut("none", false, "a\n\nb", {"a\n\nb"});
}

TEST(Documents, BlankLines) {
  const std::string text = "\n  one\ntwo \n \t\n\nthree\r\n\r\nfour\n";
  expect_cut("blank-lines", false, text, {"  one\ntwo ", "three\r", "four"});
  expect_cut("blank-lines", true, text, {"\n  one\ntwo \n \t\n\n", "three\r\n\r\n", "four\n"});
  expect_cut("blank-lines", false, " \n\n", {""});
}

TEST(Documents, Separator) {
  const std::string text = "<|x|>one<|x<|x|><|x|>two\n<|";
  expect_cut("separator:<|x|>", false, text, {"", "one<|x", "", "two\n<|"});
  expect_cut("separator:<|x|>", true, text, {"<|x|>", "one<|x<|x|>", "<|x|>", "two\n<|"});
  expect_cut("separator:\\n\\t", false, "a\n\tb\n\n\tc", {"a", "b\n", "c"});
  expect_cut("separator:aa", false, "aaa", {"", "a"});
}

TEST(Documents, Parse) {
  for (const std::string text : {"none", "files", "blank-lines", "separator:a\\nb\\t\\\\"})
    EXPECT_EQ(parse_documents(text).str(), text);
  EXPECT_EQ(parse_documents("separator:\\\\n").text, "\\n");
  EXPECT_EQ(message_of([] { parse_documents("lines"); }),
            "documents is 'lines', expected one of none, files, blank-lines, separator:TEXT");
  EXPECT_EQ(message_of([] { parse_documents("separator:"); }),
            "documents is 'separator:': the separator is empty; expected separator:TEXT");
  for (const std::string bad : {"separator:a\\", "separator:\\x"})
    EXPECT_NE(message_of([&] { parse_documents(bad); }).find("after \\ use n, t or \\"), std::string::npos);
}

}  // namespace
}  // namespace toy::documents_test
