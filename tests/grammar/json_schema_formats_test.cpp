// Formats and lengths of JSON Schema: texts that the standards allow and forbid.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy::json_schema_formats_test {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

void expect(const Json& schema, const Texts& in, const Texts& out) {
  const Grammar g = json_schema_grammar(schema);
  const auto quoted = [](const std::string& t) { return Json(t).dump(); };
  for (const std::string& t : in) EXPECT_TRUE(g.matches(quoted(t))) << schema << "\n" << t;
  for (const std::string& t : out) EXPECT_FALSE(g.matches(quoted(t))) << schema << "\n" << t;
}
void format(const char* name, const Texts& in, const Texts& out) {
  expect({{"type", "string"}, {"format", name}}, in, out);
}

// Texts that a standard allows, though they are not written. So they are not of the opposite either.
void unwritten(const char* name, const Texts& texts) {
  format(name, {}, texts);
  expect({{"type", "string"}, {"not", {{"format", name}}}}, {}, texts);
}

std::string times(size_t n, const std::string& s) {
  std::string result;
  while (n-- > 0) result += s;
  return result;
}

TEST(JsonSchemaFormats, DatesAndTimes) {
  format("date",
         {"0000-01-01", "0000-02-29", "0004-02-29", "1600-02-29", "2000-02-29", "2024-02-29", "2023-02-28",
          "1999-12-31", "9999-12-31", "2024-04-30"},
         {"2023-02-29", "1900-02-29", "2100-02-29", "2024-02-30", "2024-04-31", "2024-13-01", "2024-00-10",
          "2024-01-00", "2024-01-32", "24-01-01", "2024-1-1", "2024-01-01Z", "10000-01-01", ""});
  format("time",
         {"00:00:00Z", "23:59:59z", "12:00:00.5Z", "12:00:00.123456789+05:30", "23:59:60Z", "23:59:60.9z",
          "01:29:60+01:30", "15:59:60-08:00", "00:59:60+01:00", "23:29:60+23:30"},
         {"24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:60Z", "22:59:60Z", "23:59:60+01:00", "12:00:00", "12:00Z",
          "12:00:00.Z", "12:00:00+24:00", "12:00:00+0100", "1:00:00Z"});
  format("date-time",
         {"2024-02-29T23:59:59Z", "1963-06-19t08:30:06.283185z", "1998-12-31T23:59:60Z",
          "1998-12-31T15:59:60.123-08:00", "1990-12-31T16:39:57-08:00", "1972-07-01T01:29:60+01:30",
          "2017-01-01T08:59:60+09:00", "1972-06-30T23:59:60-00:00"},
         {"2023-02-29T00:00:00Z", "2024-02-10T23:59:60Z", "2016-12-31T00:59:60+01:00", "2017-01-01T15:59:60-08:00",
          "2017-01-01T23:59:60+00:00", "2024-02-28", "2024-02-28 00:00:00Z", "2024-02-28T24:00:00Z",
          "1998-12-31T23:58:60Z", "2024-02-28T00:00:00"});
  format("duration",
         {"P1D", "PT1H30M", "P1Y2M3DT4H5M6S", "P4W", "PT0S", "P2Y", "P1Y2M", "P3M4D", "PT36H", "P1DT12H", "PT5M6S",
          "P100Y"},
         {"P", "PT", "P1", "1D", "P1D2H", "PT1D", "P2D1Y", "P1Y2D", "PT1H6S", "P1W1D", "P1.5D", "p1d", "P1YT"});
}

TEST(JsonSchemaFormats, Names) {
  format("uuid",
         {"123e4567-e89b-12d3-a456-426614174000", "2EB8AA08-AA98-11EA-B4AA-73B441D16380",
          "00000000-0000-0000-0000-000000000000"},
         {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
          "g23e4567-e89b-12d3-a456-426614174000", "{123e4567-e89b-12d3-a456-426614174000}"});
  const std::string label(63, 'a'), longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  format("hostname",
         {"a", "example.com", "EXAMPLE.com", "3com.net", "a-b.c-d", "a.b.c.d.e.f.g.h", label + ".org", longest},
         {"", "-a", "a-", "a..b", ".a", "a_b", "a b", label + "a.org", longest + "b", "xn--X", "xn--hello-txk",
          "example.", "caf\u00e9"});
  unwritten("hostname", {"ab--cd", "xn--9n2bp8q.xn--9t4b11yi5a", "xn--nxasmq6b"});
  format("idn-hostname", {"example.com", "stra\u00dfe.de", "\uc2e4\ub840.\ud14c\uc2a4\ud2b8"},
         {"-a", "a..b", "\u3002", "\u302e\uc2e4"});
  unwritten("idn-hostname", {"\u05d0\u05d1", times(14, "\u0430"), "xn--nxasmq6b", "\u4f8b\u3002\u5b50"});
  format("email",
         {"a@b", "a.b@c.de", "joe.o'neil+tag@example.org", "first.middle.last.jr@a.b.c.d", "~x!#$%&'*/=?^_`{|}@y.z",
          "\"joe bloggs\"@example.com", "\"a@b\"@c.d", "joe@[127.0.0.1]", "joe@[IPv6:::1]",
          std::string(64, 'x') + "@" + label + ".org"},
         {"", "a", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a b@c", "a@b_c", "a@-b", "a@b.", "joe@[127.0.0.300]",
          std::string(65, 'x') + "@y.org", "a@" + times(4, label + ".") + "org", "caf\u00e9@b.de"});
  unwritten("email", {"\"" + std::string(40, 'a') + "\"@b.c", "a@[tag:x]"});
  unwritten("idn-email", {"a@\u05d0\u05d1.org"});
  format("idn-email", {"caf\u00e9@b.de", "\u7528\u6237@\u4f8b\u5b50.com", "a@b.c"}, {"a", "@b"});
}

TEST(JsonSchemaFormats, Addresses) {
  format("ipv4", {"0.0.0.0", "255.255.255.255", "192.168.0.1"},
         {"256.0.0.0", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.", "0x7f.0.0.1"});
  format("ipv6",
         {"::", "::1", "1::", "2001:db8::1", "2001:DB8:0:0:8:800:200C:417A", "FF01::101", "::ffff:192.168.0.1",
          "::13.1.68.3", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8", "1:2:3:4:5:6:1.2.3.4",
          "64:ff9b::192.0.2.33", "1:2::6:7:8"},
         {":", ":::", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::1.2.3",
          "1:2:3:4:5:6:7:1.2.3.4", "::g", "fe80::a%eth1", "::1/64", "1:2:3:4:5:6:7:8::"});
  const Texts uris{"http://localhost:8080/wiki/Llama_(animal)#top",
                   "https://en.wikipedia.org/wiki/Llama_(language_model)",
                   "https://github.com/a/b?x=1&y=%20z+w#readme",
                   "http://192.168.0.1:8000/",
                   "http://[2001:db8::7]:80/a",
                   "ftp://user:pass@ftp.is.co.za/rfc/rfc1808.txt",
                   "ldap://[2001:db8::7]/c=GB?objectClass?one",
                   "mailto:John.Doe@example.com",
                   "news:comp.infosystems.www.servers.unix",
                   "tel:+1-816-555-1212",
                   "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
                   "file:///etc/hosts",
                   "data:text/plain,hi",
                   "http://a/" + std::string(200, 'x') + "?" + std::string(200, 'q')};
  const Texts references{"", "#top", "?q", "/a/b", "//host/a", "../a:b", "a/b;c=1", "./a:b"};
  format(
      "uri", uris,
      {"", "#top", "/a", "//host", "a b:c", "http:// a", "http://a/%2", "http://a/\"", "http://a/<b>", "http://a/\\b",
       "1http://a", "http://[::1", "http://a:b/", "http://[a@b]/", "http://a/\u00e9", "bar,baz:foo", "http://a#b#c"});
  format("uri-reference", uris, {"a b", "%zz", "\\\\share\\file", "#a#b", "a:b c", "\u00e9"});
  format("uri-reference", references, {":a"});
  format("iri", {"http://\u00e9\u00e8.example/\u4f8b?\u00df#\u0444", "http://a/b"}, {"", "http://a b", "/\u00e9"});
  format("iri-reference", {"/\u00e9", "#\u00df", ""}, {"\\\\a", "a b"});
  unwritten("uri", {"http://[fe80::1%25en1]/"});
  format("uri-template", {"a'b", "http://x/{a}/{b,c}", "{+path:3}{?q*,r}", "", "a{#b.c}"},
         {"{", "}", "{}", "http://x/{a", "{a b}", "{a:0}", "a b"});
}

TEST(JsonSchemaFormats, Pointers) {
  format("json-pointer", {"", "/", "/a", "/a/0/b c", "/a~0b~1c", "/\u00e9"}, {"a", "#/a", "/a~", "/a~2", "0/a"});
  format("relative-json-pointer", {"0", "1/a", "0#", "12/x~1y", "2/"}, {"", "/a", "01/a", "0##", "-1/a", "+1/a", "1a"});
  unwritten("regex", {"(?=a)b", "(((((a)))))", "(a)\\1", "(?<n>a)", "\\p{L}", "(?<=a)b"});
  format("regex", {"^a+$", "(ab|c)*", "[a-z]{2,}\\d", "", "x(?:y(z))"}, {"^(a", "[a", "*", "a)", "\\Z"});
}

// What the opposite of a format has is certainly invalid, whatever way the opposite is needed in.
TEST(JsonSchemaFormats, Opposites) {
  const auto opposite = [](const char* name, const Texts& invalid, const Texts& valid) {
    const Json schema{{"type", "string"}, {"format", name}};
    expect({{"type", "string"}, {"not", {{"format", name}}}}, invalid, valid);
    expect({{"type", "string"}, {"not", {{"anyOf", {schema, {{"maxLength", 0}}}}}}}, {}, valid);
    expect({{"oneOf", {schema, {{"type", "string"}, {"maxLength", 1000}}}}}, {}, valid);
    for (const Texts* list : {&valid, &invalid})
      for (const std::string& t : *list) {
        const Json listed{{"enum", {t, "", 1}}, {"if", schema}, {"then", {{"type", "string"}, {"maxLength", 0}}}};
        const Grammar g = json_schema_grammar(listed);
        EXPECT_EQ(g.matches(Json(t).dump()), list == &invalid && !t.empty()) << name << t;
      }
  };
  opposite("date", {"2023-02-29", "x"}, {"2024-02-29"});
  opposite("time", {"12:00:00", "24:00:00Z", "12:00:61Z"}, {"12:00:00Z", "11:31:60+11:32", "23:59:60Z"});
  opposite("date-time", {"2024-02-28", "2023-02-29T00:00:00Z"},
           {"2024-02-29T12:00:00z", "1990-12-31T23:59:60Z", "1991-01-01T11:31:60+11:32"});
  opposite("duration", {"1D", "P-1D"}, {"P1D", "PT1H"});
  opposite("uuid", {"123e4567"}, {"123e4567-e89b-12d3-a456-426614174000"});
  opposite("hostname", {"a b", "-a", "a_b", "caf\u00e9"}, {"a.b", "xn--nxasmq6b", "ab--cd"});
  opposite("idn-hostname", {"a b", "a@b"}, {"a.b", "\u05d0\u05d1", times(14, "\u0430")});
  opposite("email", {"x", "@b", "caf\u00e9@b.de"}, {"a@b.c", "\"" + std::string(40, 'a') + "\"@b.c", "a@[t:x]"});
  opposite("idn-email", {"x", "@b"}, {"a@b.c", "caf\u00e9@\u05d0\u05d1"});
  opposite("ipv4", {"1.2.3", "x"}, {"1.2.3.4"});
  opposite("ipv6", {"x", "1"}, {"::1", "::1.2.3.4"});
  opposite("uri", {"//a", "a b:c"}, {"http://a", "http://[fe80::1%25en1]/", "a:"});
  opposite("uri-reference", {"a b", "\u00e9"}, {"#top", "http://a"});
  opposite("iri", {"/a", "http://a b"}, {"http://\u00e9", "a:"});
  opposite("iri-reference", {"a b"}, {"/\u00e9", "a:"});
  opposite("uri-template", {"a b"}, {"{a}", "a'b"});
  opposite("json-pointer", {"a", "/a~"}, {"/a/b"});
  opposite("relative-json-pointer", {"/a", "01"}, {"0", "1/a", "0+1#"});
  opposite("regex", {"*a", ")"}, {"a+", "(?=a)b", "(((a)))"});
  // Texts that only what is written has not in common.
  expect({{"oneOf", {{{"type", "string"}, {"pattern", "^xn--"}}, {{"type", "string"}, {"format", "hostname"}}}}},
         {"a.b", "xn--a b"}, {"xn--nxasmq6b"});
}

// In code points, beside a format and a pattern.
TEST(JsonSchemaFormats, LengthsAreCounted) {
  const Json url{{"type", "string"}, {"format", "uri"}, {"minLength", 1}, {"maxLength", 2083}};
  expect(url, {"a:", "http://a/" + std::string(2074, 'x')}, {"", "http://a/" + std::string(2075, 'x')});
  expect({{"type", "string"}, {"maxLength", 100'000}, {"minLength", 3}}, {"abc", std::string(100'000, 'x')},
         {"ab", std::string(100'001, 'x')});
  expect({{"type", "string"}, {"minLength", 2}, {"maxLength", 3}},
         {"\u00e9\u00e9", "\U0001F600\U0001F600\U0001F600", "\"\\", "a\n\t", "\u0001\u0002"}, {"\u00e9", "aaaa", "\n"});
  expect({{"pattern", "^(ab)+$"}, {"minLength", 3}, {"maxLength", 6}}, {"abab", "ababab"}, {"ab", "aba", "abababab"});
  expect({{"pattern", "^(abc|de)+$"}, {"maxLength", 1000}, {"minLength", 7}}, {"abcdede", "dededede"},
         {"abcabc", "abcabca", times(334, "abc")});
  expect({{"format", "hostname"}, {"minLength", 64}, {"maxLength", 70}}, {std::string(63, 'a') + ".b"},
         {std::string(64, 'a'), "a.b"});
  EXPECT_THROW(json_schema_grammar({{"type", "string"}, {"pattern", "^(abc)+$"}, {"minLength", 4}, {"maxLength", 5}}),
               Error);
}

// Nothing is written that cannot be completed within the lengths.
TEST(JsonSchemaFormats, LengthsLeaveNoDeadEnd) {
  for (const Json& schema :
       {Json{{"type", "string"}, {"pattern", "^(abc|[a-c]{2}x)+$"}, {"minLength", 5}, {"maxLength", 12}},
        Json{{"type", "string"}, {"format", "email"}, {"minLength", 4}, {"maxLength", 8}},
        Json{{"type", "string"}, {"format", "hostname"}, {"maxLength", 5}},
        Json{{"type", "string"}, {"minLength", 2}, {"maxLength", 3}}}) {
    const Grammar g = json_schema_grammar(schema);
    const auto tokens = make_byte_tokenizer();
    const auto begin = g.constraint(TokenTrie(*tokens));
    uint32_t draw = 1;
    for (int n = 0; n < 100; ++n) {
      const auto c = begin->clone();
      std::string text;
      while (!c->finished()) {
        uint64_t mask[4];
        c->mask(mask);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < 256; ++id)
          if (mask[id / 64] >> (id % 64) & 1) allowed.push_back(id);
        ASSERT_FALSE(allowed.empty()) << schema << text;
        draw = draw * 1664525 + 1013904223;
        text += char(allowed[(draw >> 8) % allowed.size()]);
        c->accept(uint8_t(text.back()));
      }
      EXPECT_TRUE(g.matches(text)) << text;
    }
  }
}

TEST(JsonSchemaFormats, Patterns) {
  expect({{"pattern", "\\bfoo\\b"}}, {"foo", "a foo b", "(foo)"}, {"afoo", "foob", "foo_", "fo"});
  expect({{"pattern", "^\\p{Ps}\\p{Open_Punctuation}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}\\p{punct}$"}}, {"([)\u00ab\u00bb!?"},
         {"([]\u00ab\u00bba?"});
  expect({{"pattern", "^[\\p{Zl}\\p{Paragraph_Separator}]\\p{Co}\\p{Private_Use}\\p{Cn}$"}},
         {"\u2028\ue000\uf8ff\u0378", "\u2029\ue000\ue000\U000e0000"}, {"\u2028\ue000\ue000a"});
  expect({{"pattern", "^\\p{LC}\\p{Cased_Letter}\\p{gc=Other}\\p{Any}\\P{ASCII}$"}}, {"aA\u0001x\u00e9"},
         {"\u4f8bA\u0001x\u00e9", "aA\u0001xx"});
  expect({{"pattern", "^\\Boo|x\\B$"}}, {}, {"oo", "x"});
  expect({{"pattern", "^\\p{L}+$"}}, {"abc", "\u00e9\u0416\u4f8b"}, {"", "a1", "a b"});
  expect({{"pattern", "^\\p{Lu}\\P{Lu}\\p{Nd}$"}}, {"\u0416a\u0663"}, {"aa1", "AA1", "Aab"});
  expect({{"pattern", "^(?=.*[A-Z])(?!.*--).{3,}$"}}, {"abC", "Xyz-"}, {"abc", "aB", "A--b"});
  expect({{"pattern", "(^a|b$)|^$"}}, {"", "ax", "xb"}, {"xa", "bx"});
  expect({{"pattern", "^\\S+$"}}, {"caf\u00e9", "\u0001"}, {"a b", "a\u00a0b", ""});
  expect({{"pattern", "^\\D\\W$"}}, {"\u0663\u00e9", "a-"}, {"1-", "aa"});
  expect({{"pattern", "^\\cA\\u{1F600}\\uD83D\\uDE00$"}}, {"\u0001\U0001F600\U0001F600"}, {"A"});
}

}  // namespace
}  // namespace toy::json_schema_formats_test
