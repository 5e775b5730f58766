// What is refused names the keyword by its JSON pointer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_refusals_test {
namespace {

using Json = nlohmann::ordered_json;

void refuses(const Json& schema, const std::string& place) {
  try {
    json_schema_grammar(schema, "s.json");
    ADD_FAILURE() << place << " was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_EQ(std::string(e.what()).find("s.json: " + place + ": "), 0u) << place << "\n" << e.what();
  }
}
Json list_of(int count, const std::function<Json(int)>& value) {
  Json list = Json::array();
  for (int i = 0; i < count; ++i) list.push_back(value(i));
  return list;
}

TEST(JsonSchemaRefusals, NoKeywordAtAll) {
  const auto error_of = [](const Json& schema) {
    try {
      json_schema_grammar(schema, "s.json");
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(error_of({{"name", "string"}, {"age", "integer"}}).find("'name', 'age' are no keywords of JSON Schema; a"),
            std::string::npos);
  EXPECT_NE(error_of({{"propertys", Json::object()}}).find("did you mean 'properties'?"), std::string::npos);
  EXPECT_NE(error_of({{"properties", {{"a", {{"kind", "x"}}}}}}).find("s.json: /properties/a: 'kind' is no keyword"),
            std::string::npos);
  EXPECT_NE(error_of({{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", Json::object()}}}})
                .find("it is OpenAI's response_format; give the schema that is its json_schema.schema"),
            std::string::npos);
  for (const Json& any : {Json::object(), Json{{"title", "t"}, {"x-order", 1}}, Json{{"$comment", "c"}, {"a", 1}},
                          Json{{"type", "integer"}, {"unknown", 1}}})
    EXPECT_EQ(error_of(any), "") << any;
}

TEST(JsonSchemaRefusals, TooLarge) {
  const Json whole{{"type", "integer"}}, text{{"type", "string"}};
  refuses({{"type", "array"}, {"items", whole}, {"maxItems", 100'000}}, "/maxItems");
  refuses({{"allOf", {{{"type", "array"}, {"items", whole}}, {{"minItems", 1'000'000}}}}}, "/allOf/1/minItems");
  refuses({{"properties", {{"a/b", {{"type", "string"}, {"pattern", "^\\p{L}{1,300}$"}}}}}},
          "/properties/a~1b/pattern");
  refuses({{"type", "string"}, {"not", {{"enum", list_of(20'000, [](int i) { return fmt::format("n {}", i); })}}}},
          "/not/enum");
  refuses({{"not", {{"enum", list_of(20'000, [](int i) { return i; })}}}}, "/not/enum");
  refuses({{"type", "integer"}, {"multipleOf", 9973}}, "/multipleOf");
  refuses({{"type", "integer"}, {"not", {{"multipleOf", 12'347}}}}, "/not/multipleOf");
  refuses({{"anyOf", list_of(4000, [](int i) { return Json{{"type", "integer"}, {"minimum", i}}; })}}, "/anyOf");
  refuses({{"type", "array"}, {"contains", {{"const", 1}}}, {"minContains", 20'000}}, "/contains");
  refuses({{"type", "object"}, {"additionalProperties", text}, {"maxProperties", 30'000}}, "/maxProperties");
  refuses({{"items", {{"const", std::string(3'000'000, 'x')}}}}, "/items/const");
}

TEST(JsonSchemaRefusals, NoText) {
  const auto required = [](const Json& value) {
    return Json{{"type", "object"}, {"properties", {{"a", value}}}, {"required", {"a"}}};
  };
  refuses(required({{"type", "integer"}, {"minimum", 3}, {"maximum", 2}}), "/properties/a/maximum");
  refuses(required({{"type", "string"}, {"minLength", 3}, {"maxLength", 2}}), "/properties/a/maxLength");
  refuses(required({{"type", "array"}, {"minItems", 3}, {"maxItems", 2}}), "/properties/a/maxItems");
  refuses(required(required(false)), "/properties/a/properties/a");
  refuses({{"type", "integer"}, {"not", {{"type", "number"}}}},
          "no text satisfies it, among those that can be written");
}

TEST(JsonSchemaRefusals, WhatIsNoSchema) {
  refuses({{"dependencies", {{"a", {"b", 3}}}}}, "/dependencies/a");
  refuses({{"enum", {1}}, {"not", {{"dependentRequired", {{"a", {3}}}}}}, {"enum", {{{"a", 1}}}}},
          "/not/dependentRequired/a");
  refuses({{"enum", {{{"a", 1}}}}, {"not", {{"properties", 1}}}}, "/not/properties");
  refuses({{"type", "string"}, {"pattern", "(?i)a"}}, "/pattern");
  refuses({{"type", "string"}, {"pattern", "\\p{Script=Greek}"}}, "/pattern");
}

TEST(JsonSchemaRefusals, UniqueItemsSayWhatToDo) {
  try {
    json_schema_grammar({{"type", "array"}, {"items", {{"type", "string"}}}, {"uniqueItems", true}});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "schema: /uniqueItems: 'uniqueItems' cannot be expressed for items of so many values; remove it (in "
                 "pydantic, use list instead of set) and drop repeated items, or list at most 10 values in an enum");
  }
}

}  // namespace
}  // namespace toy::json_schema_refusals_test
