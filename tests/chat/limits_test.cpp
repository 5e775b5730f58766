// Templates that would never end, or use up the machine, and messages that say where something is wrong.
#include <gtest/gtest.h>

#include "toy/base/error.h"
#include "toy/chat/chat_template.h"

namespace toy {
namespace {

std::string error_of(const std::string& source, const ChatLimits& limits = {}) {
  try {
    ChatTemplate(source, "t", limits).render({.messages = {{{"role", "user"}, {"content", "hi"}}}});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    return e.what();
  }
  return "";
}

TEST(ChatLimits, EveryTemplateEnds) {
  const std::string loop = "{% for a in range(99999) %}", end = "{% endfor %}";
  EXPECT_NE(error_of(loop + loop + loop + "x" + end + end + end).find("too many steps"), std::string::npos);
  EXPECT_NE(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("in each other"), std::string::npos);
  EXPECT_NE(error_of("{{ 'a' * 999999999999 }}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of("{{ 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz' * 999999999999 }}").find("too long"),
            std::string::npos);
  EXPECT_NE(error_of("{{ [1] * 999999999999 }}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(s='ab') %}" + loop + "{% set n.s = n.s ~ n.s %}" + end).find("too long"),
            std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(s=[1]) %}" + loop + "{% set n.s = [n.s, n.s] %}" + end).find("too deep"),
            std::string::npos);
  // What is shared is small in memory, and huge when it is written out or compared.
  const std::string shared =
      "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
      "{% set n.b = [n.b, n.b] %}" +
      end;
  EXPECT_NE(error_of(shared + "{{ n.a }}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of(shared + "{{ n.a | tojson }}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of(shared + "{{ n.a == n.b }}").find("too many steps"), std::string::npos);
  EXPECT_NE(error_of("{{ 'aaaaaaaaaa' | replace('', 'b' * 9999999) }}").find("too long"), std::string::npos);
}

TEST(ChatLimits, WhatLiesInEachOtherIsBounded) {
  const auto times = [](int n, const std::string& s) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  for (const std::string& open : {std::string("("), std::string("["), std::string("not "), std::string("-")})
    EXPECT_NE(error_of("{{ " + times(100000, open)), "") << open;
  for (const std::string& next : {std::string(".a"), std::string("+1"), std::string("|trim"), std::string("[0]"),
                                  std::string(" or 1"), std::string(" if 1 else 2")})
    EXPECT_NE(error_of("{{ a" + times(100000, next) + " }}"), "") << next;
  EXPECT_NE(error_of(times(100000, "{% if 1 %}")), "");
  EXPECT_EQ(error_of("{{ " + times(40, "(") + "1" + times(40, ")") + " }}"), "");
}

TEST(ChatErrors, NameThePlaceAndWhatWasExpected) {
  EXPECT_EQ(error_of("a\n  {% if x %}"),
            "t: line 2, column 13: expected '{% elif' or 'else' or 'endif %}', found the end");
  EXPECT_EQ(error_of("{{ 1 2 }}"), "t: line 1, column 6: expected '}}', found '2'");
  EXPECT_EQ(error_of("é\n{{ x.y }}"), "t: line 2, column 5: 'x' is undefined, so it has no 'y'");
  EXPECT_EQ(error_of("{{ raise_exception('no tools') }}"),
            "t: line 1, column 19: the template refuses the conversation: no tools");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"),
            "t: line 1, column 8: a string + a whole number has no meaning; use ~ to join texts");
  EXPECT_NE(error_of("{% include 'x' %}").find("'include' is not known here"), std::string::npos);
  EXPECT_NE(error_of("{{ ''.__class__.__mro__ }}").find("undefined"), std::string::npos);
  EXPECT_NE(error_of("{{ messages.append(1) }}").find("may not"), std::string::npos);
}

TEST(ChatErrors, WhatIsNoConversation) {
  const ChatTemplate chat("{{ messages }}");
  EXPECT_THROW(chat.render({.messages = "hi"}), Error);
  EXPECT_THROW(chat.render({.messages = {"hi"}}), Error);
}

}  // namespace
}  // namespace toy
