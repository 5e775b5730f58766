// Calls in what a model writes: the same from any pieces, and text where there is none.
#include "serve/call_parser.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <map>
#include <set>

#include "fuzz/tool_calls_fuzz.h"
#include "testing/files.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

std::shared_ptr<const std::vector<Tool>> tools() {
  return std::make_shared<std::vector<Tool>>(std::vector<Tool>{
      make_tool("weather", "",
                {{"type", "object"},
                 {"properties",
                  {{"city", {{"type", "string"}}}, {"days", {{"type", "integer"}}}, {"unit", {{"enum", {"C", "F"}}}}}},
                 {"required", {"city"}}},
                false),
      make_tool("now", "", nullptr, false)});
}

const CallForm& form(const std::string& mark) {
  const CallForm* f = call_form_of("{{ tools }} " + mark);
  EXPECT_NE(f, nullptr) << mark;
  return *f;
}

struct Parsed {
  std::string text;
  std::vector<ToolCall> calls;
};

// All of the text, in pieces of this many bytes.
Parsed parse(const CallForm& f, const std::string& all, size_t step) {
  CallParser p(f, tools(), "salt");
  Parsed r;
  const auto add = [&](const Piece& piece) {
    r.text += piece.text;
    for (const auto& [index, part] : piece.calls) {
      EXPECT_LE(index, r.calls.size());
      if (index == r.calls.size()) {
        EXPECT_FALSE(part.id.empty() || part.name.empty());
        r.calls.emplace_back();
      } else {
        EXPECT_TRUE(part.id.empty() && part.name.empty());
      }
      ToolCall& c = r.calls[index];
      c.id += part.id, c.name += part.name, c.arguments += part.arguments;
    }
  };
  for (size_t at = 0; at < all.size(); at += step) add(p.push(std::string_view(all).substr(at, step)));
  add(p.finish());
  return r;
}

// "TEXT|name(arguments)|..."
std::string shown(const CallForm& f, const std::string& all) {
  std::string whole;
  for (const size_t step : {size_t(1), size_t(2), size_t(7), all.size() + 1}) {
    const Parsed r = parse(f, all, step);
    std::string s = r.text;
    for (const ToolCall& c : r.calls) s += "|" + c.name + "(" + c.arguments + ")";
    if (step == 1)
      whole = s;
    else
      EXPECT_EQ(s, whole) << "in pieces of " << step;
    std::set<std::string> ids;
    for (const ToolCall& c : r.calls) EXPECT_TRUE(ids.insert(c.id).second);
  }
  return whole;
}

TEST(CallParser, Hermes) {
  const CallForm& f = form("<tool_call>");
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a}\\\"</tool_call>\"}}\n</tool_call>";
  const std::string wanted = "|weather({\"city\": \"a}\\\"</tool_call>\"})";
  EXPECT_EQ(shown(f, call), wanted);
  EXPECT_EQ(shown(f, "I look.\n\n" + call + "\n"), "I look." + wanted);
  EXPECT_EQ(shown(f, call + "\n" + call), wanted + wanted);
  EXPECT_EQ(shown(f, call + "Then"), "Then" + wanted);
  EXPECT_EQ(shown(f, R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)"), "|now({})");
  EXPECT_EQ(shown(f, R"(<tool_call>{"arguments":{"a":[1,{}]} , "name" : "now" }</tool_call>)"),
            R"(|now({"a":[1,{}]}))");
  EXPECT_EQ(shown(f, R"(<tool_call>{"name": "now"}</tool_call>)"), "|now({})");
  EXPECT_EQ(shown(f, R"(<tool_call>{"id": 7, "name": "now", "arguments": "{\"a\": 1}", "x": null}</tool_call>)"),
            R"(|now({"a": 1}))");
  EXPECT_EQ(shown(f, R"(<tool_call>{"name": "now", "arguments": {}})"), "|now({})");  // no end mark
}

TEST(CallParser, WhatIsNoCallIsText) {
  const CallForm& f = form("<tool_call>");
  for (const char* text : {"", " \n", "a < b <tool", "plain <tool_call", "<tool_call>", "<tool_call>\n{\"name\": \"wea",
                           "x <tool_call>no", R"(<tool_call>{"name": "unknown", "arguments": {}}</tool_call> more)",
                           "<tool_call>{}</tool_call>", R"(<tool_call>{"arguments": {}}</tool_call>)",
                           R"(<tool_call>{"name": 3}</tool_call>)", "<tool_call>[]", "spaces \n  and more"})
    EXPECT_EQ(shown(f, text), text);
  // What follows an announced call that breaks is not lost.
  EXPECT_EQ(shown(f, R"(<tool_call>{"name": "now" oops</tool_call>)"), "oops</tool_call>|now()");
  // Cut off: what came of the arguments.
  EXPECT_EQ(shown(f, R"(<tool_call>{"name": "now", "arguments": {"a": "b)"), R"(|now({"a": "b))");
  EXPECT_EQ(shown(f, R"(<tool_call>{"name": "now", "arguments": {}})"
                     "\n</tool"),
            "|now({})");
}

TEST(CallParser, Lists) {
  const CallForm& mistral = form("[TOOL_CALLS]");
  EXPECT_TRUE(mistral.list);
  EXPECT_EQ(
      shown(mistral,
            R"([TOOL_CALLS] [{"name": "now", "arguments": {}}, {"name": "weather", "arguments": {"city": "x"}}])"),
      R"(|now({})|weather({"city": "x"}))");
  EXPECT_EQ(shown(mistral, "[TOOL_CALLS][]"), "[TOOL_CALLS][]");
  EXPECT_EQ(parse(mistral, R"([TOOL_CALLS][{"name": "now", "arguments": {}}])", 3).calls[0].id.size(), 9u);
  const CallForm& granite = form("<|tool_call|>");
  EXPECT_EQ(shown(granite, R"(<|tool_call|>[{"name": "now", "arguments": {"a":1}}]<|/tool_call|> x)"),
            R"( x|now({"a":1}))");
  EXPECT_EQ(shown(granite, R"(<|tool_call|>{"name": "now", "arguments": {"a":1}})"), R"(|now({"a":1}))");
  EXPECT_EQ(shown(form("<TOOLCALL>"), R"(<TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>)"), "|now({})");
}

TEST(CallParser, MistralsArguments) {
  const CallForm& f = form("[TOOL_CALLS] [ARGS]");
  EXPECT_EQ(shown(f, R"(Yes[TOOL_CALLS]weather[ARGS]{"city": "[ARGS]}"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{})"),
            R"(Yes|weather({"city": "[ARGS]}"})|now({}))");
  EXPECT_EQ(shown(f, "[TOOL_CALLS]other[ARGS]{}"), "[TOOL_CALLS]other[ARGS]{}");
  EXPECT_EQ(shown(f, "[TOOL_CALLS]now[ARGS]3"), "3|now()");
  EXPECT_EQ(shown(f, "[TOOL_CALLS]" + std::string(500, 'a')), "[TOOL_CALLS]" + std::string(500, 'a'));
}

TEST(CallParser, Llama) {
  const CallForm& f = form(R"(<|python_tag|> {"name": function name, "parameters": )");
  EXPECT_EQ(shown(f, R"({"name": "now", "parameters": {"a": 1}})"), R"(|now({"a": 1}))");
  EXPECT_EQ(shown(f, R"(<|python_tag|>{"name": "now", "parameters": {}})"), "|now({})");
  for (const char* text : {R"(Hello {"name": "now", "parameters": {}})", R"({"name": "Bob", "age": 3})",
                           R"({"a": [1, 2]} x)", "<|python_tag|>print(3)", "  plain"})
    EXPECT_EQ(shown(f, text), text);
}

TEST(CallParser, Tags) {
  const CallForm& f = form("<tool_call> <parameter=");
  EXPECT_EQ(f.kind, CallForm::parameters);
  EXPECT_EQ(shown(f,
                  "<tool_call>\n<function=weather>\n<parameter=city>\n12\n\n</x>\n</parameter>\n<parameter=days>\n3\n"
                  "</parameter>\n<parameter=unit>\nC\n</parameter>\n<parameter=other>\n{\"a\": [1]}\n</parameter>\n"
                  "</function>\n</tool_call>"),
            R"(|weather({"city": "12\n\n</x>", "days": 3, "unit": "C", "other": {"a":[1]}}))");
  EXPECT_EQ(shown(f, "<tool_call>\n<function=now>\n</function>\n</tool_call>"), "|now({})");
  EXPECT_EQ(shown(f, "<tool_call>\n<function=other>\n</function>\n</tool_call>"),
            "<tool_call>\n<function=other>\n</function>\n</tool_call>");
  EXPECT_EQ(shown(f, "<tool_call>{\"name\""), "<tool_call>{\"name\"");
}

// The fuzzer's inputs, without a fuzzer.
TEST(CallParser, Corpus) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus/tool_calls")) {
    const std::string input = testing::slurp(entry.path());
    fuzz::tool_calls(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ++count;
  }
  EXPECT_GE(count, 14);
}

TEST(CallForms, TemplatesWithoutToolsHaveNone) {
  EXPECT_EQ(call_form_of("{{ messages }} <tool_call>"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }}"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <tool_call> <arg_key>"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <seed:tool_call> <parameter="), nullptr);
}

std::string quoted_call(const CallForm& f) {
  const std::string call = R"({"name": "weather", ")" + std::string(f.arguments) + R"(": {"city": "x", "days": 2}})";
  if (f.kind == CallForm::parameters)
    return "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</param\n</parameter>\n<parameter=days>\n2\n</"
           "parameter>\n"
           "</function>\n</tool_call>";
  if (f.kind == CallForm::named) return R"([TOOL_CALLS]weather[ARGS]{"city": "x", "days": 2})";
  if (f.at_start) return call;
  return std::string(f.open) + (f.list ? "[" + call + "]" : "\n" + call + "\n") + std::string(f.close);
}

// The grammar of each form has the calls that the parser reads, and no others.
TEST(CallForms, GrammarsOfCalls) {
  for (const char* mark : {"<tool_call> <parameter=", "<tool_call>", "[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]",
                           "<|tool_call|>", "<TOOLCALL>", R"(<|python_tag|> {"name": function name, "parameters": )"}) {
    const CallForm& f = form(mark);
    std::vector<SchemaRule> rules;
    const std::string text = f.gbnf(*tools(), true, rules);
    const Grammar g = parse_gbnf("root ::= calls\n" + text, "calls", rules);
    const std::string call = quoted_call(f);
    EXPECT_TRUE(g.matches(call)) << mark << "\n" << call << "\n" << text;
    EXPECT_EQ(parse(f, call, 1).calls.size(), 1u) << call;
    for (const Trigger& t : f.triggers()) EXPECT_TRUE(g.begins(t.text)) << t.text;
    for (const auto& [from, to] :
         std::map<std::string, std::string>{{"weather", "other"}, {"days", "dayz"}, {"2", "\"2\""}}) {
      std::string wrong = call;
      wrong.replace(wrong.find(from), from.size(), to);
      EXPECT_FALSE(g.matches(wrong)) << wrong;
    }
    const std::string two = call + std::string(f.between) + call;
    EXPECT_EQ(g.matches(two), !f.list && !f.at_start) << two;
    std::vector<SchemaRule> again;
    EXPECT_FALSE(parse_gbnf("root ::= calls\n" + f.gbnf(*tools(), false, again), "calls", again).matches(two)) << two;
  }
}

}  // namespace
}  // namespace toy::serve
