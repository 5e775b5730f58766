// Options as data: limits, numbers in texts, lists with brackets.
#include "toy/base/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <cmath>
#include <map>

namespace toy {

enum class Colour { red, dark_blue };
template <>
struct NamesOf<Colour> {
  static constexpr std::array list = {std::pair("red", Colour::red), std::pair("dark-blue", Colour::dark_blue)};
};

namespace {

struct Paint {
  double gloss = 0.5;
  int64_t coats = 2;
  bool wet = false;
  Colour colour = Colour::red;
  std::string name;
  static void fields(auto& o, auto&& f) {
    f({"gloss", "Share of light", from_to_below(0, 1), "Looks", "varnish oil", "", "--gloss,--gl"}, o.gloss);
    f({"coats", "How many", from_to(1, 9), "", "varnish", "n"}, o.coats);
    f({"wet", "Dries", Limits(), "", "oil"}, o.wet);
    f({"colour", "Look", Limits(), "", "oil"}, o.colour);
    f({"name", "Name", Limits(), "Looks"}, o.name);
  }
};

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(Limits, HoldAndTell) {
  EXPECT_EQ(Limits().text(), "");
  EXPECT_EQ(at_least(-1).text(), "-1 or more");
  EXPECT_EQ(above(0).text(), "a number above 0");
  EXPECT_EQ(from_to(0, 1).text(), "0 to 1");
  EXPECT_EQ(above_to(0, 1).text(), "above 0 to 1");
  EXPECT_EQ(from_to_below(0, 1).text(), "0 to below 1");
  EXPECT_EQ(from_to_or_0(2, 3).text(), "2 to 3, or 0");
  EXPECT_TRUE(from_to(0, 1).hold(0) && from_to(0, 1).hold(1) && from_to_or_0(2, 3).hold(0) && above(0).hold(1e300));
  EXPECT_FALSE(above_to(0, 1).hold(0) || from_to_below(0, 1).hold(1) || at_least(0).hold(-0.1) || above(0).hold(0) ||
               from_to_or_0(2, 3).hold(1));
  EXPECT_FALSE(Limits().hold(NAN) || Limits().hold(INFINITY) || at_least(0).hold(INFINITY));
}

TEST(Options, NumbersInTexts) {
  int64_t n = 7;
  EXPECT_EQ(read_number("010", from_to(0, 99), n), "");
  EXPECT_EQ(n, 10);
  EXPECT_EQ(read_number("100", from_to(0, 99), n), "is 100; use 0 to 99");
  EXPECT_EQ(read_number("99999999999999999999", from_to(0, 99), n), "is 99999999999999999999; use 0 to 99");
  EXPECT_EQ(read_number("99999999999999999999", at_least(1), n),
            "is 99999999999999999999; use 1 to 9223372036854775807");
  for (const char* text : {"", "-", "1.5", "0x10", "true", " 1", "1 "})
    EXPECT_EQ(read_number(text, {}, n), "is '" + std::string(text) + "'; use a whole number");
  for (const auto& [text, meant] : std::map<std::string, std::string>{
           {"2M", "2000000"}, {"1k", "1000"}, {"1e3", "1000"}, {"1_000", "1000"}, {"1,000", "1000"}, {"16.0", "16"}})
    EXPECT_EQ(read_number(text, {}, n), "is '" + text + "'; use a whole number, such as " + meant);
  uint64_t u = 0;
  EXPECT_EQ(read_number("-1", {}, u), "is -1; use 0 to 18446744073709551615");
  EXPECT_EQ(read_number("18446744073709551615", {}, u), "");
  EXPECT_EQ(u, UINT64_MAX);
  double x = 0;
  EXPECT_EQ(read_number("1e-3", above(0), x), "");
  EXPECT_EQ(x, 1e-3);
  for (const char* text : {"", "nan", "inf", "1e999", "x"})
    EXPECT_EQ(read_number(text, {}, x), "is '" + std::string(text) + "'; use a finite number such as 0.1 or 1e-3");
  EXPECT_EQ(read_number("1,5", {}, x), "is '1,5'; use a finite number such as 1.5");
  EXPECT_EQ(read_number("75%", {}, x), "is '75%'; use a number without %, such as 0.75");
  EXPECT_EQ(read_number("20", from_to_below(0, 1), x), "is 20; use 0 to below 1, such as 0.2 for 20%");
  EXPECT_EQ(read_number("100", from_to_below(0, 1), x), "is 100; use 0 to below 1");
  EXPECT_EQ(read_number("20", from_to(0, 2), x), "is 20; use 0 to 2");
  EXPECT_EQ(read_number("0", above(0), x), "is 0; use a number above 0");
  EXPECT_EQ(n, 10);
  EXPECT_EQ(x, 1e-3);
}

TEST(Options, AreChecked) {
  check_limits(Paint());
  EXPECT_EQ(message_of([] { check_limits(Paint{.gloss = 1}); }), "gloss is 1; use 0 to below 1");
  EXPECT_EQ(message_of([] { check_limits(Paint{.coats = 0}); }), "coats is 0; use 1 to 9");
  EXPECT_EQ(message_of([] { check_limits(Paint{.gloss = NAN}); }), "gloss is nan; use 0 to below 1");
}

TEST(Options, StandInBrackets) {
  const auto set = [](const std::string& text) {
    Paint p;
    for (const ListedWord& w : read_list("--paint", text, {.between = ';', .words = {"varnish", "oil", "gloss"}}))
      set_listed(p, w, "--paint");
    return p;
  };
  const Paint p = set(" oil( gloss = 0.25 ,wet=true, colour=dark-blue ) ; varnish(n=3)");
  EXPECT_EQ(p.gloss, 0.25);
  EXPECT_EQ(p.coats, 3);
  EXPECT_TRUE(p.wet);
  EXPECT_EQ(p.colour, Colour::dark_blue);
  EXPECT_EQ(listed_text(p, "oil"), "oil(gloss=0.25, wet=true, colour=dark-blue)");
  EXPECT_EQ(listed_text(p, "varnish"), "varnish(gloss=0.25, n=3)");
  EXPECT_EQ(listed_text(p, "water"), "water");
  const auto refusal = [&](const std::string& text) { return message_of([&] { set(text); }); };
  EXPECT_EQ(
      refusal("oil(glos=1)"),
      "--paint: oil has no 'glos' (did you mean 'gloss'?); it has gloss (0 to below 1), wet (true or false), colour "
      "(red or dark-blue)");
  EXPECT_EQ(refusal("gloss(x=1)"), "--paint: gloss has no 'x'; it has no settings");
  EXPECT_EQ(refusal("varnish(0.5)"),
            "--paint: varnish takes no value without a name; it has gloss (0 to below 1), n (1 to 9)");
  EXPECT_EQ(refusal("varnish(n=0)"), "--paint: varnish's n is 0; use 1 to 9");
  EXPECT_EQ(refusal("oil(wet=1)"), "--paint: oil's wet is '1'; use true or false");
  EXPECT_EQ(refusal("oil(colour=pink)"), "--paint: oil's colour is 'pink'; use red or dark-blue");
  EXPECT_EQ(refusal("oil;"), "--paint 'oil;': expected one of varnish, oil, gloss at character 5");
  EXPECT_EQ(refusal("oil(wet=true"), "--paint 'oil(wet=true': expected ')' at character 13");
  EXPECT_EQ(refusal("oil*2"), "--paint 'oil*2': expected ';' or the end at character 4");
}

}  // namespace
}  // namespace toy
