// Thoughts and answers: marks of families, blanks, texts in any pieces.
#include "dialog/thoughts.h"

#include <gtest/gtest.h>

namespace toy::dialog::thoughts_test {
namespace {

std::string shown(ThoughtSplitter s, const std::string& text, size_t step) {
  std::vector<ThoughtPart> all;
  for (size_t at = 0; at < text.size(); at += step)
    for (ThoughtPart& p : s.push(text.substr(at, step))) all.push_back(std::move(p));
  for (ThoughtPart& p : s.finish()) all.push_back(std::move(p));
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_FALSE(all[i].text.empty());
    if (all[i].thought && (i == 0 || !all[i - 1].thought)) out += '(';
    out += all[i].text;
    if (all[i].thought && (i + 1 == all.size() || !all[i + 1].thought)) out += ')';
  }
  return out;
}

std::string split(const std::string& text, bool begun = false, const ThoughtMarks& marks = {}) {
  const std::string whole = shown(ThoughtSplitter(marks, begun), text, text.size() + 1);
  for (size_t step = 1; step < 12; ++step) EXPECT_EQ(shown(ThoughtSplitter(marks, begun), text, step), whole) << step;
  return whole;
}

TEST(Thoughts, AreTakenFromTheBeginning) {
  EXPECT_EQ(split("<think>\nhm</think>\n\nYes"), "(hm)Yes");
  EXPECT_EQ(split("\n<think>a </thin b\n\n</think>c </think> d\n"), "(a </thin b)c </think> d\n");
  EXPECT_EQ(split("<think>never\n ends </thi"), "(never\n ends </thi)");
  EXPECT_EQ(split("<think>never ends \n"), "(never ends)");
  EXPECT_EQ(split("<think>\n\n</think>\n\nYes"), "Yes");
  EXPECT_EQ(split("<think>\n</think>\n"), "");
  EXPECT_EQ(split("<thinking> is <think> a word"), "<thinking> is <think> a word");
  EXPECT_EQ(split("<thi"), "<thi");
  EXPECT_EQ(split("\n no thought </think>"), "\n no thought </think>");
  EXPECT_EQ(split(" \n"), " \n");
  EXPECT_EQ(split(""), "");
}

TEST(Thoughts, ThatThePromptHasBegun) {
  EXPECT_EQ(split("\nhm\n</think>\n\nYes <think>", true), "(hm)Yes <think>");
  EXPECT_EQ(split("</think>Yes", true), "Yes");
  EXPECT_EQ(split("hm", true), "(hm)");
  EXPECT_EQ(split("\n", true), "");
}

TEST(Thoughts, MarksOfFamilies) {
  const auto marks = [](const char* text) { return thought_marks(text); };
  EXPECT_EQ(marks("{{ messages }}").open, "<think>");
  EXPECT_EQ(marks("x.split('</think>')").close, "</think>");
  EXPECT_EQ(marks("'[THINK]' + t + '[/THINK]'").close, "[/THINK]");
  EXPECT_EQ(marks("'<seed:think>'").open, "<seed:think>");
  EXPECT_EQ(split("<|channel>thought\nhm\n<channel|>Yes", false, marks("'<|channel>thought'")), "(hm)Yes");
  EXPECT_EQ(marks("'<|channel>thought'").tokens, (std::vector<std::string_view>{"<|channel>", "<channel|>"}));

  // Apertus: a call ends a thought, and Cohere has marks around answers.
  const ThoughtMarks apertus = marks("'<|inner_prefix|>' <|inner_suffix|>");
  EXPECT_EQ(split("<|inner_prefix|>hm<|tools_prefix|>[]", false, apertus), "(hm)<|tools_prefix|>[]");
  EXPECT_EQ(split("<|inner_prefix|>a <|tools b<|inner_suffix|>\nYes", false, apertus), "(a <|tools b)Yes");
  const ThoughtMarks cohere = marks("<|START_THINKING|> <|START_RESPONSE|>");
  EXPECT_EQ(split("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>", false, cohere),
            "(hm)Yes");
  EXPECT_EQ(split("<|START_RESPONSE|>Yes <|END_R<|END_RESPONSE|>\n", false, cohere), "Yes <|END_R\n");
  EXPECT_EQ(split("<|END_THINKING|><|START_RESPONSE|>", true, cohere), "");
  EXPECT_EQ(split("Yes<|END_RESPONSE|>", false, cohere), "Yes");  // the prompt has begun it
  EXPECT_EQ(split("<|START_ACTION|>\"<|END_RESPONSE|>\"", false, cohere), "<|START_ACTION|>\"<|END_RESPONSE|>\"");
  EXPECT_EQ(split("<|START_RES", false, cohere), "<|START_RES");
  EXPECT_EQ(thought_state("<|CHATBOT_TOKEN|><|START_RESPONSE|>", "<|START_RESPONSE|>"), ThoughtState::ended);
  EXPECT_EQ(split("<|START_TEXT|>Yes<|END_TEXT|>", false, marks("<|START_TEXT|> <|START_THINKING|>")), "Yes");

  EXPECT_EQ(thought_state("<a>", "<a>"), ThoughtState::ended);  // the template knows no thoughts
  EXPECT_EQ(thought_state("<a>", "<think>"), ThoughtState::possible);
  EXPECT_EQ(thought_state("<a><think>\n", "<think>"), ThoughtState::begun);
  EXPECT_EQ(thought_state("<a><think>\n\n</think>\n\n", "<think>"), ThoughtState::ended);
  EXPECT_EQ(thought_state("<a>[THINK]", "[THINK]"), ThoughtState::begun);
}

}  // namespace
}  // namespace toy::dialog::thoughts_test
