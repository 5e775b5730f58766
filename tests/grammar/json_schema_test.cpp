// JSON Schema: which texts a schema has, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_test {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

void expect(const std::string& schema, const Texts& in, const Texts& out) {
  const Grammar g = json_schema_grammar(Json::parse(schema));
  for (const std::string& t : in) EXPECT_TRUE(g.matches(t)) << schema << "\n" << t;
  for (const std::string& t : out) EXPECT_FALSE(g.matches(t)) << schema << "\n" << t;
}

std::string error_of(const std::string& schema) {
  try {
    json_schema_grammar(Json::parse(schema));
    return "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    return e.what();
  }
}

void refuses(const std::string& schema, const Texts& words) {
  const std::string e = error_of(schema);
  for (const std::string& w : words) EXPECT_NE(e.find(w), std::string::npos) << schema << "\n" << e;
}

TEST(JsonSchema, Types) {
  expect(R"({"type": "string"})", {R"("")", R"("a\n\u00e9\ud83d\ude00é")"},
         {R"("a)", "a", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "1"});
  expect(R"({"type": "integer"})",
         {"0", "-1", "120", "999999999999999", "1152921504606846976", "9223372036854775807", "-9223372036854775808",
          "18446744073709551615"},
         {"", "01", "-0", "1.0", "1e3", "+1", "18446744073709551616", "-9223372036854775809"});
  expect(R"({"type": "number"})", {"0", "-0", "1.5", "-2.25e-3", "1E10"}, {"1.", ".5", "01", "1e", "1e999", "NaN"});
  expect(R"({"type": "boolean"})", {"true", "false"}, {"True", "null"});
  expect(R"({"type": "null"})", {"null"}, {"0"});
  expect(R"({"type": ["integer", "null"]})", {"5", "null"}, {"\"5\""});
  expect("true", {"1", "[]", "{}", R"({"a": [1, {"b": null}]})", "\"x\""}, {"", "{", "[1,]", "{\"a\"}"});
  expect("{}", {"1", "[true]"}, {"tru"});
  expect(R"({"description": "anything", "title": "t", "x-mine": 3})", {"1", "[true]"}, {"tru"});
}

TEST(JsonSchema, Spaces) {
  expect(R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "null"}}}})",
         {R"({"a":[null,null]})", R"({"a": [null, null]})", R"({ "a": [ ] })", "{\n  \"a\": [\n    null\n  ]\n}"},
         {R"( {})", R"({} )", R"({"a" : []})", R"({"a":  []})"});
}

TEST(JsonSchema, ObjectsHaveTheirPropertiesInOrder) {
  const std::string s = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"},
                            "c": {"type": "boolean"}}, "required": ["b"]})";
  expect(s, {R"({"b":null})", R"({"a":1,"b":null})", R"({"b":null,"c":true})", R"({"a":1, "b":null, "c":false})"},
         {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"a":1,"b":null,})", R"({,"b":null})", R"({"b":null,"x":1})",
          R"({"a":1 "b":null})", R"({"b":null,"b":null})"});
  expect(R"({"type": "object"})", {"{}", R"({"x": [1], "y": {}})"}, {"[]"});
  expect(R"({"properties": {"a\"\n": {"const": 1}}})", {R"({"a\"\n":1})", "{}"}, {"{\"a\"\n\":1}"});
  expect(R"({"type": "object", "properties": {}, "required": ["z"]})", {R"({"z":[1]})"}, {"{}"});
  expect(R"({"type": "object", "properties": {"a": {"const": 1}}, "minProperties": 1})", {R"({"a":1})"}, {"{}"});
  expect(
      R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2, "maxProperties": 2})",
      {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"}, {"{}", R"({"c":3})", R"({"a":1,"b":2,"c":3})"});
}

TEST(JsonSchema, FurtherPropertiesHaveOtherNames) {
  const std::string s =
      R"({"type": "object", "properties": {"ab": {"const": 1}}, "additionalProperties": {"type": "integer"}})";
  expect(s, {"{}", R"({"ab":1})", R"({"a":7})", R"({"ab":1,"abc":7,"b":8})", R"({"":0})", R"({"é":0})"},
         {R"({"ab":7})", R"({"ab":1,"ab":7})", R"({"a":"x"})", R"({"x":1,"ab":1})", R"({"\u0061b":7})"});
  expect(R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2})",
         {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1,"b":2,"c":3})"});
  expect(
      R"({"type": "object", "patternProperties": {"^x-": {"type": "integer"}, "^y[0-9]$": {"type": "null"}}, "additionalProperties": false})",
      {"{}", R"({"x-a":1,"y7":null})"}, {R"({"x":1})", R"({"y7":1})", R"({"y77":null})"});
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[1, 2,3]"}, {"[1,]", "[,1]", "[\"a\"]"});
  expect(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})", {"[1,2]", "[1,2,3]"},
         {"[]", "[1]", "[1,2,3,4]"});
  expect(R"({"type": "array", "items": {"type": "integer"}, "maxItems": 0})", {"[]"}, {"[1]"});
  expect(
      R"({"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "items": {"type": "null"}, "minItems": 1})",
      {"[1]", R"([1,"x"])", R"([1,"x",null,null])"}, {"[]", "[null]", R"(["x"])", "[1,null]"});
  expect(R"({"type": "array", "prefixItems": [{"const": 1}], "items": false})", {"[]", "[1]"}, {"[1,1]"});
  expect(R"({"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}})", {"[]", "[1]", "[1,2,2]"},
         {"[2]"});
  expect(R"({"type": "array", "prefixItems": [{"const": 1}], "minItems": 3, "maxItems": 3})", {"[1,true,{}]"},
         {"[1,2]", "[1,2,3,4]"});
}

TEST(JsonSchema, EnumConstAndUnions) {
  expect(R"({"enum": ["a", 1, null, {"k": [1, 2]}, "q\"\\"]})",
         {R"("a")", "1", "null", R"({"k": [1, 2]})", R"({"k":[1,2]})", R"("q\"\\")"}, {"a", "2", R"({"k":[1]})"});
  expect(R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"});
  expect(R"({"type": "integer", "enum": [1, 2.0, 2.5]})", {"1", "2.0"}, {"2.5"});
  expect(R"({"const": {"a": true}})", {R"({"a": true})"}, {"{}", R"({"a":false})"});
  expect(R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]})", {"5", "[null]"},
         {"null"});
  expect(R"({"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"],
             "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 2}}}]})",
         {R"({"k":1,"a":1})", R"({"k":1,"b":2})", R"({"k":1})"},
         {R"({"a":1})", R"({"k":1,"a":2})", R"({"k":1,"a":1,"b":2})"});
  const std::string one = R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "integer"}}, "required": ["kind", "r"]},
      {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "integer"}}, "required": ["kind", "a"]}]})";
  expect(one, {R"({"kind":"circle","r":1})", R"({"kind":"square","a":1})"}, {R"({"kind":"circle","a":1})"});
  expect(R"({"oneOf": [{"type": "null"}, {"type": "string"}]})", {"null", "\"\""}, {"1"});
  // Exactly one of them: what is valid under several is left out.
  expect(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", {"1.5", "-0.25"}, {"1", "1.0", "\"a\""});
  expect(R"({"oneOf": [{"type": ["number", "boolean"], "maximum": 1}, {"type": ["number", "boolean"], "minimum": 2}]})",
         {"1", "2", "-5.5"}, {"1.5", "true", "null"});
  expect(R"({"oneOf": [{"type": "integer", "maximum": 9}, {"type": "integer", "minimum": 5}]})", {"4", "10"},
         {"5", "7", "9"});
  expect(R"({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "z$"}]})",
         {R"("ab")", R"("bz")"}, {R"("az")", R"("b")"});
  expect(R"({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
         {R"({"a":1})", R"({"b":1})"}, {"{}", R"({"a":1,"b":1})"});
  expect(R"({"oneOf": [true, {"type": "string"}]})", {"1", "[]"}, {R"("a")"});
  refuses(R"({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]})",
          {"no text satisfies it"});
}

TEST(JsonSchema, AllOfAndReferences) {
  expect(R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                       {"properties": {"b": {"type": "null"}, "a": {"minimum": 3}}, "required": ["b"]}]})",
         {R"({"a":3,"b":null})"}, {R"({"a":2,"b":null})", R"({"a":3})"});
  expect(R"({"allOf": [{"type": ["string", "integer"]}, {"type": ["number", "null"]}]})", {"3"},
         {"\"\"", "null", "3.5"});
  expect(
      R"({"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/n"}}, "required": ["v"]}},
             "$ref": "#/$defs/n"})",
      {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"}, {"{}", R"({"v":1,"next":{}})"});
  expect(R"({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})",
         {"{}", R"({"children":[{},{"children":[]}]})"}, {R"({"children":[1]})"});
  expect(R"({"definitions": {"a b/c": {"const": 1}}, "$ref": "#/definitions/a%20b~1c"})", {"1"}, {"2"});
  expect(R"({"$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
             "$ref": "#/$defs/base", "properties": {"name": {"const": "x"}}, "required": ["name"]})",
         {R"({"id":1,"name":"x"})"}, {R"({"id":1})"});
  refuses(R"({"$ref": "#/$defs/none"})", {"'#/$defs/none' leads to nothing"});
  refuses(R"({"$ref": "https://example.org/s.json"})", {"leads out of the schema"});
  refuses("{\"$ref\": \"a\\n\\u001b[31m\"}", {"$ref 'a??[31m' leads out of the schema"});
  refuses(R"({"$ref": "#"})", {"refer to themselves"});
  expect(R"({"$ref": "#one", "$defs": {"x": {"$anchor": "one", "type": "integer"}}})", {"1"}, {R"("a")"});
  expect(R"({"$id": "http://x.y/a/root.json", "$ref": "item.json#/$defs/n", "$defs": {"i": {"$id": "item.json",
             "$defs": {"n": {"$ref": "#/$defs/m"}, "m": {"type": "null"}}}, "m": {"type": "integer"}}})",
         {"null"}, {"1"});
  refuses(R"({"allOf": [{"$ref": "#"}]})", {"refer to themselves"});
  expect(R"({"allOf": [{"type": "array", "prefixItems": [{}]}, {"items": {"type": "integer"}}]})", {"[]", "[1,2]"},
         {R"(["a"])", R"([1,"a"])"});
  expect(R"({"allOf": [{"type": "object", "patternProperties": {"x": {}}}, {"additionalProperties": false}]})", {"{}"},
         {R"({"x":1})"});
  refuses(R"({"allOf": [{"type": "object", "required": 5}, {"required": ["a"]}]})", {"required"});
  refuses(
      R"({"$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}, "$ref": "#/$defs/a"})",
      {"no text satisfies it"});
}

TEST(JsonSchema, Strings) {
  expect(R"({"type": "string", "minLength": 2, "maxLength": 3})", {R"("ab")", R"("aéé")", R"("a\"\n")"},
         {R"("a")", R"("abcd")"});
  expect(R"({"type": "string", "minLength": 2})", {R"("ab")", R"("abcdef")"}, {R"("a")"});
  expect(R"({"type": "string", "pattern": "^[a-z]+$"})", {R"("abc")"}, {R"("")", R"("aB")"});
  expect(R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3, "minLength": 2})", {R"("ab")", R"("abc")"},
         {R"("a")", R"("abcd")"});
  expect(R"({"type": "string", "pattern": "b+|^x"})", {R"("abbc")", R"("xyz")"}, {R"("ayx")"});
  expect(R"({"type": "string", "pattern": "^(?:\\d{3}-)?[^\\s\\d]{2,}?\\.\\u00e9$"})", {R"("123-ab.é")", R"("ab.é")"},
         {R"("12-ab.é")", R"("a1.é")"});
  expect(R"({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]})", {R"("ab")", R"("ba")"}, {R"("a")"});
  expect(R"({"format": "date"})", {R"("2024-02-28")", R"("1999-12-31")"},
         {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"});
  expect(R"({"format": "date-time"})", {R"("2024-02-28T23:59:59Z")", R"("2024-02-28T00:00:00.25+01:00")"},
         {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")"});
  expect(R"({"format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  expect(R"({"format": "email"})", {R"("a.b@c.de")"}, {R"("a..b@c.de")", R"("@c.de")"});
  expect(R"({"format": "ipv4"})", {R"("0.10.200.255")"}, {R"("1.2.3")", R"("256.1.1.1")", R"("01.1.1.1")"});
  expect(R"({"format": "ipv6"})", {R"("1:2:3:4:5:6:7:8")"}, {R"("1:2")"});
  expect(R"({"format": "uri"})", {R"("https://a.b/c?d=e")"}, {R"("a b")"});
  refuses(R"x({"type": "string", "pattern": "(?=a)"})x", {"/pattern", "look-around"});
  refuses(R"({"type": "string", "pattern": "(a)\\1"})", {"/pattern", "\\1"});
  refuses(R"({"type": "string", "pattern": "a^b"})", {"no text satisfies it"});
  refuses(R"({"type": "string", "pattern": "(a"})", {"/pattern", "expected )"});
  expect(R"({"type": "string", "format": "no-such-format"})", {R"("anything")"}, {"1"});
  refuses(R"({"type": "string", "pattern": "^a$", "minLength": 2})", {"no text satisfies it"});
}

// Every bound against the numbers themselves.
TEST(JsonSchema, NumericBounds) {
  for (const auto& [lo, hi] : std::vector<std::pair<int, int>>{
           {0, 0}, {-3, 12}, {7, 7}, {9, 10}, {-120, -19}, {98, 1203}, {-1, 1}, {100, 999}}) {
    const Grammar g = json_schema_grammar({{"type", "integer"}, {"minimum", lo}, {"maximum", hi}}),
                  x = json_schema_grammar(
                      {{"type", "integer"}, {"exclusiveMinimum", lo - 1}, {"exclusiveMaximum", hi + 1}}),
                  m = json_schema_grammar(
                      {{"type", "integer"}, {"exclusiveMinimum", -2000}, {"maximum", hi}, {"multipleOf", 7}});
    for (int i = -1500; i <= 1500; ++i) {
      EXPECT_EQ(g.matches(std::to_string(i)), i >= lo && i <= hi) << i << " in " << lo << " to " << hi;
      EXPECT_EQ(x.matches(std::to_string(i)), i >= lo && i <= hi) << i << " in " << lo << " to " << hi;
      EXPECT_EQ(m.matches(std::to_string(i)), i <= hi && i % 7 == 0) << i << " up to " << hi;
    }
  }
  for (const auto& [lo, hi] : std::vector<std::pair<double, double>>{
           {0, 1}, {-0.5, 0.25}, {1.5, 1.75}, {-2, -0.3}, {0.05, 12.5}, {-1, 0}, {2, 2}}) {
    const Grammar g = json_schema_grammar({{"type", "number"}, {"minimum", lo}, {"maximum", hi}}),
                  x = json_schema_grammar(
                      {{"type", "number"}, {"exclusiveMinimum", lo}, {"exclusiveMaximum", hi + 0.01}}),
                  a = json_schema_grammar({{"type", "number"}, {"minimum", lo}}),
                  b = json_schema_grammar({{"type", "number"}, {"exclusiveMaximum", hi}});
    for (int i = -3000; i <= 13000; i += 1) {
      if (i < 0 && i > -10) continue;  // "-0.00i" is written below
      const double v = i / 1000.0;
      std::string t = (i < 0 ? "-" : "") + std::to_string(std::abs(i) / 1000) + "." +
                      std::to_string(1000 + std::abs(i) % 1000).substr(1);
      for (int cut = 0; cut < 2; ++cut) {
        EXPECT_EQ(g.matches(t), v >= lo && v <= hi) << t << " in " << lo << " to " << hi;
        EXPECT_EQ(x.matches(t), v > lo && v < hi + 0.01) << t << " in " << lo << " to " << hi;
        EXPECT_EQ(a.matches(t), v >= lo) << t << " from " << lo;
        EXPECT_EQ(b.matches(t), v < hi) << t << " below " << hi;
        if (i % 1000 == 0) t = t.substr(0, t.find('.'));
      }
    }
  }
  expect(R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"});
  expect(R"({"type": "integer", "format": "int32"})", {"2147483647", "-2147483648"}, {"2147483648"});
  refuses(R"({"type": "integer", "minimum": 3, "maximum": 2})", {"no text satisfies it"});
  refuses(R"({"type": "number", "multipleOf": 0})", {"/multipleOf", "above 0"});
  refuses(R"({"type": "number", "multipleOf": 0.123456789})", {"/multipleOf", "too many digits"});
  refuses(R"({"type": "number", "minimum": true})", {"/minimum", "true"});
}

TEST(JsonSchema, WhatCannotBeExpressedIsRefusedByName) {
  refuses(R"({"properties": {"a/b": {"not": {"patternProperties": {"a": {"type": "null"}}}}}})",
          {"/properties/a~1b/not/patternProperties", "'patternProperties'"});
  refuses(R"({"type": "object", "not": {"propertyNames": {"maxLength": 3}}})", {"/not/propertyNames"});
  refuses(R"({"type": "array", "uniqueItems": true})", {"/uniqueItems", "'uniqueItems' cannot be expressed"});
  expect(R"({"type": "array", "uniqueItems": false})", {"[]"}, {});
  refuses(R"({"unevaluatedProperties": {"type": "integer"}})", {"/unevaluatedProperties"});
  refuses(R"({"type": "text"})", {"/type", "\"text\""});
  refuses(R"({"type": "object", "required": "a"})", {"/required"});
  refuses(R"({"type": "string", "minLength": -1})", {"/minLength", "-1"});
  refuses(R"({"enum": ["a"], "minLength": 2})", {"no text satisfies it"});
  refuses(R"({"enum": 1})", {"/enum"});
  refuses("[]", {"a schema is an object or a boolean"});
  refuses("false", {"no text satisfies it"});
  refuses(R"({"type": "object", "minProperties": 3, "additionalProperties": true})", {"/minProperties"});
}

// Combinations that would grow exponentially.
TEST(JsonSchema, HostileSchemasAreBounded) {
  Json defs = Json::object();
  for (int i = 0; i < 60; ++i) {
    const Json next{{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    defs[std::to_string(i)] = {{"allOf", {next, next}}};
  }
  defs["60"] = {{"type", "string"}};
  expect(Json{{"$defs", defs}, {"$ref", "#/$defs/0"}}.dump(), {"\"a\""}, {"1"});
  // What two recursive schemas say together is recursive as well.
  expect(
      R"({"$defs": {"x": {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]}}},
                        "y": {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#/$defs/y"}, {"$ref": "#/$defs/x"}]}}}},
              "allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]})",
      {"{}", R"({"c":{"c":{}}})"}, {"1", R"({"c":{"c":1}})"});
  Json many = Json::array();
  for (int i = 0; i < 2000; ++i)
    many.push_back({{"type", "object"}, {"properties", {{"k", {{"const", i}}}}}, {"required", {"k"}}});
  refuses(Json{{"oneOf", many}}.dump(), {"schema"});
  Json all = Json::array();
  for (int i = 0; i < 30; ++i) {
    const auto of = [&](const char* name) { return Json{{"required", {name + std::to_string(i)}}}; };
    all.push_back({{"anyOf", {of("a"), of("b"), of("c")}}});
  }
  refuses(Json{{"type", "object"}, {"allOf", all}}.dump(), {"too many combinations"});
}

TEST(JsonSchema, AnyObject) {
  const Grammar g = json_object_grammar();
  EXPECT_TRUE(g.matches(R"({"a": [1, {"b": "c"}]})"));
  EXPECT_FALSE(g.matches("[]"));
}

// Texts of random bytes that the masks allow are JSON, and have what the schema requires.
TEST(JsonSchema, RandomTextsParse) {
  const Json schema = Json::parse(
      R"({"$defs": {"tree": {"type": "object", "properties": {"v": {"type": "number", "minimum": -1, "maximum": 1},
        "sub": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}}, "required": ["v"]}},
      "type": "object", "properties": {"id": {"type": "string", "pattern": "^[a-z]{3}$"}, "when": {"format": "date"},
        "any": {}, "tree": {"$ref": "#/$defs/tree"}, "n": {"type": "integer", "minimum": 10, "maximum": 99}},
      "required": ["id", "any", "tree", "n"], "additionalProperties": {"type": "boolean"}, "maxProperties": 6})");
  const auto bytes = make_byte_tokenizer();
  const auto begin = json_schema_grammar(schema).constraint(TokenTrie(*bytes));
  const Philox random(1, "bytes");
  uint64_t draw = 0;
  for (int n = 0; n < 200; ++n) {
    const auto c = begin->clone();
    std::string text;
    while (!c->finished()) {
      uint64_t mask[4];
      c->mask(mask);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < 256; ++id)
        if (mask[id / 64] >> (id % 64) & 1) allowed.push_back(id);
      ASSERT_FALSE(allowed.empty()) << text;
      // A quote ends what would otherwise go on for long.
      const bool quote = mask[0] >> '"' & 1 && random.below(draw++, 4) == 0;
      text += char(quote ? '"' : allowed[random.below(draw++, allowed.size())]);
      c->accept(uint8_t(text.back()));
    }
    const Json v = Json::parse(text);
    EXPECT_EQ(v.at("id").get<std::string>().size(), 3u) << text;
    EXPECT_TRUE(v.contains("any")) << text;
    EXPECT_LE(std::abs(v.at("tree").at("v").get<double>()), 1) << text;
    EXPECT_GE(v.at("n").get<int>(), 10) << text;
    EXPECT_LE(v.at("n").get<int>(), 99) << text;
    for (const auto& [key, value] : v.items())
      if (!schema["properties"].contains(key)) {
        EXPECT_TRUE(value.is_boolean()) << text;
      }
  }
}

}  // namespace
}  // namespace toy::json_schema_test
