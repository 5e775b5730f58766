// The forms in which models write calls: how they are recognized, and their grammars.
#include "dialog/call_forms.h"

#include <gtest/gtest.h>

#include <map>

#include "dialog/call_parser.h"
#include "dialog/forms.h"
#include "text/bpe/byte_level.h"
#include "text/text_testing.h"
#include "text/vocabulary.h"
#include "toy/base/json_text.h"

namespace toy::dialog::call_forms_test {
namespace {

using nlohmann::ordered_json;

TEST(CallForms, TemplatesWithoutToolsHaveNone) {
  EXPECT_EQ(call_form_of("{{ messages }} <tool_call>"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }}"), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <tool_call> <invoke name="), nullptr);
  EXPECT_EQ(call_form_of("{{ tools }} <invoke name="), nullptr);
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

// A form: the marks of its template, and calls of weather with x and 2 as the family's models write them.
struct Row {
  const char* marks;
  std::string front, call, between, back;  // of a unit with several calls, or of several units
};

const std::string kArguments = R"({"city": "x", "days": 2})",
                  kObject = R"({"name": "weather", "arguments": )" + kArguments + "}",
                  kCohere = R"("tool_name": "weather", "parameters": )" + kArguments + "}",
                  kDsml =
                      "<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">x\n</param"
                      "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
                      "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>";

const Row kRows[] = {
    {"<tool_call> <parameter=", "",
     "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</param\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "</function>\n</tool_call>",
     "\n", ""},
    {"<tool_call> </arg_key>\n<arg_value>", "",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>x\n</arg</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>",
     "\n", ""},
    {"<tool_call> </arg_key><arg_value>", "",
     "<tool_call>weather<arg_key>city</arg_key><arg_value>x\n</arg</arg_value><arg_key>days</arg_key><arg_value>2"
     "</arg_value></tool_call>",
     "", ""},
    {"<seed:tool_call> <parameter=", "",
     "<seed:tool_call>\n<function=weather>\n<parameter=city>x\n</param</parameter>\n<parameter=days>2</parameter>\n"
     "</function>\n</seed:tool_call>",
     "\n", ""},
    {"<minimax:tool_call> <invoke name=", "<minimax:tool_call>\n",
     "<invoke name=\"weather\">\n<parameter name=\"city\">x\n</param</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>",
     "\n", "\n</minimax:tool_call>"},
    {"｜DSML｜ function_calls>", "<｜DSML｜function_calls>\n", kDsml, "\n", "\n</｜DSML｜function_calls>"},
    {"｜DSML｜ tool_calls>", "<｜DSML｜tool_calls>\n", kDsml, "\n", "\n</｜DSML｜tool_calls>"},
    {"<tool_calls> </tool_calls>", "<tool_calls>[\n    ", kObject, ",\n    ", "\n]</tool_calls>"},
    {R"(<tool_calls>\n{"name": )", "<tool_calls>\n", kObject, "\n", "\n</tool_calls>"},
    {R"(<|START_ACTION|> "tool_name": )", "<|START_ACTION|>[\n    ", R"({"tool_call_id": "0", )" + kCohere, ",\n    ",
     "\n]<|END_ACTION|>"},
    {R"(Action: "tool_name": )", "Action:\n```json\n[\n    ", "{" + kCohere, ",\n    ", "\n]```"},
    {"<|tools_prefix|> <|tools_suffix|>", "<|tools_prefix|>[", R"({"weather": )" + kArguments + "}", ", ",
     "]<|tools_suffix|>"},
    {"<|role_sep|> <|function_call|>", "", "<|function_call|>" + kObject, "", ""},
    {"<|role_sep|> 'function call'", "", "<|message_sep|>\n\nfunction call<|role_sep|>\n" + kObject, "", ""},
    {">>>${recipient}", "", "weather\n" + kArguments, ">>>", ""},
    {"<function=example_function_name>{", "", "<function=weather>" + kArguments + "</function>", "", ""},
    {"<tool_call>", "", "<tool_call>\n" + kObject + "\n</tool_call>", "\n", ""},
    {"[TOOL_CALLS] [ARGS]", "", "[TOOL_CALLS]weather[ARGS]" + kArguments, "", ""},
    {"[TOOL_CALLS]", "[TOOL_CALLS][", kObject, ", ", "]"},
    {"<|tool_call|>", "<|tool_call|>[", kObject, ", ", "]<|/tool_call|>"},
    {"<TOOLCALL>", "<TOOLCALL>[", kObject, ", ", "]</TOOLCALL>"},
    {R"(<|python_tag|> {"name": function name, "parameters": )", "",
     R"({"name": "weather", "parameters": )" + kArguments + "}", "", ""},
    {"<|tool_calls_section_begin|> <|tool_call_argument_begin|>", "<|tool_calls_section_begin|>",
     "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" + kArguments + "<|tool_call_end|>", "",
     "<|tool_calls_section_end|>"},
    {"<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json", "<｜tool▁calls▁begin｜>",
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" + kArguments + "\n```<｜tool▁call▁end｜>", "\n",
     "<｜tool▁calls▁end｜>"},
    {"<｜tool▁calls▁begin｜> <｜tool▁sep｜>", "<｜tool▁calls▁begin｜>",
     "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + kArguments + "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"},
    {"<|tool_call_start|>", "<|tool_call_start|>[", R"(weather(city="x", days=2))", ", ", "]<|tool_call_end|>"},
    {"<|tool_call> call:", "", R"(<|tool_call>call:weather{city:<|"|>x<|"|>,days:2}<tool_call|>)", "", ""},
    {"<|channel|> <|message|>", "",
     "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + kArguments, "", ""}};

// The grammar of each form has the calls that the parser reads, and no others.
TEST(CallForms, GrammarsOfCalls) {
  for (const auto& [mark, front, one, between, back] : kRows) {
    const CallForm& f = form(mark);
    std::vector<SchemaRule> rules;
    const std::string text = f.gbnf(*tools(), true, rules);
    const Grammar g = parse_gbnf("root ::= calls\n" + text, "calls", rules);
    const std::string call = front + one + back;
    EXPECT_TRUE(g.matches(call)) << mark << "\n" << call << "\n" << text;
    EXPECT_EQ(parse(f, call, 1).calls.size(), 1u) << call;
    EXPECT_EQ(parse_json<ordered_json>(parse(f, call, 1).calls[0].arguments)["days"], 2) << call;
    EXPECT_EQ(parse(f, call, 1).text, "") << call;
    const Grammar unit = parse_gbnf("root ::= unit\n" + text, "unit", rules);  // what a trigger begins
    for (const Trigger& t : f.triggers(*tools())) EXPECT_TRUE(unit.begins(t.text)) << t.text;
    for (const auto& [from, to] :
         std::map<std::string, std::string>{{"weather", "other"}, {"days", "dayz"}, {"2", "\"2\""}}) {
      std::string wrong = call;
      wrong.replace(wrong.find(from), from.size(), to);
      EXPECT_FALSE(g.matches(wrong)) << wrong;
    }
    EXPECT_TRUE(f.unit.close.empty() || !g.matches(call.substr(0, call.size() - f.unit.close.size()))) << call;
    const std::string two = front + one + between + one + back;
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
}  // namespace toy::dialog::call_forms_test
