// Calls in what a model writes: the same from any pieces, and text where there is none.
#include "serve/call_parser.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <map>
#include <set>

#include "fuzz/tool_calls_fuzz.h"
#include "testing/files.h"
#include "text/byte_level.h"
#include "text/text_testing.h"
#include "text/vocabulary.h"

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
  std::string text, thought;
  std::vector<ToolCall> calls;
};

// All of the text, in pieces of this many bytes.
Parsed parse(const CallForm& f, const std::string& all, size_t step) {
  CallParser p(f, tools(), "salt");
  Parsed r;
  const auto add = [&](const Piece& piece) {
    r.text += piece.text, r.thought += piece.thought;
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

TEST(CallForms, TemplatesWithoutToolsHaveNone) {
  EXPECT_EQ(call_form_of("{{ messages }} <tool_call>"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }}"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <tool_call> <arg_key>"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <seed:tool_call> <parameter="), nullptr);
}

// Bytes, and these control tokens.
std::shared_ptr<const Tokenizer> with_control_tokens(const std::vector<std::string>& marks) {
  const testing::TemporaryGguf file([&](gguf::Writer& writer) {
    std::vector<std::string> names;
    std::vector<int32_t> types(256, int32_t(TokenType::normal));
    for (int byte = 0; byte < 256; ++byte) names.push_back(byte_level_name(uint8_t(byte)));
    for (const std::string& mark : marks) names.push_back(mark), types.push_back(int32_t(TokenType::control));
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
    writer.set("tokenizer.ggml.pre", gguf::Value(std::string("gpt-2")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(names)));
    writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(types)));
    writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(std::vector<std::string>())));
  });
  return load_tokenizer(file.open());
}

// Templates of LFM2 that show no call.
TEST(CallForms, TheVocabularyShowsTheMark) {
  const auto tokenizer = with_control_tokens({"<|tool_call_start|>", "<|tool_call_end|>"});
  const auto bytes = with_control_tokens({});
  for (const char* text : {"{{ tools }} List of tools: [", "{{ tools }} List of tools: <|tool_list_start|>["}) {
    EXPECT_EQ(call_form_of(text), nullptr);
    EXPECT_EQ(call_form_of(text, bytes.get()), nullptr);
    ASSERT_NE(call_form_of(text, tokenizer.get()), nullptr);
    EXPECT_EQ(call_form_of(text, tokenizer.get())->kind, CallForm::python);
  }
  EXPECT_EQ(call_form_of("{{ tools }}", tokenizer.get()), nullptr);
}

// Two calls, of weather with x and 2, in one unit.
std::string quoted_calls(const CallForm& f, int count) {
  const std::string arguments = R"({"city": "x", "days": 2})";
  const std::string call = R"({"name": "weather", ")" + std::string(f.arguments) + R"(": )" + arguments + "}";
  std::string all;
  const auto list = [&](const std::string& one, const std::string& between) {
    for (int i = 0; i < count; ++i) all += (i > 0 ? between : "") + one;
    return all;
  };
  const std::string open(f.open), close(f.close), between(f.between);
  switch (f.kind) {
    case CallForm::parameters:
      return list(
          "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</param\n</parameter>\n<parameter=days>\n2\n</"
          "parameter>\n</function>\n</tool_call>",
          between);
    case CallForm::named:
      if (!f.list) return list("[TOOL_CALLS]weather[ARGS]" + arguments, between);
      return open +
             list(std::string(f.begin) + (f.numbered ? "functions.weather:0" : "weather") +
                      std::string(f.before_arguments) + arguments + std::string(f.end),
                  between) +
             close;
    case CallForm::python:
      return open + "[" + list(R"(weather(city="x", days=2))", ", ") + "]" + close;
    case CallForm::bare:
      return list(open + R"(call:weather{city:<|"|>x<|"|>,days:2})" + close, "");
    case CallForm::channels:
      return list("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + arguments, "");
    case CallForm::json:
      if (f.at_start) return list(call, "");
      return f.list ? open + "[" + list(call, ", ") + "]" + close : list(open + "\n" + call + "\n" + close, between);
  }
  return "";
}

constexpr const char* kMarks[] = {"<tool_call> <parameter=",
                                  "<tool_call>",
                                  "[TOOL_CALLS] [ARGS]",
                                  "[TOOL_CALLS]",
                                  "<|tool_call|>",
                                  "<TOOLCALL>",
                                  R"(<|python_tag|> {"name": function name, "parameters": )",
                                  "<|tool_calls_section_begin|> <|tool_call_argument_begin|>",
                                  "<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json",
                                  "<｜tool▁calls▁begin｜> <｜tool▁sep｜>",
                                  "<|tool_call_start|>",
                                  "<|tool_call> call:",
                                  "<|channel|> <|message|>"};

// The grammar of each form has the calls that the parser reads, and no others.
TEST(CallForms, GrammarsOfCalls) {
  for (const char* mark : kMarks) {
    const CallForm& f = form(mark);
    std::vector<SchemaRule> rules;
    const std::string text = f.gbnf(*tools(), true, rules);
    const Grammar g = parse_gbnf("root ::= calls\n" + text, "calls", rules);
    const std::string call = quoted_calls(f, 1);
    EXPECT_TRUE(g.matches(call)) << mark << "\n" << call << "\n" << text;
    EXPECT_EQ(parse(f, call, 1).calls.size(), 1u) << call;
    EXPECT_EQ(parse(f, call, 1).text, "") << call;
    for (const Trigger& t : f.triggers()) EXPECT_TRUE(g.begins(t.text)) << t.text;
    for (const auto& [from, to] :
         std::map<std::string, std::string>{{"weather", "other"}, {"days", "dayz"}, {"2", "\"2\""}}) {
      std::string wrong = call;
      wrong.replace(wrong.find(from), from.size(), to);
      EXPECT_FALSE(g.matches(wrong)) << wrong;
    }
    EXPECT_TRUE(f.close.empty() || !g.matches(call.substr(0, call.size() - f.close.size()))) << call;
    const std::string two = quoted_calls(f, 2);
    EXPECT_EQ(g.matches(two), f.parallel() && !f.at_start) << two;
    if (g.matches(two)) {
      EXPECT_EQ(parse(f, two, 1).calls.size(), 2u) << two;
      EXPECT_EQ(parse(f, two, 1).text, "") << two;
    }
    std::vector<SchemaRule> again;
    EXPECT_FALSE(parse_gbnf("root ::= calls\n" + f.gbnf(*tools(), false, again), "calls", again).matches(two)) << two;
  }
}

// Literals of Python and Gemma's have the values of a schema.
TEST(CallForms, GrammarsOfLiterals) {
  const ordered_json parameters{
      {"type", "object"},
      {"properties",
       {{"Zip", {{"type", "string"}}},
        {"all", {{"type", {"boolean", "null"}}}},
        {"list", {{"type", "array"}, {"items", {{"$ref", "#/$defs/unit"}}}, {"minItems", 1}, {"maxItems", 2}}},
        {"at", {{"type", "object"}, {"properties", {{"x", {{"type", "number"}}}}}, {"required", {"x"}}}},
        {"n", {{"anyOf", {{{"type", "integer"}, {"minimum", 1}}, {{"const", "no"}}}}}},
        {"any", ordered_json::object()}}},
      {"$defs", {{"unit", {{"enum", {"C", 7}}}}}}};
  const std::vector<Tool> one{make_tool("f", "", parameters, false)};
  const auto grammar = [&](const CallForm& f) {
    std::vector<SchemaRule> rules;
    const std::string text = f.gbnf(one, true, rules);
    return parse_gbnf("root ::= calls\n" + text, "calls", rules);
  };
  const Grammar python = grammar(form("<|tool_call_start|>")), bare = grammar(form("<|tool_call> call:"));
  const auto in_python = [&](const std::string& s) {
    return python.matches("<|tool_call_start|>[f(" + s + ")]<|tool_call_end|>");
  };
  const auto in_bare = [&](const std::string& s) { return bare.matches("<|tool_call>call:f{" + s + "}<tool_call|>"); };
  for (const char* s : {"", R"(Zip="a\"b", all=True)", "all=None,list=[7]", R"(list=["C", 7], at={"x": 1.5}, n=3)",
                        R"(n="no")", R"(any=[{"a": null}])"})
    EXPECT_TRUE(in_python(s)) << s;
  for (const char* s :
       {"Zip=3", "all=true", "list=[]", "list=[7,7,7]", "at={}", "n=0", "n=\"yes\"", "all=True,Zip=\"\"", "x=1", ","})
    EXPECT_FALSE(in_python(s)) << s;
  // In the order of Gemma's template: without regard to case.
  for (const char* s : {"", R"(all:null,any:[{a:null}],at:{x:1.5})", R"(list:[<|"|>C<|"|>,7],n:3,Zip:<|"|>a"}<|<|"|>)",
                        R"(n:<|"|>no<|"|>)", "any:-1.5e3"})
    EXPECT_TRUE(in_bare(s)) << s;
  for (const char* s :
       {"all:True", "list:[]", "list:[7,7,7]", "at:{}", "n:0", "Zip:a", R"(Zip:<|"|><|"|>,all:true)", "x:1", ","})
    EXPECT_FALSE(in_bare(s)) << s;
  // Names that would end in the middle are refused.
  const std::vector<Tool> odd{make_tool("f", "", {{"properties", {{"a=b", ordered_json::object()}}}}, false)};
  for (const char* mark : {"<|tool_call_start|>", "<|tool_call> call:"}) {
    std::vector<SchemaRule> rules;
    try {
      form(mark).gbnf(odd, true, rules);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("'a=b'"), std::string::npos) << e.what();
    }
  }
  // A schema that refers to itself.
  const ordered_json tree{{"properties", {{"t", {{"$ref", "#"}}}}}};
  const std::vector<Tool> deep{make_tool("f", "", tree, false)};
  std::vector<SchemaRule> rules;
  const std::string text = form("<|tool_call> call:").gbnf(deep, true, rules);
  EXPECT_TRUE(
      parse_gbnf("root ::= calls\n" + text, "calls", rules).matches("<|tool_call>call:f{t:{t:{}}}<tool_call|>"));
}

// What is no string follows its schema, also where the schema says so elsewhere.
TEST(CallForms, GrammarsOfParameters) {
  const ordered_json parameters{{"properties",
                                 {{"unit", {{"$ref", "#/$defs/unit"}}},
                                  {"n", {{"anyOf", {{{"type", "integer"}, {"minimum", 1}}, {{"type", "null"}}}}}},
                                  {"two", {{"const", 2}}},
                                  {"none", false},
                                  {"word", {{"anyOf", {{{"type", "string"}}, {{"type", "null"}}}}}}}},
                                {"$defs", {{"unit", {{"enum", {"C", 7}}}}}}};
  const CallForm& f = form("<tool_call> <parameter=");
  const auto matches = [&](const ordered_json& schema, const std::string& name, const std::string& value) {
    std::vector<SchemaRule> rules;
    const std::string text = f.gbnf(std::vector<Tool>{make_tool("f", "", schema, false)}, true, rules);
    const std::string inside = name.empty() ? "" : "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
    return parse_gbnf("root ::= calls\n" + text, "calls", rules)
        .matches("<tool_call>\n<function=f>\n" + inside + "</function>\n</tool_call>");
  };
  EXPECT_TRUE(matches(parameters, "", ""));
  for (const auto& [name, value] :
       {std::pair{"unit", "C"}, {"unit", "7"}, {"n", "3"}, {"n", "null"}, {"two", "2"}, {"word", "123"}})
    EXPECT_TRUE(matches(parameters, name, value)) << name << value;
  for (const auto& [name, value] : {std::pair{"unit", "K"}, {"n", "0"}, {"n", "a"}, {"two", "3"}, {"none", "1"}})
    EXPECT_FALSE(matches(parameters, name, value)) << name << value;
  EXPECT_TRUE(matches({{"type", "object"}}, "any", "1"));
  EXPECT_FALSE(matches({{"type", "object"}, {"additionalProperties", false}}, "any", "1"));
  EXPECT_THROW(matches({{"properties", {{"a>b", {{"type", "string"}}}}}}, "", ""), Error);
  EXPECT_EQ(all_types_of(parameters, parameters["properties"]["word"]), (std::vector<std::string>{"string", "null"}));
  EXPECT_EQ(all_types_of(parameters, parameters["properties"]["unit"]),
            (std::vector<std::string>{"string", "integer"}));
}

// Thoughts and headers stand around answers and calls.
TEST(CallForms, GrammarsOfChannels) {
  const CallForm& f = form("<|channel|> <|message|>");
  std::vector<SchemaRule> rules;
  const std::string text = f.gbnf(*tools(), true, rules);
  const Grammar calls = parse_gbnf("root ::= calls\n" + text, "calls", rules);
  const std::string call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}",
                    thought = "<|channel|>analysis<|message|>a <|x <|end|>";
  EXPECT_TRUE(calls.matches(call));
  EXPECT_TRUE(calls.matches(" to=functions.now<|channel|>commentary json<|message|>{}"));
  EXPECT_TRUE(calls.matches(thought + "<|start|>assistant" + call));
  EXPECT_FALSE(calls.matches(thought));
  const Grammar answer = parse_gbnf("root ::= " + f.answer("\"7\"") + "\n" + f.common_rules());
  EXPECT_TRUE(answer.matches("<|channel|>final <|constrain|>json<|message|>7"));
  EXPECT_TRUE(answer.matches(thought + "<|start|>assistant<|channel|>final<|message|>7"));
  EXPECT_FALSE(answer.matches("7"));
  EXPECT_EQ(form("<tool_call>").answer("x"), "x");
}

}  // namespace
}  // namespace toy::serve
