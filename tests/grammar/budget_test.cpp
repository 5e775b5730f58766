// What compiling a schema or a grammar may cost. Steps are counted, so the same inputs are refused everywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::budget_test {
namespace {

using Json = nlohmann::ordered_json;

const size_t kAll = GrammarBudget().left();

// What it costs, or all and the words of the message.
size_t cost_of(const Json& schema, const std::string& words = "") {
  GrammarBudget budget;
  try {
    json_schema_grammar(schema, "schema", &budget);
    EXPECT_EQ(words, "");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(words, "") << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    if (budget.exceeded()) {
      EXPECT_NE(std::string(e.what()).find("use fewer or shorter patterns"), std::string::npos) << e.what();
      return kAll;
    }
  }
  return kAll - budget.left();
}

Json object_of(int count, const std::function<Json(int)>& value) {
  Json properties = Json::object();
  for (int i = 0; i < count; ++i) properties[fmt::format("p{:04}", i)] = value(i);
  return {{"type", "object"}, {"properties", properties}};
}

TEST(GrammarBudget, PatternsShareIt) {
  const auto pattern = [](int i) {
    return Json{{"type", "string"}, {"pattern", fmt::format("^[a-z]{{0,2000}}x[0-9]{{0,{}}}$", 2000 + i)}};
  };
  const size_t one = cost_of(object_of(1, pattern)), two = cost_of(object_of(2, pattern));
  EXPECT_EQ(one, cost_of(object_of(1, pattern)));
  EXPECT_GT(two, one * 19 / 10);
  EXPECT_LT(two, one * 21 / 10);
  EXPECT_EQ(cost_of(object_of(900, pattern), "schema: /properties/p"), kAll);
  // Equal patterns are one, and lengths are counted beside the pattern.
  const auto lengths = [](int i) {
    return Json{{"type", "string"}, {"pattern", "^[a-z]+(?:x[0-9]{0,200})*$"}, {"maxLength", 3000 + i}};
  };
  EXPECT_LT(cost_of(object_of(10, lengths)), kAll / 100);
  EXPECT_LT(cost_of({{"type", "string"}, {"format", "uri"}, {"maxLength", 2083}}), kAll / 50);
  const auto multiple = [](int i) {
    return Json{{"type", "integer"}, {"multipleOf", 1999}, {"minimum", 1}, {"maximum", 99999 + i}};
  };
  const size_t multiples = cost_of(object_of(1, multiple));
  EXPECT_LT(multiples, kAll / 15);
  EXPECT_EQ(cost_of(object_of(2 * int(kAll / multiples), multiple), "/multipleOf"), kAll);
}

// A common schema needs a small part of it.
TEST(GrammarBudget, LeavesRoomForWhatProgramsSend) {
  const auto field = [](int i) -> Json {
    switch (i % 6) {
      case 0:
        return {{"type", "string"}, {"format", "date-time"}};
      case 1:
        return {{"type", "string"}, {"maxLength", 100}};
      case 2:
        return {{"type", "number"}, {"minimum", 0}, {"maximum", 99.5}};
      case 3:
        return {{"type", "array"}, {"items", {{"type", "string"}, {"pattern", "^[A-Z]{3}-[0-9]{1,5}$"}}}};
      case 4:
        return {{"type", "integer"}, {"minimum", 0}, {"multipleOf", 100}};
      default:
        return {{"enum", {"low", "middle", "high"}}};
    }
  };
  EXPECT_LT(cost_of(object_of(24, field)), kAll / 40);
  EXPECT_LT(cost_of({{"type", "string"}, {"maxLength", 20000}}), kAll / 10'000);
}

// What would be copied again and again.
TEST(GrammarBudget, CountsCopies) {
  Json list = Json::array();
  for (int i = 0; i < 20000; ++i) list.push_back(i);
  const Json values{{"enum", list}};
  EXPECT_LT(cost_of({{"type", "object"}, {"additionalProperties", values}, {"maxProperties", 9000}}), kAll / 5);
  for (int i = 20000; i < 100000; ++i) list.push_back(i);
  Json deep{{"enum", list}};
  for (int i = 0; i < 60; ++i) deep = {{"type", "array"}, {"items", deep}};
  EXPECT_LT(cost_of(deep), kAll * 3 / 5);
  Json branches = Json::array();
  for (int i = 0; i < 4000; ++i) branches.push_back({{"type", "integer"}, {"minimum", i}});
  EXPECT_EQ(cost_of({{"enum", list}, {"anyOf", branches}}, "/anyOf"), kAll);
  Json name = Json::object();
  name[std::string(1'000'000, 'n')] = {{"type", "array"}, {"prefixItems", Json::array()}};
  for (int i = 0; i < 4000; ++i) name.begin().value()["prefixItems"].push_back(true);
  EXPECT_EQ(cost_of({{"type", "object"}, {"properties", name}}, "/properties/nnn"), kAll);
  EXPECT_EQ(cost_of({{"const", std::string(5'000'000, 'x')}}, "schema"), kAll);
  EXPECT_EQ(cost_of({{"type", "string"}, {"pattern", std::string(5'000'000, 'x')}}, "/pattern"), kAll);
}

// Values and texts are not taken apart before they are paid.
TEST(GrammarBudget, CountsBytes) {
  const auto bytes_of = [](const Json& schema) {
    GrammarBudget budget;
    const size_t all = budget.bytes_left();
    EXPECT_THROW(json_schema_grammar(schema, "schema", &budget), Error);
    return all - budget.bytes_left();
  };
  Json names = Json::array();
  for (int i = 0; i < 100'000; ++i) names.push_back(fmt::format("name {}", i));
  EXPECT_LT(bytes_of({{"enum", names}}), size_t(32) << 20);
  EXPECT_LT(bytes_of({{"const", std::string(2'100'000, 'x')}}), size_t(1) << 20);
  EXPECT_LT(bytes_of({{"type", "array"}, {"uniqueItems", true}, {"items", {{"enum", names}}}}), size_t(1) << 20);
  GrammarBudget budget;
  EXPECT_THROW(budget.spend_bytes(budget.bytes_left() + 1, "x"), Error);
}

TEST(GrammarBudget, SeveralGrammarsShareIt) {
  GrammarBudget budget;
  const Json schema{{"type", "string"}, {"pattern", "^[a-z]{9000}$"}};
  int done = 0;
  EXPECT_THROW(for (; done < 1000; ++done) json_schema_grammar(schema, "schema", &budget), Error);
  EXPECT_GT(done, 30);
  EXPECT_LT(done, 60);
  EXPECT_TRUE(budget.exceeded());
  GrammarBudget other;
  parse_gbnf("root ::= x", "g", {{"x", std::make_shared<Json>(schema), "schema"}}, "root", &other);
  EXPECT_LT(other.left(), kAll);
  EXPECT_FALSE(other.exceeded());
}

TEST(GrammarBudget, BoundsGbnf) {
  for (const std::string& text :
       {"root ::= \"" + std::string(4'000'000, 'a') + "\"", "root ::= \"a\"" + std::string(4'000'000, '|'),
        std::string("root ::= (\"\"{100000}){100000}")})
    try {
      parse_gbnf(text, "g");
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("g: "), 0u) << e.what();
      EXPECT_NE(std::string(e.what()).find("it is too large"), std::string::npos) << e.what();
    }
  // Linear in the alternatives.
  EXPECT_TRUE(parse_gbnf("root ::= \"a\"" + std::string(300'000, '|') + " x\nx ::= \"a\"").matches("a"));
}

}  // namespace
}  // namespace toy::budget_test
