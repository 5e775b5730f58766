// Filters, tests, methods, operators and statements against Jinja: tests/golden/make_jinja_golden.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

namespace toy::jinja_test {
namespace {

using nlohmann::ordered_json;

// The text, or null where it is refused.
ordered_json rendered(const std::string& source, const ordered_json& variables) {
  try {
    return ChatTemplate(source).render({.variables = variables}).text;
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(Jinja, EveryCaseIsThatOfJinja) {
  const ordered_json all = ordered_json::parse(std::ifstream(TOY_SOURCE_DIR "/tests/golden/jinja.golden.json"));
  ASSERT_GE(all.at("cases").size(), 850u);
  for (const ordered_json& one : all.at("cases"))
    EXPECT_EQ(rendered(one[0].get<std::string>(), all.at("data")), one[1]) << one[0];
}

std::string error_of(const std::string& source) {
  try {
    return "no error, but " + ChatTemplate(source).render({}).text;
  } catch (const Error& e) {
    return e.what();
  }
}

// What Jinja can do and toy cannot is an error that says so, never another text.
TEST(Jinja, WhatIsNotSupportedIsRefused) {
  for (const char* number : {"1e20", "-1e20", "'1e20'", "'99999999999999999999'", "'9223372036854775808'", "9.3e18",
                             "(1e308 * 10)", "1e20|round"}) {
    EXPECT_NE(error_of(fmt::format("{{{{ {}|int }}}}", number)).find("int: the number is too large"), std::string::npos)
        << number;
    EXPECT_NE(error_of(fmt::format("{{{{ {}|int(7) }}}}", number)).find("too large"), std::string::npos) << number;
  }
  for (const char* number : {"2 ** 63", "9223372036854775808", "0x8000000000000000", "'ffffffffffffffffff'|int(0, 16)",
                             "9223372036854775807|round(-1)", "5|round(-19)"})
    EXPECT_NE(error_of(fmt::format("{{{{ {} }}}}", number)).find("too large"), std::string::npos) << number;
  for (const char* text : {"'\\N{BULLET}'", "\"a\\N{bullet}\""})
    EXPECT_NE(error_of(fmt::format("{{{{ {} }}}}", text)).find("names of characters (\\N{...})"), std::string::npos);
  EXPECT_NE(error_of("{{ (5).real }}").find("of numbers are not supported"), std::string::npos);
  EXPECT_NE(error_of("{{ 017 }}").find("octal numbers begin with 0o"), std::string::npos);
  EXPECT_NE(error_of("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}").find("m() takes 1 arguments at most, not 2"),
            std::string::npos);
  EXPECT_NE(error_of("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}").find("m() has no argument 'b'"), std::string::npos);
  EXPECT_NE(error_of("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}").find("does not use caller()"),
            std::string::npos);
}

// Jinja refuses these in transformers, and llama.cpp does not: templates that are written for it have them.
TEST(Jinja, ListsCanBeChanged) {
  const auto text = [](const std::string& source) { return rendered(source, ordered_json::object()); };
  EXPECT_EQ(text("{% set l = [1] %}{% set m = l %}{% set _ = l.append(2) %}{{ l }}{{ m }}{{ l.append(3) }}"),
            "[1, 2][1, 2]None");
  EXPECT_EQ(text("{% set l = [1, 2, 3, 4] %}{{ l.pop() }}{{ l.pop(0) }}{{ l.pop(-2) }}{{ l }}"), "412[3]");
  EXPECT_EQ(text("{% set l = [1] %}{% set _ = l.extend('ab') %}{% set _ = l.insert(0, 'x') %}"
                 "{% set _ = l.insert(-1, 'y') %}{% set _ = l.insert(99, 'z') %}{{ l }}"),
            "['x', 1, 'a', 'y', 'b', 'z']");
  EXPECT_EQ(text("{% set q = [] %}{% macro add(x) %}{% set _ = q.append(x) %}{% endmacro %}"
                 "{% for i in range(3) %}{{ add(i) }}{% endfor %}{{ q }}"),
            "[0, 1, 2]");
  EXPECT_EQ(text("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x + 1) %}{% endfor %}{{ l }}"), "[1, 2]");
  EXPECT_EQ(text("{{ [].pop() }}"), nullptr);
  EXPECT_EQ(text("{{ [1].pop(5) }}"), nullptr);
  EXPECT_EQ(text("{{ (1, 2).append(3) }}"), nullptr);
  EXPECT_EQ(text("{{ range(3).sort() }}"), nullptr);
}

// A list that holds itself, or is far in others, which were made before it grew.
TEST(Jinja, ListsThatGrowIntoEachOther) {
  const auto error = [](const std::string& source) {
    try {
      ChatTemplate(source).render({});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}").find("too deep"), std::string::npos);
  EXPECT_NE(error("{% set l = [] %}{% set _ = l.append([l]) %}{{ l | tojson }}").find("too deep"), std::string::npos);
  EXPECT_NE(error("{% set l = [] %}{% set m = [] %}{% set _ = l.append(m) %}{% set _ = m.append(l) %}{{ l == [m] }}"
                  "{{ l < [m] }}{{ l == m }}{{ l | pprint }}")
                .find("too deep"),
            std::string::npos);
  // 100 lists of 100, each within the innermost of the next.
  EXPECT_EQ(error("{% set n = namespace(top=[]) %}{% for i in range(100) %}{% set bottom = [] %}{% set c = "
                  "namespace(l=bottom) %}{% for k in range(98) %}{% set c.l = [c.l] %}{% endfor %}"
                  "{% set _ = bottom.append(n.top) %}{% set n.top = c.l %}{% endfor %}"),
            "");
}

}  // namespace
}  // namespace toy::jinja_test
