#include "toy/base/json_text.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <nlohmann/json.hpp>

#include "testing/errors.h"

namespace toy::json_text_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::message_of;

std::string nested(int levels, const std::string& open = "[", const std::string& close = "]") {
  std::string begin, end;
  for (int i = 0; i < levels; ++i) begin += open, end += close;
  return begin + "1" + end;
}

TEST(Json, NestsSixtyFourLevels) {
  EXPECT_EQ(json_text(parse_json<json>(nested(kMaxJsonDepth))), nested(kMaxJsonDepth));
  for (const int levels : {kMaxJsonDepth + 1, 100, 200000}) {
    EXPECT_TRUE(parse_json<json>(nested(levels)).is_discarded()) << levels;
    EXPECT_TRUE(parse_json<ordered_json>(nested(levels, "{\"a\":", "}")).is_discarded()) << levels;
    EXPECT_EQ(message_of([&] { read_json<json>("f.json", nested(levels)); }),
              "f.json: the JSON nests more than 64 levels");
  }
  EXPECT_TRUE(parse_json<json>(std::string(200000, '[')).is_discarded());
}

TEST(Json, BracketsInStringsAreText) {
  const std::string text = "[\"\\\"" + std::string(100, '[') + "\\\\\",\"" + std::string(100, '{') + "\"]";
  EXPECT_EQ(parse_json<json>(text).size(), 2u);
  std::string flat = "[";
  for (int i = 0; i < 100; ++i) flat += "[],{},";
  EXPECT_EQ(parse_json<json>(flat + "1]").size(), 201u);
}

TEST(Json, BytesOfZeroAreNoText) {
  const std::string model("GGUF\3\0\0\0", 8);
  EXPECT_EQ(message_of([&] { read_json<json>("m.gguf", model); }),
            "m.gguf: not JSON: it has NUL bytes, so it is a model, a picture or the like");
}

TEST(Json, SaysWhatIsNotJson) {
  EXPECT_EQ(read_json<json>("f", "[1]").size(), 1u);
  const std::string what = message_of([] { read_json<json>("f.json", "{\n1"); });
  EXPECT_EQ(
      what.rfind("f.json: not JSON: line 2, column 1: unexpected number literal; expected a name in double quotes", 0),
      0u)
      << what;
  EXPECT_NE(message_of([] { read_json<json>("f", "1e999"); }).find("1e999"), std::string::npos);
  EXPECT_TRUE(parse_json<json>("{1").is_discarded());
}

TEST(Json, MistakesInWords) {
  EXPECT_EQ(json_mistake("[{}]"), "");
  EXPECT_EQ(json_mistake("[{} {}]"), "column 5: unexpected '{'; expected ',' or ']'");
  EXPECT_EQ(json_mistake(R"({"a": 1 "b": 2})"), "column 11: unexpected string literal; expected ',' or '}'");
  EXPECT_EQ(json_mistake(R"({"a": True})"),
            "column 7: neither text in double quotes, a number, true, false nor null; last read: '\"a\": T'");
  EXPECT_EQ(json_mistake("{'a': 1}"), "column 2: a single quote; names and texts have double quotes");
  EXPECT_EQ(json_mistake("[1,\n]"), "line 2, column 1: unexpected ']'; expected a value, or no comma before it");
  EXPECT_EQ(json_mistake(R"({"a": 1,})"),
            "column 9: unexpected '}'; expected a name in double quotes, or no comma before it");
  EXPECT_EQ(json_mistake("[1,"), "column 4: the text ends too early; expected a value");
  EXPECT_EQ(json_mistake("{} {}"), "column 4: unexpected '{'; expected nothing more");
  EXPECT_EQ(json_mistake(std::string(100, '[')), "it nests more than 64 levels");
}

TEST(Json, ShowsTheOutermostKeys) {
  std::vector<std::string> keys;
  read_json<json>("f", R"({"a":{"b":1},"c":2,"a":3})", [&](const std::string& key) { keys.push_back(key); });
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "c", "a"}));
}

template <class T>
std::string refusal(const std::string& number) {
  return message_of([&] { json_number<T>(parse_json<json>(number), "step"); });
}

TEST(Json, NumbersKeepToTheirRange) {
  const auto whole = [](const char* text) { return json_number<int64_t>(parse_json<json>(text), "step"); };
  EXPECT_EQ(whole("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(whole("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(whole("5.0"), 5);
  EXPECT_EQ(whole("-1e3"), -1000);
  for (const char* text : {"9223372036854775808", "18446744073709551615", "1e19", "-1e19", "9223372036854775807.0",
                           "1e300", "1.5", "true", "null", "\"1\"", "[1]"})
    EXPECT_EQ(refusal<int64_t>(text).rfind("step is " + json_text(parse_json<json>(text)), 0), 0u) << text;
  EXPECT_EQ(json_number<double>(parse_json<ordered_json>("1e300"), "x"), 1e300);
  EXPECT_EQ(json_number<float>(parse_json<json>("18446744073709551615"), "x"), 0x1p64f);
  EXPECT_EQ(refusal<double>("\"1\"").rfind("step is \"1\"", 0), 0u);
  for (const char* text : {"1e300", "-3.5e38"})
    EXPECT_NE(refusal<float>(text).find("from -3.4028235e+38 to 3.4028235e+38"), std::string::npos) << text;
  EXPECT_EQ(message_of([] { json_number<int64_t>(parse_json<json>("0"), "step", 1, INT32_MAX); }),
            "step is 0, expected a whole number, 1 or more");
  EXPECT_EQ(message_of([] { json_number<int64_t>(parse_json<json>("3000000000"), "step", 1, INT32_MAX); }),
            "step is 3000000000, expected a whole number from 1 to 2147483647");
  const std::string range = message_of([] { json_number<int64_t>(parse_json<json>("-1"), "step", 0, 9); });
  EXPECT_EQ(range, "step is -1, expected a whole number from 0 to 9");
  EXPECT_EQ(refusal<int64_t>("\"100\""), "step is \"100\", a text; write 100 without quotes");
  EXPECT_EQ(refusal<int64_t>("\"x\""), "step is \"x\", expected a whole number of 64 bits");
}

}  // namespace
}  // namespace toy::json_text_test
