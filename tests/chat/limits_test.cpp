// Templates that would never end, or use up the machine, and messages that say where something is wrong.
#include <gtest/gtest.h>

#include <map>

#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"
#include "toy/formats/gguf.h"

namespace toy::limits_test {
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
  EXPECT_NE(error_of("{{ 'a' * 999999999999 }}").find("too long"), std::string::npos);
  EXPECT_NE(error_of("{{ '%999999d' % 1 * 100 }}").find("too long"), std::string::npos);
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

// Work is charged in proportion to what it does, and what can be done in linear time is.
TEST(ChatLimits, NoOperationIsFree) {
  const ChatLimits small{.steps = 400'000};
  for (const char* expression : {"s|length",
                                 "s|upper",
                                 "s|title",
                                 "s|trim",
                                 "s|tojson",
                                 "[s]|string",
                                 "s|wordcount",
                                 "s|wordwrap",
                                 "s|urlencode",
                                 "s|replace('x', 'y')",
                                 "s|reverse|length",
                                 "s|indent",
                                 "s|truncate(9)",
                                 "s.find('x')",
                                 "s.count('x')",
                                 "s.split('x')",
                                 "s.upper()",
                                 "s.isalpha()",
                                 "s.strip('y')",
                                 "s.splitlines()",
                                 "s.center(9)",
                                 "s.startswith(s)",
                                 "s.partition('x')",
                                 "'x' in s",
                                 "s == t",
                                 "s < t",
                                 "d[s]",
                                 "s in d",
                                 "d.get(s)",
                                 "s[30000]",
                                 "s[-30000]",
                                 "s[1:]",
                                 "s[::2]",
                                 "s ~ 'x'",
                                 "s + 'x'",
                                 "'%s' % s",
                                 "'{}'.format(s)",
                                 "l + [1]",
                                 "l[1:]",
                                 "1 in l",
                                 "l|sort|length",
                                 "l|unique|list",
                                 "l|sum",
                                 "l|join",
                                 "l|list",
                                 "l|last",
                                 "l == m",
                                 "l|map('string')|list",
                                 "l|batch(2)|list",
                                 "dict(d, a=1)"}) {
    const std::string source =
        "{% set s = 'é' * 40000 %}{% set t = 'é' * 40000 %}{% set d = {t: 1} %}{% set l = [0] * 9999 %}{% set m = [0] "
        "* 9999 %}"
        "{% for i in range(99999) %}{% if " +
        std::string(expression) + " %}{% endif %}{% endfor %}";
    EXPECT_NE(error_of(source, small).find("too many steps"), std::string::npos) << expression;
  }
}

TEST(ChatLimits, SearchesAndLookupsAreLinear) {
  for (const char* source :
       {"{{ ('a' * 400000).find('a' * 200000 ~ 'b') }}", "{{ ('a' * 400000).rfind('b' ~ 'a' * 200000) }}",
        "{{ ('a' * 200000 ~ 'b') in 'a' * 400000 }}", "{{ ('a' * 400000).count('a' * 200000 ~ 'b') }}",
        "{{ ('a' * 400000).split('a' * 200000 ~ 'b') | length }}",
        "{{ ('a' * 400000).replace('a' * 9999 ~ 'b', '') | length }}", "{{ ('ab' * 100000).rsplit('ab') | length }}",
        "{{ ('-' * 100000) | wordwrap(10) | length }}", "{{ ('a' * 400000).strip('bcdefghijk' * 40000 ~ 'a') }}"})
    EXPECT_EQ(error_of(source, {.steps = 2'000'000}), "") << source;
  // 20,000 names: of variables, attributes of a namespace, keys and arguments.
  std::string sets, keys, named, parameters;
  for (int i = 0; i < 20'000; ++i) {
    const std::string n = std::to_string(i);
    sets += "{% set a" + n + "=1 %}";
    keys += "'a" + n + "':1,";
    named += (i ? ",a" : "a") + n + "=1";
    parameters += (i ? ",a" : "a") + n;
  }
  const std::string loop = "{% for i in range(20000) %}{% if ", end = " %}{% endif %}{% endfor %}";
  for (const std::string& source :
       {sets + loop + "a19999" + end, "{% set n = namespace(" + named + ") %}" + loop + "n.a19999" + end,
        "{% set d = {" + keys + "} %}" + loop + "d.a19999" + end, "{{ dict(" + named + ")|length }}",
        "{% macro f(" + parameters + ") %}{{ a19999 }}{% endmacro %}{{ f(" + named + ") }}"})
    EXPECT_EQ(error_of(source, {.steps = 2'000'000}), "") << source.substr(0, 40);
}

// A template may look at every message for every message.
TEST(ChatLimits, GrowWithTheConversation) {
  ChatInput in;
  for (int i = 0; i < 300; ++i) in.messages.push_back({{"role", "user"}, {"content", "hi"}});
  const ChatTemplate chat(
      "{% for m in messages %}{% set n = namespace(k=0) %}{% for o in messages %}{% if o.role == m.role %}"
      "{% set n.k = n.k + 1 %}{% endif %}{% endfor %}{{ n.k }}{% endfor %}",
      "t", {.steps = 1000, .steps_per_value = 5000});
  EXPECT_EQ(chat.render(in).text.size(), 900u);
  in.messages.erase(in.messages.begin() + 1, in.messages.end());
  EXPECT_EQ(chat.render(in).text, "1");
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
  EXPECT_NE(error_of("{% include 'x' %}").find("'include' needs another template"), std::string::npos);
  EXPECT_NE(error_of("{{ ''.__class__.__mro__ }}").find("undefined"), std::string::npos);
  EXPECT_NE(error_of("{{ messages.sort() }}").find("may not"), std::string::npos);
}

TEST(ChatTemplates, OneForToolsOfAFile) {
  const testing::Folder folder;
  const auto file = [&](const std::map<std::string, std::string>& templates) {
    gguf::Writer writer("llama");
    for (const auto& [key, source] : templates) writer.set("tokenizer.chat_template" + key, source);
    writer.finish(folder.path("m.gguf"));
    return gguf::File::open(folder.path("m.gguf"));
  };
  const ChatInput plain{.messages = {{{"role", "user"}, {"content", "hi"}}}};
  ChatInput tools = plain;
  tools.tools = {{{"type", "function"}}};
  const auto both =
      load_chat_template(file({{"", "usual {{ tools }}"}, {".tool_use", "tools"}, {".rag", "{% broken"}}));
  EXPECT_EQ(both->render(plain).text, "usual None");
  EXPECT_EQ(both->render(tools).text, "tools");
  EXPECT_EQ(both->one(true).source(), "tools");
  EXPECT_EQ(both->one(true).render(plain).text, "tools");
  EXPECT_EQ(both->one(false).render(tools).text, "usual [{'type': 'function'}]");
  EXPECT_EQ(both->source(), "usual {{ tools }}");
  EXPECT_EQ(load_chat_template(file({{".tool_use", "tools"}}))->render(plain).text, "tools");
  EXPECT_EQ(load_chat_template(file({{".default", "usual"}}))->render(plain).text, "usual");
  EXPECT_FALSE(load_chat_template(file({{".rag", "{% broken"}})));
  EXPECT_FALSE(load_chat_template(file({{"s", "no template"}})));
  EXPECT_EQ(chat_template_sources(file({{"", "a"}, {".rag", "b"}})),
            (std::map<std::string, std::string>{{"default", "a"}, {"rag", "b"}}));
}

TEST(ChatErrors, WhatIsNoConversation) {
  const ChatTemplate chat("{{ messages }}");
  EXPECT_THROW(chat.render({.messages = "hi"}), Error);
  EXPECT_THROW(chat.render({.messages = {"hi"}}), Error);
}

}  // namespace
}  // namespace toy::limits_test
