// Calls in what a model writes: the same from any pieces, and text where there is none.
#include "dialog/call_parser.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <map>
#include <set>

#include "dialog/forms.h"
#include "fuzz/tool_calls_fuzz.h"
#include "testing/files.h"
#include "text/bpe/byte_level.h"
#include "text/text_testing.h"
#include "text/vocabulary.h"

namespace toy::dialog::call_parser_test {
namespace {

using nlohmann::ordered_json;

// "TEXT|name(arguments)|...", after "(THOUGHT)" where there is one
std::string shown(const CallForm& f, const std::string& all) {
  std::string whole;
  for (const size_t step : {size_t(1), size_t(2), size_t(7), all.size() + 1}) {
    const Parsed r = parse(f, all, step);
    std::string s = (r.thought.empty() ? "" : "(" + r.thought + ")") + r.text;
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
  EXPECT_TRUE(mistral.unit.next.has_value());
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

TEST(CallParser, Glm) {
  const CallForm& old = form("<tool_call> </arg_key>\n<arg_value>");
  const CallForm& now = form("<tool_call> </arg_key><arg_value>");
  const std::string wanted = R"(|weather({"city": "Ulm\n<b>", "days": 3, "other": [1]}))";
  const std::string lines =
      "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm\n<b></arg_value>\n<arg_key>days</arg_key>\n"
      "<arg_value>3</arg_value>\n<arg_key>other</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call>";
  const std::string one =
      "<tool_call>weather<arg_key>city</arg_key><arg_value>Ulm\n<b></arg_value><arg_key>days</arg_key><arg_value>3"
      "</arg_value><arg_key>other</arg_key><arg_value>[1]</arg_value></tool_call>";
  for (const CallForm* f : {&old, &now}) {  // blanks between tags mean nothing
    EXPECT_EQ(shown(*f, "I look.\n" + lines), "I look." + wanted);
    EXPECT_EQ(shown(*f, one + one), wanted + wanted);
    EXPECT_EQ(shown(*f, lines + "\n" + one + "\nThen"), "\nThen" + wanted + wanted);
    EXPECT_EQ(shown(*f, "<tool_call>now</tool_call>"), "|now({})");
    EXPECT_EQ(shown(*f, "<tool_call>now\n</tool_call>"), "|now({})");
    EXPECT_EQ(shown(*f, "<tool_call>other\n</tool_call>"), "<tool_call>other\n</tool_call>");
    EXPECT_EQ(shown(*f, "<tool_call>no"), "<tool_call>no");
  }
}

TEST(CallParser, SeedAndMiniMax) {
  const CallForm& seed = form("<seed:tool_call> <parameter=");
  EXPECT_EQ(shown(seed,
                  "I look.\n<seed:tool_call>\n<function=weather>\n<parameter=city>\nUlm</parameter>\n"
                  "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>"),
            R"(I look.|weather({"city": "\nUlm", "days": 3}))");
  EXPECT_EQ(shown(seed, "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>"), "|now({})");
  const CallForm& minimax = form("<minimax:tool_call> <invoke name=");
  const std::string weather =
      "<invoke name=\"weather\">\n<parameter name=\"city\">Ulm</parameter>\n<parameter name=\"days\">3</parameter>\n"
      "</invoke>\n";
  const std::string now = "<invoke name=\"now\">\n</invoke>\n";
  const auto unit = [](const std::string& calls) { return "<minimax:tool_call>\n" + calls + "</minimax:tool_call>"; };
  const std::string wanted = R"(|weather({"city": "Ulm", "days": 3}))";
  EXPECT_EQ(shown(minimax, "I look.\n" + unit(weather + now) + "\nThen"), "I look.\nThen" + wanted + "|now({})");
  EXPECT_EQ(shown(minimax, unit(now)), "|now({})");
  for (const std::string& text :
       {unit("<invoke name=\"other\">\n</invoke>\n"), std::string("<minimax:tool_call>\n<inv")})
    EXPECT_EQ(shown(minimax, text), text);
  const std::string whole = unit(weather + now);  // cut off: no part of a mark is text
  for (size_t n = whole.find("</invoke>") + 9; n < whole.size(); ++n)
    EXPECT_EQ(parse(minimax, whole.substr(0, n), 1).text, "") << whole.substr(0, n);
}

// Tags say which values are strings.
TEST(CallParser, DeepSeekTags) {
  const CallForm& f = form("｜DSML｜ function_calls>");
  const auto parameter = [](const std::string& key, bool is_string, const std::string& value) {
    return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + (is_string ? "true" : "false") + "\">" + value +
           "</｜DSML｜parameter>\n";
  };
  const auto unit = [](const std::string& calls) {
    return "<｜DSML｜function_calls>\n" + calls + "</｜DSML｜function_calls>";
  };
  const auto invoke = [](const std::string& name, const std::string& inside) {
    return "<｜DSML｜invoke name=\"" + name + "\">\n" + inside + "</｜DSML｜invoke>\n";
  };
  const std::string weather = invoke("weather", parameter("city", true, "12") + parameter("days", false, "3") +
                                                    parameter("other", true, "[1]") + parameter("more", false, "[1]"));
  EXPECT_EQ(shown(f, "I look.\n\n" + unit(weather + invoke("now", "\n"))),
            R"(I look.|weather({"city": "12", "days": 3, "other": "[1]", "more": [1]})|now({}))");
  EXPECT_EQ(shown(f, unit(invoke("other", ""))), unit(invoke("other", "")));
  const CallForm& v4 = form("｜DSML｜ tool_calls>");
  EXPECT_EQ(
      shown(v4, "<｜DSML｜tool_calls>\n" + invoke("weather", parameter("city", true, "x")) + "</｜DSML｜tool_calls>"),
      R"(|weather({"city": "x"}))");
}

TEST(CallParser, Cohere) {
  const CallForm& f = form(R"(<|START_ACTION|> "tool_name": )");
  EXPECT_EQ(shown(f,
                  "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": "
                  "{\"city\": \"Ulm\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n"
                  "]<|END_ACTION|>"),
            R"(|weather({"city": "Ulm"})|now({}))");
  EXPECT_EQ(shown(f, R"(<|START_ACTION|>{"tool_name":"now","parameters":{"a":1}}<|END_ACTION|>)"), R"(|now({"a":1}))");
  for (const char* text : {R"(<|START_ACTION|>[{"name": "now", "parameters": {}}])", "<|START_ACT"})
    EXPECT_EQ(shown(f, text), text);
  // Command R: a code block.
  const CallForm& old = form(R"(Action: "tool_name": )");
  const std::string calls =
      "[\n    {\n        \"tool_name\": \"weather\",\n        \"parameters\": {\n            \"city\": \"Ulm\"\n       "
      " }\n"
      "    },\n    {\n        \"tool_name\": \"now\",\n        \"parameters\": {}\n    }\n]";
  for (const char* head : {"Action:```json\n", "Action: ```json\n", "Action:\n```json\n"})
    EXPECT_EQ(shown(old, "I look.\n" + std::string(head) + calls + "```"),
              "I look.|weather({\n            \"city\": \"Ulm\"\n        })|now({})");
  for (const char* text : {"Action: none", "Action: ```json\nx", "Action: ```js",
                           "Action: ```json\n[{\"tool_name\": \"directly-answer\"}]```"})
    EXPECT_EQ(shown(old, text), text);
}

TEST(CallParser, Apertus) {
  const CallForm& f = form("<|tools_prefix|> <|tools_suffix|>");
  EXPECT_EQ(shown(f, R"(I look.<|tools_prefix|>[{"weather": {"city": "a}"}}, {"now": {}}]<|tools_suffix|>)"),
            R"(I look.|weather({"city": "a}"})|now({}))");
  EXPECT_EQ(shown(f, R"(<|tools_prefix|>[{"now": {}, "weather": {}}]<|tools_suffix|>)"),
            R"("weather": {}}]<|tools_suffix|>|now({}))");
  for (const char* text : {R"(<|tools_prefix|>[{"other": {}}]<|tools_suffix|>)", R"(<|tools_prefix|>[])"})
    EXPECT_EQ(shown(f, text), text);
}

TEST(CallParser, ListsInLines) {
  const CallForm& jamba = form("<tool_calls> </tool_calls>");
  const std::string wanted = R"(|weather({"city": "x"})|now({}))";
  EXPECT_EQ(shown(jamba,
                  "Sure.\n<tool_calls>[\n    {\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}},\n"
                  "    {\"name\": \"now\", \"arguments\": {}}\n]</tool_calls>"),
            "Sure." + wanted);
  // Apriel gives ids.
  EXPECT_EQ(shown(jamba, R"(<tool_calls>[{"name": "now", "arguments": {}, "id": "c1"}]</tool_calls>)"), "|now({})");
  const CallForm& m1 = form(R"(<tool_calls>\n{"name": )");
  const std::string lines =
      "<tool_calls>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n{\"name\": \"now\", \"arguments\": "
      "{}}\n"
      "</tool_calls>";
  EXPECT_EQ(shown(m1, lines + "\nThen"), "\nThen" + wanted);
  for (size_t n = lines.find("\n{\"name\": \"now"); n < lines.size(); ++n)  // cut off: no part of a call is text
    EXPECT_EQ(parse(m1, lines.substr(0, n), 1).text, "") << lines.substr(0, n);
}

TEST(CallParser, GigaChat) {
  const CallForm& f = form("<|role_sep|> <|function_call|>");
  EXPECT_EQ(shown(f, R"(I look.<|function_call|>{"name": "weather", "arguments": {"city": "x"}})"),
            R"(I look.|weather({"city": "x"}))");
  // A message of its own, and what ends messages is no text.
  const CallForm& old = form("<|role_sep|> 'function call'");
  EXPECT_EQ(shown(old,
                  "I look.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"now\", \"arguments\": {}}"
                  "<|message_sep|>\n\n"),
            "I look.|now({})");
  EXPECT_EQ(shown(old, "Hello<|message_sep|>\n\n"), "Hello");
  EXPECT_FALSE(old.parallel());
}

TEST(CallParser, Functionary) {
  const CallForm& f = form("<function=example_function_name>{");
  EXPECT_EQ(shown(f, R"(I look.<function=weather>{"city": ">x"}</function><function=now>{}</function>)"),
            R"(I look.|weather({"city": ">x"})|now({}))");
  EXPECT_EQ(shown(f, "<function=other>{}</function>"), "<function=other>{}</function>");
  // Every text says who it is for; the prompt has begun it.
  const CallForm& headed = form(">>>${recipient}");
  EXPECT_TRUE(headed.addressed());
  EXPECT_EQ(shown(headed, "all\nHello\nyou >>> me"), "Hello\nyou >>> me");
  EXPECT_EQ(shown(headed, "weather\n{\"city\": \"x\"}>>>now\n{}"), R"(|weather({"city": "x"})|now({}))");
  EXPECT_EQ(shown(headed, "all\nI look.\n>>>now\n{}"), "I look.|now({})");
  EXPECT_EQ(shown(headed, "all\nOne>>>all\nTwo"), "OneTwo");
  for (const std::string& text : {std::string("Hello"), std::string("other\n{}"), std::string(600, 'a')})
    EXPECT_EQ(shown(headed, text), text);
}

// Templates of Seed-OSS write earlier values as Python does, so models may, too.
TEST(CallParser, ValuesOfPythonInTags) {
  const CallForm& f = form("<seed:tool_call> <parameter=");
  const auto tools = std::make_shared<std::vector<Tool>>(std::vector<Tool>{
      make_tool("f", "",
                {{"properties",
                  {{"a", {{"type", "boolean"}}}, {"b", {{"type", {"null", "integer"}}}}, {"c", {{"type", "string"}}}}}},
                false)});
  CallParser p(f, tools, "salt");
  Piece piece = p.push(
      "<seed:tool_call>\n<function=f>\n<parameter=a>True</parameter>\n<parameter=b>None</parameter>\n"
      "<parameter=c>False</parameter>\n</function>\n</seed:tool_call>");
  std::string arguments;
  for (const auto& [index, part] : piece.calls) arguments += part.arguments;
  EXPECT_EQ(arguments, R"({"a": true, "b": null, "c": "False"})");
}

TEST(CallParser, Kimi) {
  const CallForm& f = form("<|tool_calls_section_begin|> <|tool_call_argument_begin|>");
  const auto call = [](const std::string& id, const std::string& arguments) {
    return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + arguments + "<|tool_call_end|>";
  };
  const auto section = [](const std::string& calls) {
    return "<|tool_calls_section_begin|>" + calls + "<|tool_calls_section_end|>";
  };
  const std::string first = call("functions.weather:0", R"({"city": "<|tool_call_end|>"})");
  EXPECT_EQ(shown(f, "I look." + section(first)), R"(I look.|weather({"city": "<|tool_call_end|>"}))");
  EXPECT_EQ(shown(f, section(first + "\n" + call("functions.now:1", "{}")) + "\nThen"),
            "\nThen|weather({\"city\": \"<|tool_call_end|>\"})|now({})");
  // The id is the model's, unless it is not one of its own.
  const Parsed two = parse(f, section(call("functions.now:3", "{}") + call("functions.now:3", "{}")), 1);
  EXPECT_EQ(two.calls[0].id, "functions.now:3");
  EXPECT_EQ(two.calls[1].id, "functions.now:4");
  EXPECT_EQ(parse(f, section(call("now", "{}")), 1).calls[0].id, "functions.now:0");
  for (const std::string& text : {section(call("functions.other:0", "{}")), section(""),
                                  std::string("<|tool_calls_section_begin|><|tool_call_begin|>functions.no")})
    EXPECT_EQ(shown(f, text), text);
  // Cut off: no part of a mark is text.
  const std::string whole = section(first + call("functions.now:1", "{}"));
  for (size_t n = whole.find("</"); n < whole.size(); ++n)
    EXPECT_EQ(parse(f, whole.substr(0, n), 1).text, "") << whole.substr(0, n);
}

TEST(CallParser, DeepSeek) {
  const CallForm& v3 = form("<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json");
  const std::string call =
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"```\"}\n```"
      "<｜tool▁call▁end｜>";
  EXPECT_EQ(shown(v3, "Yes.\n<｜tool▁calls▁begin｜>" + call + "\n" + call + "<｜tool▁calls▁end｜>"),
            R"(Yes.|weather({"city": "```"})|weather({"city": "```"}))");
  const CallForm& v31 = form("<｜tool▁calls▁begin｜> <｜tool▁sep｜>");
  EXPECT_EQ(shown(v31,
                  "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"x\"}<｜tool▁call▁end｜>"
                  "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            R"(|weather({"city": "x"})|now({}))");
  for (const std::string& text : {"<｜tool▁calls▁begin｜>" + call, std::string("a <｜tool▁calls")})
    EXPECT_EQ(shown(v31, text), text);
}

TEST(CallParser, Python) {
  const CallForm& f = form("<|tool_call_start|>");
  const auto calls = [](const std::string& list) { return "<|tool_call_start|>[" + list + "]<|tool_call_end|>"; };
  EXPECT_EQ(shown(f, calls(R"x(weather(city="Ulm, \"a\" (b)", days=3), now())x") + "Checking."),
            R"x(Checking.|weather({"city": "Ulm, \"a\" (b)", "days": 3})|now({}))x");
  EXPECT_EQ(
      shown(f, calls(R"(now(a=True, b=None,c=[1, -2.5, 'x\n\u00e9\ud83d\ude00'], d={'k': (False, [])}, e=word,))")),
      R"(|now({"a": true, "b": null, "c": [1,-2.5,"x\né😀"], "d": {"k":[false,[]]}, "e": "word"}))");
  // A template of LFM2 writes strings without escapes.
  EXPECT_EQ(shown(f, calls("weather(city='it's here')")), R"(|weather({"city": "it's here"}))");
  EXPECT_EQ(shown(f, calls(R"({"name": "now", "arguments": {"a": 1}}, {"name": "now"})")), R"(|now({"a": 1})|now({}))");
  for (const std::string& text : {calls("other()"), calls("print"), std::string("<|tool_call_start|>[weath"),
                                  std::string("<|tool_call_start|>hello")})
    EXPECT_EQ(shown(f, text), text);
  EXPECT_EQ(shown(f, calls("now(a=[1)")), "|now()");
  EXPECT_EQ(shown(f, calls("now(3)")), ")]<|tool_call_end|>|now()");
  EXPECT_EQ(shown(f, "<|tool_call_start|>[weather(city='x', da"), R"x(|weather({"city": "x"))x");
}

TEST(CallParser, Gemma) {
  const CallForm& f = form("<|tool_call> call:");
  EXPECT_EQ(f.kind, CallForm::bare);
  const auto call = [](const std::string& inside) { return "<|tool_call>call:" + inside + "<tool_call|>"; };
  EXPECT_EQ(shown(f, call(R"(weather{city:<|"|>a}, "b":c<|"|>,days:3})") + call("now{}")),
            R"(|weather({"city": "a}, \"b\":c", "days": 3})|now({}))");
  EXPECT_EQ(shown(f, "Yes. " + call(R"(now{a:{k:[true,null,<|"|><|"|>],n:-1.5},b:bare word})")),
            R"(Yes.|now({"a": {"k":[true,null,""],"n":-1.5}, "b": "bare word"}))");
  for (const std::string& text : {call("other{}"), call("weather"), std::string("<|tool_call>weather{}<tool_call|>"),
                                  std::string("<|tool_call>call:wea")})
    EXPECT_EQ(shown(f, text), text);
}

TEST(CallParser, Harmony) {
  const CallForm& f = form("<|channel|> <|message|>");
  const std::string thought = "<|channel|>analysis<|message|>Let me see.<|end|>";
  EXPECT_EQ(shown(f, thought + "<|start|>assistant<|channel|>final<|message|>Hi <|there|>"),
            "(Let me see.)Hi <|there|>");
  // The recipient stands after the channel, or in front of it.
  for (const char* head :
       {"<|channel|>commentary to=functions.weather <|constrain|>json",
        " to=functions.weather<|channel|>commentary json", "<|channel|>commentary to=functions.weather",
        "<|channel|>analysis to=functions.weather code"}) {
    const std::string call = std::string(head) + R"(<|message|>{"city": "<|end|>"})";
    EXPECT_EQ(shown(f, call), R"(|weather({"city": "<|end|>"}))") << head;
    EXPECT_EQ(shown(f, thought + "<|start|>assistant" + call + "<|call|>"),
              R"((Let me see.)|weather({"city": "<|end|>"}))");
  }
  // A preamble is for the reader.
  EXPECT_EQ(shown(f, thought + "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
                               "<|channel|>commentary to=functions.now<|constrain|>json<|message|>{}"),
            "(Let me see.)I look.|now({})");
  EXPECT_EQ(shown(f, thought + "<|start|>assistant" + thought +
                         "\n<|start|>assistant<|channel|>final<|message|>a<|end|>"
                         "<|start|>assistant<|channel|>final<|message|>b"),
            "(Let me see.\n\nLet me see.)a\n\nb");
  EXPECT_EQ(shown(f, "<|channel|>analysis<|message|>a<|channel|>final<|message|>b"), "(a)b");  // no end
  EXPECT_EQ(shown(f, "<|channel|>commentary to=functions.other<|message|>{}<|end|>"),
            "<|channel|>commentary to=functions.other<|message|>{}");
  for (const char* text : {"", "plain", "  plain <|text", "to go", "<|start|>user", "<|channel|>a<|channel|>b"})
    EXPECT_EQ(shown(f, text), std::string(text).starts_with("<|channel|>") ? "" : text);
  const std::string long_header = "<|channel|>" + std::string(400, 'a');
  EXPECT_EQ(shown(f, long_header), long_header);
  EXPECT_EQ(shown(f, "<|channel|>commentary to=functions.now<|message|>no<|end|>"), "no|now()");
  // Cut off anywhere, no mark is text.
  const std::string whole =
      thought + "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{";
  for (const char* mark : {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"})
    for (size_t n = 0; n < whole.size(); ++n) {
      const Parsed r = parse(f, whole.substr(0, n), 1);
      EXPECT_EQ((r.text + r.thought).find(mark), std::string::npos) << whole.substr(0, n);
    }
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
  EXPECT_GE(count, 26);
}

}  // namespace
}  // namespace toy::dialog::call_parser_test
