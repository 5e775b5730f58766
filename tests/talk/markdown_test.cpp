#include "talk/markdown.h"

#include <gtest/gtest.h>

namespace toy::talk::markdown_test {
namespace {

// Escape sequences as <n>, and <> for reset.
std::string readable(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
      continue;
    }
    const size_t end = text.find('m', i);
    const std::string number = text.substr(i + 2, end - i - 2);
    out += "<" + (number == "0" ? "" : number) + ">";
    i = end;
  }
  return out;
}

std::string shown(const std::string& text) {
  Markdown whole(false), single(false);
  std::string at_once = whole.push(text), in_parts;
  at_once += whole.finish();
  for (const char c : text) in_parts += single.push({&c, 1});
  in_parts += single.finish();
  EXPECT_EQ(readable(in_parts), readable(at_once)) << text;
  return readable(at_once);
}

TEST(Markdown, Spans) {
  EXPECT_EQ(shown("a **bold** word"), "a <1>bold<> word");
  EXPECT_EQ(shown("*it* and _it_"), "<3>it<> and <3>it<>");
  EXPECT_EQ(shown("***both***."), "<1><3>both<>.");
  EXPECT_EQ(shown("use `a*b*c` and ``x`y``"), "use <36>a*b*c<> and <36>x`y<>");
  EXPECT_EQ(shown("**bold with *it* in it**"), "<1>bold with <3>it<><1> in it<>");
  EXPECT_EQ(shown("**a `**` b**"), "<1>a <36>**<><1> b<>");
}

TEST(Markdown, WhatIsNoSpanStaysAsItIs) {
  for (const char* text :
       {"2 * 3 * 4", "snake_case_name", "a ** b", "5*3 = 15", "**open", "`open", "a ****", "a_", "x*"})
    EXPECT_EQ(shown(text), text);
  EXPECT_EQ(shown("\\*not\\* \\n \\_"), "*not* \\n _");
  EXPECT_EQ(shown("**open\nnext**"), "**open\nnext**");  // a span ends in its line
}

TEST(Markdown, Lines) {
  EXPECT_EQ(shown("# Title\ntext"), "<1><4>Title<>\ntext");
  EXPECT_EQ(shown("### Small *it*\n"), "<1>Small <3>it<><1><>\n");
  EXPECT_EQ(shown("#hashtag"), "#hashtag");
  EXPECT_EQ(shown("* one\n  * two\n+ three\n- four"), "- one\n  - two\n- three\n- four");
  EXPECT_EQ(shown("1. one\n12) **two**"), "1. one\n12) <1>two<>");
  EXPECT_EQ(shown("> quoted"), "<2>><> quoted");
  EXPECT_EQ(shown("---\n- - -"), "<2>--------------------<>\n- - -");
  EXPECT_EQ(shown("**Bold** begins"), "<1>Bold<> begins");
  EXPECT_EQ(shown("-5 is a number\n\n"), "-5 is a number\n\n");
  EXPECT_EQ(shown(""), "");
}

TEST(Markdown, CodeBlocks) {
  EXPECT_EQ(shown("```c\nint *a, *b;\n# no title\n```\n*it*"),
            "<2>```c<>\n<36>int *a, *b;<>\n<36># no title<>\n<2>```<>\n<3>it<>");
  EXPECT_EQ(shown("````\n```\n````\n"), "<2>````<>\n<36>```<>\n<2>````<>\n");
  EXPECT_EQ(shown("~~~\nx\n"), "<2>~~~<>\n<36>x<>\n<36><>");  // the end of the text ends the block
}

TEST(Markdown, ShowsAllThatIsCertain) {
  Markdown m(false);
  EXPECT_EQ(m.push("Hello wo"), "Hello wo");
  EXPECT_EQ(m.push("rld **im"), "rld ");
  EXPECT_EQ(readable(m.push("portant**, she")), "<1>important<>, she");
  const std::string lone = "*" + std::string(1000, 'x');
  EXPECT_EQ(Markdown(false).push(lone), lone) << "a mark that no other follows does not hold back the text";
}

std::string wrapped(const std::string& text, size_t columns) {
  WordWrap whole(columns), single(columns);
  std::string at_once = whole.push(text), in_parts;
  at_once += whole.finish();
  for (const char c : text) in_parts += single.push({&c, 1});
  EXPECT_EQ(in_parts += single.finish(), at_once) << text;
  return at_once;
}

TEST(WordWrap, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("one  two\n\n three ", 7), "one\ntwo\n\n three");
  EXPECT_EQ(wrapped("a toolongword b", 5), "a\ntoolongword\nb");
  EXPECT_EQ(wrapped("- one two three", 9), "- one two\n  three");
  EXPECT_EQ(wrapped(" 10. one two three", 13), " 10. one two\n     three");
  EXPECT_EQ(wrapped("\x1b[1mone\x1b[0m two \x1b[1mthree\x1b[0m", 7), "\x1b[1mone\x1b[0m two\n\x1b[1mthree\x1b[0m");
  EXPECT_EQ(wrapped("r\u00e9sum\u00e9 a b", 8), "r\u00e9sum\u00e9 a\nb");
  EXPECT_EQ(wrapped("\u4f60\u597d\u4e16\u754c\u4f60", 5),
            "\u4f60\u597d\n\u4e16\u754c\n\u4f60");  // wide, without blanks
  EXPECT_EQ(wrapped(std::string(50, 'a'), 10), std::string(41, 'a') + "\n" + std::string(9, 'a'));
  WordWrap w(10);
  EXPECT_EQ(w.push("one tw"), "one");
  EXPECT_EQ(w.push("o "), " two");
}

TEST(WordWrap, LinesOfCodeStay) {
  Markdown m(false);
  std::string text = m.push("```\nfor (int i = 0; i < n; ++i)\n```\n`code` and more words\n");
  text += m.finish();
  EXPECT_EQ(readable(wrapped(text, 12)),
            "<2>```<>\n<36>for (int i = 0; i < n; ++i)<>\n<2>```<>\n<36>code<> and\nmore words\n");
  EXPECT_EQ(wrapped("```\nfor (int i = 0;;)\n```\n| a | b | c | d |\nfor (int i = 0;;)\n", 12),
            "```\nfor (int i = 0;;)\n```\n| a | b | c | d |\nfor (int i =\n0;;)\n");
}

TEST(AnswerView, ThoughtsAreDimAndControlCharactersHarmless) {
  AnswerView color(true, false);
  std::string out;
  for (const char* part : {"<think>\nhm", "</think>\n\n**Y", "es**\x1b[2J"}) out += color.push(part, false);
  out += color.finish();
  EXPECT_EQ(readable(out), "<2>hm<>\n\n<1>Yes<>?[2J");
  AnswerView server(true, false);
  out = server.push("hm", true);
  out += server.push("Yes", false);
  EXPECT_EQ(readable(out += server.finish()), "<2>hm<>\n\nYes");
  AnswerView plain(false, false);
  out = plain.push("<think>a</think> **b**\x1b", false);
  EXPECT_EQ(out += plain.finish(), "<think>a</think> **b**?");
  AnswerView known(false, false);
  out = known.push("h", true);
  out += known.push("m", true);
  out += known.push("Yes", false);
  EXPECT_EQ(out += known.finish(), "<think>\nhm\n</think>\n\nYes");
}

}  // namespace
}  // namespace toy::talk::markdown_test
