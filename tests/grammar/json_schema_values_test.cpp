// Whether a listed value is valid is found out by itself. It must be what the texts of the schema say.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_values_test {
namespace {

using Json = nlohmann::ordered_json;

bool matches(const Json& schema, const std::string& text) {
  try {
    return json_schema_grammar(schema).matches(text);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no text satisfies it"), std::string::npos) << schema << e.what();
    return false;
  }
}

TEST(JsonSchemaValues, AreWhatTheTextsSay) {
  // Schemas whose texts are all that is valid, if the values are written as here.
  const char* const schemas[] = {
      R"({"type": ["string", "null"]})",
      R"({"minimum": 2, "exclusiveMaximum": 7.5})",
      R"({"exclusiveMinimum": -0.5, "maximum": 3})",
      R"({"multipleOf": 0.5})",
      R"({"type": "integer"})",
      R"({"type": "number", "format": "uint8"})",
      R"({"minLength": 2, "maxLength": 5})",
      R"({"pattern": "^[a-c]+$"})",
      R"({"format": "date"})",
      R"({"format": "hostname"})",
      R"({"format": "uuid"})",
      R"({"items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
      R"({"prefixItems": [{"const": 1}, {"type": "null"}], "items": false})",
      R"({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}})",
      R"({"items": {"type": ["integer", "null"]}, "contains": {"const": 2}, "minContains": 1, "maxContains": 1})",
      R"({"items": {"enum": [1, 2, null]}, "uniqueItems": true})",
      R"({"properties": {"a": {"type": "integer"}, "b": {"maxLength": 3}}, "additionalProperties": true})",
      R"({"required": ["a"], "additionalProperties": true})",
      R"({"patternProperties": {"^a": {"minimum": 2}}, "additionalProperties": {"type": "string"}})",
      R"({"propertyNames": {"maxLength": 1}})",
      R"({"maxProperties": 1})",
      R"({"additionalProperties": true, "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})",
      R"({"additionalProperties": true, "properties": {"a": {}, "b": {}}, "dependencies": {"a": "b"}})",
      R"({"additionalProperties": true, "properties": {"a": {}, "b": {}}, "dependencies": {"a": {"required": ["b"]}}})",
      R"({"anyOf": [{"type": "string"}, {"minimum": 5, "type": "number"}]})",
      R"({"oneOf": [{"minimum": 2}, {"maximum": 5}]})",
      R"({"oneOf": [{"type": "string", "pattern": "b"}, {"type": "string", "maxLength": 2}, {"const": 3}]})",
      R"({"if": {"type": "string"}, "then": {"maxLength": 2}, "else": {"type": ["number", "array", "null"]}})",
      R"({"if": {"format": "date"}, "then": {"type": "number"}})",
      R"({"not": {"type": ["string", "object"]}})",
      R"({"not": {"minimum": 3}})",
      R"({"not": {"multipleOf": 2}, "type": ["integer", "string"]})",
      R"({"not": {"pattern": "b"}})",
      R"({"not": {"minLength": 3}})",
      R"({"not": {"enum": [3, "abc", null, -0.25]}})",
      R"({"not": {"required": ["a"]}, "additionalProperties": true})",
      R"({"not": {"dependencies": {"a": "b"}}, "additionalProperties": true})",
      R"({"not": {"minItems": 2}})",
      R"({"allOf": [{"minimum": 2}, {"type": ["integer", "string"]}, {"not": {"const": 4}}]})"};
  const Json values =
      Json::parse(R"([null, true, 0, 1, 2, 3, 4, 7, 200, 300, -1, -0.25, 0.5, 7.25, "", "a", "ab", "abc", "x y",
      "2024-02-29", "2023-02-29", [], [1], [2], [1,null], [2,2], [2,null], [1,null,null], [1,2,3],
      ["a"], {}, {"a":1}, {"a":3}, {"a":"x"}, {"b":"y"}, {"a":3,"b":"y"}, {"ab":1}, {"b":"long text"}])");
  for (const char* text : schemas) {
    const Json schema = Json::parse(text);
    const Grammar g = json_schema_grammar(schema);
    const Grammar listed = json_schema_grammar({{"enum", values}, {"allOf", Json::array({schema})}});
    for (const Json& v : values) EXPECT_EQ(listed.matches(v.dump()), g.matches(v.dump())) << text << "\n" << v;
  }
}

// Where it is not certain that a value is valid, it is neither valid nor invalid.
TEST(JsonSchemaValues, WhatIsNotCertain) {
  const Json unknown = "xn--nxasmq6b", invalid = "a b", valid = "a.b";
  const Json host{{"format", "hostname"}};
  const auto check = [](const Json& schema, const Json& v, bool want) {
    Json s = schema;
    s["enum"] = Json::array({v, 5});
    EXPECT_EQ(matches(s, v.dump()), want) << s;
  };
  for (const Json& s :
       {host, Json{{"not", host}}, Json{{"oneOf", {host, {{"maxLength", 20}}}}},
        Json{{"oneOf", {host, {{"type", "null"}}}}}, Json{{"if", host}, {"then", {{"type", "null"}}}},
        Json{{"if", host}, {"then", true}, {"else", {{"type", "null"}}}}, Json{{"not", {{"not", host}}}},
        Json{{"not", {{"anyOf", {host, {{"type", "null"}}}}}}}, Json{{"allOf", {host, {{"minLength", 1}}}}}})
    check(s, unknown, false);
  // Values that two schemas perhaps have in common.
  EXPECT_FALSE(matches({{"oneOf", {{{"enum", {unknown, 1}}}, host}}}, unknown.dump()));
  EXPECT_TRUE(matches({{"oneOf", {{{"enum", {invalid, 1}}}, host}}}, invalid.dump()));
  check({{"anyOf", {host, {{"maxLength", 20}}}}}, unknown, true);
  check({{"if", host}, {"then", {{"maxLength", 20}}}}, unknown, true);
  check(host, valid, true);
  check({{"not", host}}, valid, false);
  check(host, invalid, false);
  check({{"not", host}}, invalid, true);
  check({{"oneOf", {host, {{"maxLength", 20}}}}}, invalid, true);
  Json list = Json::array({Json::array({unknown}), Json::array({valid, unknown}), Json::array({invalid})});
  const Json one{{"enum", list}, {"contains", host}, {"maxContains", 1}};
  EXPECT_FALSE(matches(one, list[0].dump()) || matches(one, list[1].dump()) || matches(one, list[2].dump()));
  const Json none{{"enum", list}, {"items", {{"not", host}}}};
  EXPECT_TRUE(matches(none, list[2].dump()));
  EXPECT_FALSE(matches(none, list[0].dump()));
}

}  // namespace
}  // namespace toy::json_schema_values_test
