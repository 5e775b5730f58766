// Numbers of JSON Schema: no text is one that 64-bit floating point takes for another.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_numbers_test {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

Grammar grammar(const std::string& schema) { return json_schema_grammar(Json::parse(schema)); }
void expect(const std::string& schema, const Texts& in, const Texts& out) {
  const Grammar g = grammar(schema);
  for (const std::string& t : in) EXPECT_TRUE(g.matches(t)) << schema << "\n" << t;
  for (const std::string& t : out) EXPECT_FALSE(g.matches(t)) << schema << "\n" << t;
}

// A number, what it looks like one unit of its last digit below, and numbers on both sides of it of few digits.
struct Near {
  std::string value, below, less, more;
};

TEST(JsonSchemaNumbers, ManyDigitsDoNotPassABound) {
  for (const Near& n : {Near{"0.1", "0.0", "0.09", "0.11"}, Near{"1", "0", "0.99", "1.01"},
                        Near{"2.5", "2.4", "2", "3"}, Near{"0.30000000000000004", "0.30000000000000003", "0.3", "0.31"},
                        Near{"123456789012345.6", "123456789012345.5", "123456789012345", "123456789012346"},
                        Near{"1234567890123456", "1234567890123455", "1234567890123455", "1234567890123457"},
                        Near{"9007199254740993", "9007199254740992", "9007199254740992", "9007199254740994"},
                        Near{"9223372036854775807", "9223372036854775806", "123.5", "9223372036854775808"}}) {
    const std::string point = n.value.find('.') == n.value.npos ? "." : "",
                      point_below = n.below.find('.') == n.below.npos ? "." : "";
    Texts near{n.value, n.value + point + "0", n.value + point + "000000000000000000"};
    for (size_t k = 0; k < 19; ++k) {
      near.push_back(n.value + point + std::string(k, '0') + "1");
      near.push_back(n.below + point_below + std::string(k + 1, '9'));
    }
    const long double v = std::strtold(n.value.c_str(), nullptr);
    const Grammar above = grammar(R"({"type": "number", "exclusiveMinimum": )" + n.value + "}"),
                  below = grammar(R"({"type": "number", "exclusiveMaximum": )" + n.value + "}"),
                  least = grammar(R"({"type": "number", "minimum": )" + n.value + "}"),
                  most = grammar(R"({"type": "number", "maximum": )" + n.value + "}"),
                  other = grammar(R"({"type": "number", "not": {"const": )" + n.value + "}}"),
                  beside = grammar(R"({"type": "number", "minimum": )" + n.less + R"(, "not": {"enum": [7, )" +
                                   n.value + "]}}");
    for (const std::string& t : near) {
      // What readers of f64 see, and for whole numbers what others see.
      const bool is_whole = t.find('.') == t.npos;
      const long double f = is_whole ? std::strtold(t.c_str(), nullptr) : std::strtod(t.c_str(), nullptr);
      const long double bound = n.value.find('.') == n.value.npos ? v : std::strtod(n.value.c_str(), nullptr);
      EXPECT_TRUE(!above.matches(t) || f > bound) << t;
      EXPECT_TRUE(!below.matches(t) || f < bound) << t;
      EXPECT_TRUE(!least.matches(t) || f >= bound) << t;
      EXPECT_TRUE(!most.matches(t) || f <= bound) << t;
      EXPECT_TRUE(!other.matches(t) || f != bound) << t;
      EXPECT_TRUE(!beside.matches(t) || f != bound) << t;
    }
    EXPECT_TRUE(above.matches(n.more) && below.matches(n.less) && least.matches(n.value) && most.matches(n.value))
        << n.value;
    EXPECT_TRUE(other.matches(n.less) && other.matches(n.more) && beside.matches(n.more)) << n.value;
    EXPECT_FALSE(above.matches(n.less) || below.matches(n.more) || least.matches(n.less) || most.matches(n.more))
        << n.value;
  }
}

TEST(JsonSchemaNumbers, OthersThanSome) {
  expect(R"({"type": "number", "not": {"enum": [0, -2, 0.5]}})", {"0.25", "-0.5", "2", "100", "0.50001", "-2.5"},
         {"0", "-0", "0.00", "-0.0", "-2", "-2.000", "0.5", "0.50", "0.50000000000000001"});
  expect(R"({"type": "array", "contains": {"const": 2}, "maxContains": 1, "items": {"type": "number"}})",
         {"[2,3]", "[2,1.9]"}, {"[2,1.99999999999999999]", "[2,2.0]"});
  expect(R"({"type": "number", "not": {"type": "integer"}})", {"0.5", "-1.123456789", "1.10", "123456789.000001"},
         {"1", "1.0", "1.00000000000000001", "12345678901234567.5"});
  expect(R"({"type": "number", "minimum": -0.5, "not": {"const": 0}})", {"-0.25", "1"}, {"0", "-0.0", "0.0"});
  std::string list = "0";
  for (int i = 1; i < 2000; ++i) list += "," + std::to_string(i * i);
  expect(R"({"type": "integer", "not": {"enum": [)" + list + "]}}", {"2", "3996002", "-1"}, {"0", "1", "3996001"});
}

TEST(JsonSchemaNumbers, Formats) {
  expect(R"({"type": "number", "format": "int8"})", {"127", "-128"}, {"128", "-129", "1.5"});
  expect(R"({"type": "number", "format": "int32", "multipleOf": 5})", {"2147483645"}, {"2147483650", "1", "2.5"});
  expect(R"({"type": "integer", "not": {"format": "int8"}})", {"128", "-129", "3000"}, {"127", "-128", "0"});
  // Whether 1.5 is an int8 is not certain, so it is neither.
  expect(R"({"type": "number", "not": {"format": "uint8"}})", {"-1", "256", "255.5", "-0.5"}, {"255", "0", "1.5"});
  expect(R"({"enum": [1.5, 3, 200, "x"], "format": "int8"})", {"3", "\"x\""}, {"1.5", "200"});
  expect(R"({"enum": [1.5, 3, 200, "x"], "not": {"format": "int8"}})", {"200"}, {"1.5", "3", "\"x\""});
  expect(R"({"type": "number", "oneOf": [{"format": "uint8"}, {"maximum": 3}]})", {"200", "-1", "4"},
         {"3", "1.5", "0"});
}

// All numbers of up to some thousand, of some digits, and of those that need them.
TEST(JsonSchemaNumbers, MultiplesOfLargeFactors) {
  expect(R"({"type": "integer", "multipleOf": 999})", {"0", "999", "-1998", "999000000000000"}, {"1", "998", "1e3"});
  expect(R"({"type": "integer", "multipleOf": 997, "minimum": -123456789012345, "maximum": 987654321098765})",
         {"0", "-997", "9970000000000"}, {"1", "9970000000000000"});
  expect(R"({"type": "number", "multipleOf": 9.99})", {"0", "9.99", "-19.98", "999.0"}, {"1", "0.01", "9.990000001"});
  expect(R"({"type": "integer", "multipleOf": 9973, "minimum": 1, "maximum": 1000000})", {"9973", "997300"},
         {"0", "9974", "1007273"});
  for (const char* schema : {R"({"type": "integer", "multipleOf": 10001, "minimum": 1, "maximum": 1000000})",
                             R"({"type": "integer", "multipleOf": 9973})"})
    EXPECT_THROW(grammar(schema), Error) << schema;
}

}  // namespace
}  // namespace toy::json_schema_numbers_test
