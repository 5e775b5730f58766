// GBNF: what texts a grammar has, what it refuses, and the masks of tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::gbnf_test {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_gbnf(text);
    return "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    return e.what();
  }
}

void expect(const std::string& grammar, const std::vector<std::string>& in, const std::vector<std::string>& out) {
  const Grammar g = parse_gbnf(grammar);
  for (const std::string& t : in) {
    EXPECT_TRUE(g.matches(t)) << grammar << "\n" << t;
    for (size_t n = 0; n <= t.size(); ++n) EXPECT_TRUE(g.begins(t.substr(0, n))) << grammar << "\n" << t << " " << n;
  }
  for (const std::string& t : out) EXPECT_FALSE(g.matches(t)) << grammar << "\n" << t;
}

TEST(Gbnf, LiteralsSetsAndRepetitions) {
  expect("root ::= \"ab\" [c-e]+", {"abc", "abcde"}, {"", "ab", "abf", "abcf"});
  expect("root ::= [^a-y]*", {"", "z", "Z\n"}, {"a", "zy"});
  expect("root ::= \"a\"?", {"", "a"}, {"aa"});
  expect("root ::= \"a\"{2}", {"aa"}, {"", "a", "aaa"});
  expect("root ::= \"a\"{2,}", {"aa", "aaaa"}, {"", "a"});
  expect("root ::= \"a\"{1,3}", {"a", "aa", "aaa"}, {"", "aaaa"});
  expect("root ::= \"a\"{0,2} \"b\"", {"b", "ab", "aab"}, {"aaab", "a"});
  expect("root ::= (\"a\" | \"bc\")* \"d\"", {"d", "abcd", "bcbcad"}, {"bd", "abc"});
  expect("root ::= .", {"x", "\n", "\xC3\xA9", "\xF0\x9F\x98\x80"},
         {"", "xx", "\xC3", "\xC3\xA9\xC3\xA9", "\xED\xA0\x80"});
  expect("root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\\\\\"", {"A\xC3\xA9\xF0\x9F\x98\x80\n\"\\"}, {"A"});
  expect("root ::= [\\]\\[a]", {"]", "[", "a"}, {"b"});
  expect("root ::= [a-]", {"a", "-"}, {"b"});
  expect("root ::= (\"a\"*)*", {"", "a", "aaaa"}, {"b"});
  expect("root ::= \"\" | \"x\"", {"", "x"}, {"xx"});
}

TEST(Gbnf, CharactersOfAllLengths) {
  expect("root ::= [\\u0300-\\U00010FFF]", {"\xCC\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xEF\xBF\xBF", "\xF0\x90\xBF\xBF"},
         {"\xCB\xBF", "\xF0\x91\x80\x80", "\xED\xA0\x80", "\xE0\x80\x80"});
  expect("root ::= [^\\x00-\\x7f]", {"\xC2\x80", "\xF4\x8F\xBF\xBF"},
         {"a", "\xC1\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"});
}

TEST(Gbnf, RulesCommentsAndLines) {
  expect("# a list\nroot ::= item ( # first\n  \",\" item\n)* end\n\nitem ::= [0-9]+ |\n  \"x\"\nend ::= \"\\n\"\n",
         {"1\n", "12,x,3\n"}, {"1", ",\n", "1,\n"});
  expect("a-b ::= \"1\"\r\nroot ::= a-b a-b", {"11"}, {"1"});
  expect("root ::= s\ns ::= \"(\" s \")\" s |", {"", "()", "(())()", "((()))"}, {"(", "())", ")("});
  // Right recursion, and rules that may be empty in front of another.
  expect("root ::= e \"x\" root | e\ne ::= \"a\"?", {"", "a", "x", "axxa"}, {"aa", "xaa"});
}

// a^n b^n: no finite automaton.
TEST(Gbnf, NestingIsCounted) {
  const Grammar g = parse_gbnf("root ::= \"a\" root \"b\" | \"ab\"");
  for (const size_t n : {1, 2, 50, 2000}) {
    EXPECT_TRUE(g.matches(std::string(n, 'a') + std::string(n, 'b'))) << n;
    EXPECT_FALSE(g.matches(std::string(n + 1, 'a') + std::string(n, 'b'))) << n;
    EXPECT_FALSE(g.begins(std::string(n, 'a') + std::string(n + 1, 'b'))) << n;
  }
}

TEST(Gbnf, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(error_of("root ::= \"a"), "grammar: line 1, column 12: the text ends inside quotes or brackets");
  EXPECT_EQ(error_of("x ::= \"a\""), "grammar: there is no rule 'root', which is the complete text; add root ::= ...");
  EXPECT_EQ(error_of("root ::= a\n\na ::= b"),
            "grammar: line 3, column 7: there is no rule 'b'; add b ::= ..., or write \"b\" for the text");
  EXPECT_EQ(error_of("root ::= \"a\"\nroot ::= \"b\""), "grammar: line 2, column 9: rule 'root' is defined twice");
  EXPECT_NE(error_of("root = \"a\"").find("expected ::= after 'root'"), std::string::npos);
  EXPECT_NE(error_of("root ::= (\"a\"").find("expected )"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"a\"{3,1}").find("wrong order"), std::string::npos);
  EXPECT_NE(error_of("root ::= [z-a]").find("wrong order"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"\\q\"").find("unknown escape"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"\\ud800\"").find("U+D800 is no character"), std::string::npos);
  EXPECT_NE(error_of("root ::= <think>").find("not supported"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"\xFF\"").find("not UTF-8"), std::string::npos);
}

TEST(Gbnf, WhatNeverEndsOrNeverBeginsIsRefused) {
  EXPECT_NE(error_of("root ::= root \"a\" | \"b\"").find("'root' may begin with itself"), std::string::npos);
  EXPECT_NE(error_of("root ::= a\na ::= b? a \"x\" | \"y\"\nb ::= \"c\"").find("'a' may begin with itself"),
            std::string::npos);
  EXPECT_NE(error_of("root ::= e root | \"b\"\ne ::= \"a\"*").find("left recursion"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"a\" root").find("no text satisfies it"), std::string::npos);
  EXPECT_NE(error_of("root ::= []").find("no text satisfies it"), std::string::npos);
  expect("root ::= \"a\" | \"b\" dead\ndead ::= \"c\" dead", {"a"}, {"b", "bc"});
}

// A schema as a rule, with rules of its own that have no names here.
TEST(Gbnf, RulesThatAreSchemas) {
  const auto shared = [](const nlohmann::ordered_json& j) { return std::make_shared<nlohmann::ordered_json>(j); };
  const nlohmann::ordered_json a{
      {"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}, {"required", {"n"}}},
      b{{"$defs", {{"list", {{"type", "array"}, {"items", {{"$ref", "#/$defs/list"}}}}}}}, {"$ref", "#/$defs/list"}};
  const Grammar g = parse_gbnf("root ::= \"a:\" first | \"b:\" second \";\" first", "g",
                               {{"first", shared(a), "A"}, {"second", shared(b), "B"}});
  for (const char* text : {R"(a:{"n": 3})", R"(b:[[],[[]]];{"n":1})"}) EXPECT_TRUE(g.matches(text)) << text;
  for (const char* text : {R"(a:[])", R"(b:{"n":1};{"n":1})", "a:{}"}) EXPECT_FALSE(g.matches(text)) << text;
  const nlohmann::ordered_json with_property{
      {"$defs", {{"small", {{"maximum", 9}}}}},
      {"properties", {{"a/b%", {{"type", "integer"}, {"minimum", 0}, {"$ref", "#/$defs/small"}}}}}};
  const Grammar value = parse_gbnf("root ::= x", "g", {{"x", shared(with_property), "the tool", "a/b%"}});
  EXPECT_TRUE(value.matches("7"));
  EXPECT_FALSE(value.matches("10"));
  EXPECT_FALSE(value.matches("{}"));
  const nlohmann::ordered_json bad{{"type", "array"}, {"uniqueItems", true}};
  try {
    parse_gbnf("root ::= x", "g", {{"x", shared(bad), "the tool"}});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the tool: /uniqueItems"), std::string::npos) << e.what();
  }
}

// Bounded in time and memory whatever a grammar says.
TEST(Gbnf, HostileGrammarsAreBounded) {
  EXPECT_NE(error_of("root ::= \"a\"{100000}{100000}").find("states"), std::string::npos);
  EXPECT_NE(error_of("root ::= (\"\"{100000}){100000}").find("too large"), std::string::npos);
  EXPECT_NE(error_of("root ::= \"a\"{99999999999999999999}").find("a count above"), std::string::npos);
  EXPECT_NE(error_of("root ::= " + std::string(5000, '(') + "\"a\"" + std::string(5000, ')')).find("levels"),
            std::string::npos);
  // 2^n ways to read n characters, with two continuations of each.
  const Grammar ambiguous = parse_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" | \"a\" root root");
  EXPECT_TRUE(ambiguous.begins(std::string(300, 'a')));
  EXPECT_TRUE(ambiguous.matches(std::string(21, 'a') + "bcbc"));
  const Grammar stars = parse_gbnf("root ::= ((\"a\"* \"a\"*)* (\"a\"? \"a\"?)*)* \"b\"");
  EXPECT_TRUE(stars.matches(std::string(5000, 'a') + "b"));
  const Grammar subsets = parse_gbnf("root ::= [ab]* \"a\" [ab]{60}");
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ab"[i * i % 7 % 2];
  EXPECT_TRUE(subsets.begins(text));
}

}  // namespace
}  // namespace toy::gbnf_test
