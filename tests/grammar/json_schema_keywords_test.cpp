// Keywords of JSON Schema that combine schemas, say what must not be, or only annotate.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_keywords_test {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

struct Case {
  const char* schema;
  Texts in, out;
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    try {
      const Grammar g = json_schema_grammar(Json::parse(c.schema));
      for (const std::string& t : c.in) EXPECT_TRUE(g.matches(t)) << c.schema << "\n" << t;
      for (const std::string& t : c.out) EXPECT_FALSE(g.matches(t)) << c.schema << "\n" << t;
    } catch (const Error& e) {
      ADD_FAILURE() << c.schema << "\n" << e.what();
    }
  }
}

TEST(JsonSchemaKeywords, UnknownOnesAnnotate) {
  for (const char* key : {"id", "readonly", "example", "self", "discriminator", "markdownDescription", "nullable",
                          "contentEncoding", "contentSchema", "xml", "propertyOrder", "misspelt"})
    for (const Json& value : {Json(true), Json("text"), Json{{"propertyName", "kind"}}, Json::array({1})}) {
      const Json inner{{"type", "string"}, {key, value}};
      const Grammar g = json_schema_grammar({{"type", "object"}, {"properties", {{"a", inner}}}, {key, value}});
      EXPECT_TRUE(g.matches(R"({"a":"x"})")) << key;
      EXPECT_FALSE(g.matches(R"({"a":null})")) << key;
    }
}

TEST(JsonSchemaKeywords, WithoutATypeOtherTypesAreFree) {
  check_all({{R"({"format": "date"})", {"1", R"("2024-02-29")", "[]"}, {R"("x")"}},
             {R"({"minimum": 3})", {"3", R"("x")", "null"}, {"2", "2.9"}},
             {R"({"properties": {"a": {"type": "null"}}})", {"5", R"({"a":null})"}, {R"({"a":1})"}},
             {R"({"items": {"type": "null"}})", {"{}", "[null]"}, {"[1]"}}});
}

TEST(JsonSchemaKeywords, Not) {
  check_all({
      {R"({"not": {"type": "integer"}})", {"1.5", R"("a")", "null", "{}", "[1]"}, {"1", "-7"}},
      {R"({"not": {"type": ["number", "string"]}})", {"null", "true"}, {"1.5", R"("a")"}},
      {R"({"type": "string", "not": {"enum": ["a", "bc"]}})", {R"("b")", R"("ab")", R"("")"}, {R"("a")", R"("bc")"}},
      {R"({"type": ["integer", "null", "boolean"], "not": {"enum": [null, 3, true]}})",
       {"false", "4"},
       {"null", "3", "true"}},
      {R"({"type": "number", "not": {"const": 1.5}})", {"1.25", "1.51", "2"}, {"1.5", "1.50"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}})",
       {"{}", R"({"a":1})", R"({"b":1})"},
       {R"({"a":1,"b":2})"}},
      {R"({"type": "string", "not": {"pattern": "^x"}})", {R"("ax")", R"("")"}, {R"("x")", R"("xa")"}},
      {R"({"type": "string", "not": {"format": "ipv4"}})", {R"("1.2.3")", R"("x")"}, {R"("1.2.3.4")"}},
      {R"({"type": "string", "not": {"minLength": 3}})", {R"("ab")"}, {R"("abc")"}},
      {R"({"type": "string", "not": {"maxLength": 3}})", {R"("abcd")"}, {R"("abc")"}},
      {R"({"type": "integer", "not": {"minimum": 3, "maximum": 5}})", {"2", "6"}, {"3", "4", "5"}},
      {R"({"type": "integer", "not": {"multipleOf": 3}})", {"1", "-4", "100"}, {"0", "3", "-9"}},
      {R"({"type": "array", "items": {"type": "integer"}, "not": {"minItems": 2}})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"type": "array", "not": {"items": {"type": "integer"}}})", {R"(["a"])", R"([1,"a",2])"}, {"[]", "[1,2]"}},
      {R"({"not": {"not": {"type": "null"}}})", {"null"}, {"1"}},
      {R"({"not": {"anyOf": [{"type": "string"}, {"type": "number"}]}})", {"null", "[]"}, {"1", R"("a")"}},
      {R"({"not": {"allOf": [{"type": "string"}, {"minLength": 2}]}})", {"1", R"("a")"}, {R"("ab")"}},
      {R"({"type": "object", "properties": {"k": {"enum": [1, 2]}}, "not": {"properties": {"k": {"const": 1}}}})",
       {R"({"k":2})"},
       {"{}", R"({"k":1})"}},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["b"],
          "not": {"required": ["b"], "minProperties": 2}})",
       {R"({"b":1})"},
       {R"({"a":1,"b":1})", "{}"}},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["b"], "oneOf": [{"required": ["b"]},
          {"required": ["b", "a"]}]})",
       {R"({"b":1})"},
       {R"({"a":1,"b":1})"}},
      {R"({"type": "array", "not": {"const": []}})", {"[1]"}, {"[]"}},
  });
}

TEST(JsonSchemaKeywords, Conditions) {
  check_all({
      {R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "integer"}},
          "required": ["kind"], "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}})",
       {R"({"kind":"a","x":1})", R"({"kind":"b"})", R"({"kind":"b","x":2})"},
       {R"({"kind":"a"})", "{}"}},
      {R"({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}})",
       {R"("ab")", "null"},
       {R"("a")", "1"}},
      {R"({"type": "object", "properties": {"card": {"type": "integer"}, "address": {"type": "string"}},
          "dependentRequired": {"card": ["address"]}})",
       {"{}", R"({"address":"x"})", R"({"card":1,"address":"x"})"},
       {R"({"card":1})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
          "dependencies": {"a": ["b"], "b": {"properties": {"a": {"minimum": 5}}}}})",
       {"{}", R"({"b":1})", R"({"a":5,"b":1})"},
       {R"({"a":5})", R"({"a":4,"b":1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "dependencies": {"a": "b"}})",
       {R"({"a":1,"b":1})", R"({"c":1})", "{}"},
       {R"({"a":1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "not": {"dependencies": {"a": "b"}}})",
       {R"({"a":1})", R"({"a":1,"c":1})"},
       {R"({"a":1,"b":1})", "{}"}},
      {R"({"type": "object", "properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {"const": 1}},
          "required": ["b"]}}})",
       {"{}", R"({"a":0,"b":1})"},
       {R"({"a":0})", R"({"a":0,"b":2})"}},
  });
}

// Exactly one of two: values that both have are found, whatever else they say.
TEST(JsonSchemaKeywords, WhatTwoSchemasHaveInCommon) {
  check_all({
      {R"({"oneOf": [{"dependentSchemas": {"a": {"type": "string"}}}, {"required": ["a"]}]})",
       {"{}", R"({"b":1})"},
       {"100", "null", "\"x\""}},
      {R"({"type": "object", "oneOf": [{"properties": {"a": {}}, "allOf": [{"not": {"required": ["z", "a"]}},
          {"not": {"not": {"required": ["z"]}}}]}, {"type": "object", "properties": {"a": {}}, "required": ["z"]}]})",
       {R"({"a":2,"z":1})"},
       {R"({"z":1})", "{}"}},
  });
}

TEST(JsonSchemaKeywords, Names) {
  check_all({
      {R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a":1,"b":2})"},
       {R"({"c":1})", R"({"a":null})"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}})",
       {R"({"abc":1})"},
       {R"({"abcd":1})", R"({"A":1})"}},
      {R"({"type": "object", "properties": {"ab": {}, "ABC": {}}, "propertyNames": {"maxLength": 2}})",
       {R"({"ab":1})"},
       {R"({"ABC":1})"}},
      {R"({"type": "object", "patternProperties": {"^x-": {"type": "integer"}},
          "additionalProperties": {"type": "null"}})",
       {R"({"x-a":1})", R"({"y":null})", R"({"x":null,"x-":2})"},
       {R"({"x-a":null})", R"({"y":1})"}},
      {R"({"type": "object", "patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 5}}})",
       {R"({"a":1})", R"({"ab":5})", R"({"b":"x"})"},
       {R"({"ab":4})", R"({"ab":"x"})", R"({"b":4})"}},
      {R"({"type": "object", "properties": {"foo": {"maximum": 9}}, "patternProperties": {"^f": {"type": "integer"}}})",
       {R"({"foo":9})", R"({"foo":1,"fo":77})"},
       {R"({"foo":10})", R"({"foo":"x"})"}},
      {R"({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false})",
       {R"({"a":1})"},
       {R"({"b":1})"}},
  });
}

TEST(JsonSchemaKeywords, Items) {
  check_all({
      {R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true})",
       {"[]", R"(["c","a"])", R"(["b","c","a"])"},
       {R"(["a","a"])", R"(["a","b","a"])"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 1})",
       {"[true]", "[false,true]"},
       {"[]", "[true,true]"}},
      {R"({"type": "array", "items": {"enum": [1, 1.0, 2]}, "uniqueItems": true})", {"[2,1]"}, {"[1,1.0]", "[1,1]"}},
      {R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 1})",
       {"[]", R"(["a"])"},
       {R"(["a","b"])"}},
      {R"({"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}})",
       {"[5]", "[1,5,2]", "[5,5]"},
       {"[]", "[1]"}},
      {R"({"type": "array", "contains": {"type": "null"}, "minContains": 2, "maxContains": 3})",
       {"[null,null]", "[1,null,null]", "[null,null,2,null]"},
       {"[null]", "[null,null,null,null]"}},
      {R"({"type": "array", "contains": {"type": "null"}, "minContains": 0})", {"[]", "[1]"}, {}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}], "unevaluatedItems": false})",
       {"[]", "[null,1]"},
       {"[null,1,2]", "[1]"}},
  });
}

TEST(JsonSchemaKeywords, EnumsWithOtherKeywords) {
  check_all({
      {R"({"enum": ["a", "abc", 3, 7, null, [1, 2], {"k": 1}], "minLength": 2, "minimum": 5, "minItems": 3,
          "required": ["k"]})",
       {R"("abc")", "7", "null", R"({"k":1})"},
       {R"("a")", "3", "[1,2]"}},
      {R"({"enum": ["2024-02-29", "2023-02-29"], "format": "date"})", {R"("2024-02-29")"}, {R"("2023-02-29")"}},
      {R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"not": {"const": 3}}]})", {"2"}, {"1", "3", "4"}},
      {R"({"enum": [1, 2, 3, 4], "oneOf": [{"minimum": 2}, {"maximum": 3}]})", {"1", "4"}, {"2", "3"}},
  });
  // Thousands of values are read in one way.
  Json names = Json::array();
  for (int i = 0; i < 3000; ++i) names.push_back("name " + std::to_string(i));
  const Grammar g = json_schema_grammar({{"enum", names}});
  EXPECT_TRUE(g.matches("\"name 2999\""));
  EXPECT_FALSE(g.matches("\"name 3000\""));
}

TEST(JsonSchemaKeywords, Numbers) {
  check_all({
      {R"({"type": "number", "multipleOf": 0.5})", {"0", "1.5", "-2.5", "3", "12.0"}, {"1.25", "0.1"}},
      {R"({"type": "number", "multipleOf": 0.01, "minimum": 0})", {"4.35", "0.07", "19.9", "3"}, {"0.001", "-0.01"}},
      {R"({"type": "integer", "multipleOf": 1000000})", {"0", "3000000", "-1000000"}, {"1", "100000", "1500000"}},
      {R"({"type": "number", "multipleOf": 2.5})", {"2.5", "5", "7.5", "10"}, {"2", "3.5"}},
      {R"({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"})", {"12", "24", "0"}, {"4", "6", "18"}},
      {R"({"type": "integer", "format": "int64"})",
       {"9223372036854775807", "-9223372036854775808"},
       {"9223372036854775808"}},
      {R"({"type": "integer", "format": "uint64"})", {"18446744073709551615", "0"}, {"-1", "18446744073709551616"}},
      {R"({"type": "integer", "format": "int32"})", {"-2147483648"}, {"2147483648"}},
      {R"({"type": "integer", "minimum": 9007199254740993, "maximum": 9007199254740995})",
       {"9007199254740993", "9007199254740995"},
       {"9007199254740992", "9007199254740996"}},
      {R"({"type": "integer", "exclusiveMinimum": 9223372036854775806})",
       {"9223372036854775807"},
       {"9223372036854775806"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})", {"0.12345678901234567", "1.0", "0"}, {"1.00001", "-0.1"}},
      {R"({"type": "integer", "minimum": 1, "exclusiveMinimum": true})", {"2"}, {"1"}},
  });
}

}  // namespace
}  // namespace toy::json_schema_keywords_test
