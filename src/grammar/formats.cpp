#include "grammar/formats.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "grammar/regex.h"

namespace toy::grammar {
namespace {

using std::string;

string group(const string& s) { return "(?:" + s + ")"; }
string whole(const string& s) { return "^(?:" + s + ")$"; }

// RFC 3339, 5.6 and appendix C: 29 February in leap years only.
string date() {
  const string leap = "[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
         "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         group(leap) + "-02-29)";
}

const string kFraction = "(?:\\.[0-9]+)?";
string clock(const string& seconds) {
  return "(?:[01][0-9]|2[0-3]):[0-5][0-9]:" + seconds + kFraction + "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
}

// RFC 3339, 5.6. A leap second is the last of a day in UTC, so what may be its local time depends on the offset: it is
// of the same day in the west, and of the next one in the east.
string leap_seconds(bool next_day) {
  string result;
  for (int hour = 0; hour < 24; ++hour) {
    string minutes;
    for (const int minute : {14, 29, 44, 59}) {
      const int east = (hour * 60 + minute + 1) % 1440, offset = next_day ? east : 1440 - east;
      if (east == 0 && next_day) continue;
      const string zone = east == 0 ? "(?:[Zz]|[+-]00:00)"
                                    : fmt::format("{}{:02}:{:02}", next_day ? "\\+" : "-", offset / 60, offset % 60);
      minutes += fmt::format("{}{:02}:60{}{}", minutes.empty() ? "" : "|", minute, kFraction, zone);
    }
    result += fmt::format("{}{:02}:(?:{})", hour > 0 ? "|" : "", hour, minutes);
  }
  return group(result);
}
string time() { return group(clock("[0-5][0-9]") + "|" + leap_seconds(false) + "|" + leap_seconds(true)); }
// RFC 3339, 5.7: leap seconds are at the end of June and of December.
string date_time() {
  return group(date() + "[Tt]" + clock("[0-5][0-9]") + "|[0-9]{4}-(?:06-30|12-31)[Tt]" + leap_seconds(false) +
               "|[0-9]{4}-(?:07-01|01-01)[Tt]" + leap_seconds(true));
}

// RFC 3339, appendix A.
string duration() {
  const string n = "[0-9]+", second = n + "S", minute = n + "M(?:" + second + ")?", hour = n + "H(?:" + minute + ")?";
  const string clock = "T(?:" + hour + "|" + minute + "|" + second + ")";
  const string day = n + "D", month = n + "M(?:" + day + ")?", year = n + "Y(?:" + month + ")?";
  return "P(?:(?:" + day + "|" + month + "|" + year + ")(?:" + clock + ")?|" + clock + "|" + n + "W)";
}

const string kHex = "[0-9A-Fa-f]";
string ipv4() {
  const string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return octet + "(?:\\." + octet + "){3}";
}

// RFC 4291, 2.2, as RFC 3986 spells it out.
string ipv6() {
  const string h = kHex + "{1,4}", hc = group(h + ":"), last = group(h + ":" + h + "|" + ipv4());
  string result = hc + "{6}" + last;
  for (int before = 0; before <= 7; ++before) {  // groups in front of ::
    const string begin = before == 0 ? "::" : h + group(":" + h) + fmt::format("{{{}}}", before - 1) + "::";
    // Together with `after` groups, at most seven, of which the last two may be an address of IPv4.
    string after = h;
    for (int n = 2; n <= 7 - before; ++n) after += "|" + hc + fmt::format("{{{}}}", n - 2) + last;
    result += "|" + begin + (before == 7 ? "" : group(after) + "?");
  }
  return group(result);
}

// RFC 1123, 2.1: 63 characters. "--" in the third and fourth place is left to names in punycode, whose validity is
// another matter (RFC 5891), so there are none.
string label() {
  const string a = "[A-Za-z0-9]", x = "[A-Za-z0-9-]";
  return a + group(a + "|" + x + a + "|" + x + "{2}" + a + "|" + x + group(a + x + "|-" + a) + x + "{0,58}" + a) + "?";
}
// Letters of scripts that are written from left to right and need no context (RFC 5892), so few that the label in
// punycode is short enough.
string international_label() {
  const string u =
      "a-z0-9\\u00DF-\\u00F6\\u00F8-\\u00FF\\u03AC-\\u03CE\\u0430-\\u045F\\u3041-\\u3096\\u30A1-\\u30FA\\u4E00-\\u9FA5"
      "\\uAC00-\\uD7A3";
  return group(label() + "|[" + u + "]{1,12}");
}
string hostname(const string& label) { return label + group("\\." + label) + "*"; }

// RFC 5321, 4.1.2: at most 64 characters in front of the @. `more`: further characters (RFC 6531).
string mailbox(const string& domain_label, const string& more) {
  const string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + more + "-]";
  const string quoted = "(?:[ !#-\\[\\]-~" + more + "]|\\\\[ -~])";
  return "(?:" + atom + "+(?:\\." + atom + "+)*|\"" + quoted + "*\")@(?:" + hostname(domain_label) + "|\\[" + ipv4() +
         "\\]|\\[IPv6:" + ipv6() + "\\])";
}

// RFC 3986, appendix A; with `iri` RFC 3987.
struct Uri {
  string more, more_query;
  explicit Uri(bool iri) {
    if (!iri) return;
    more = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";
    for (int plane = 1; plane <= 14; ++plane)
      more += fmt::format("\\u{{{:X}}}-\\u{{{:X}}}", plane << 16 | (plane == 14 ? 0x1000 : 0), plane << 16 | 0xFFFD);
    more_query = "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";
  }
  string percent = "%" + kHex + "{2}";
  string of(const string& set) const { return "(?:[A-Za-z0-9._~!$&'()*+,;=" + more + set + "-]|" + percent + ")"; }
  string authority() const {
    const string literal = "\\[(?:" + ipv6() + "|[vV]" + kHex + "+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]";
    return "//(?:" + of(":") + "*@)?(?:" + literal + "|" + of("") + "*)(?::[0-9]*)?" + segments();
  }
  string segments() const { return "(?:/" + of(":@") + "*)*"; }
  string absolute() const { return "/(?:" + of(":@") + "+" + segments() + ")?"; }
  string tail() const { return "(?:\\?(?:" + of(":@/?" + more_query) + ")*)?(?:#(?:" + of(":@/?") + ")*)?"; }
  string full() const {
    return "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority() + "|" + absolute() + "|" + of(":@") + "+" + segments() + ")?" +
           tail();
  }
  string reference() const {
    return "(?:" + full() + "|(?:" + authority() + "|" + absolute() + "|" + of("@") + "+" + segments() + ")?" + tail() +
           ")";
  }
};

// RFC 6570, 2, with erratum 6937: ' is a literal.
string uri_template() {
  const Uri iri(true);
  const string literal = "(?:[!#$&-;=?-\\[\\]_a-z~" + iri.more + iri.more_query + "]|" + iri.percent + ")";
  const string character = "(?:[A-Za-z0-9_]|" + iri.percent + ")";
  const string variable = character + "(?:\\.?" + character + ")*(?::[1-9][0-9]{0,3}|\\*)?";
  return "(?:" + literal + "|\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\})*";
}

// Regular expressions that ECMAScript knows; groups in up to two others.
string regex() {
  const string escape = "\\\\[dDwWsStnrfv0^$\\\\.*+?()\\[\\]{}|/]|\\\\x" + kHex + "{2}|\\\\u" + kHex + "{4}";
  const string member = "a-z|A-Z|0-9|[^\\\\\\]\\[^\\-\\u0000-\\u001F]|" + escape + "|\\\\-";
  const string plain = "[^\\^$\\\\.*+?()\\[\\]{}|/\\u0000-\\u001F]|\\.|" + escape + "|\\[\\^?(?:" + member + ")+\\]";
  const string times =
      "(?:(?:[*+?]|\\{[0-9]{1,3},?\\})\\?"
      "?)?";
  string result = "(?:(?:" + plain + ")" + times + "|\\^|\\$|\\\\[bB]|\\|)*";
  for (int depth = 0; depth < 2; ++depth)
    result = "(?:(?:" + plain + "|\\((?:\\?:)?" + result + "\\))" + times + "|\\^|\\$|\\\\[bB]|\\|)*";
  return result;
}

const string kPointer = "(?:/(?:[^~/]|~[01])*)*";  // RFC 6901, 3

using Patterns = std::map<string, string, std::less<>>;
const Patterns& patterns() {
  static const Patterns kPatterns = [] {
    return Patterns{
        {"date", date()},
        {"time", time()},
        {"date-time", date_time()},
        {"duration", duration()},
        {"uuid", kHex + "{8}(?:-" + kHex + "{4}){3}-" + kHex + "{12}"},
        {"email", mailbox("[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", "")},
        {"idn-email", mailbox(international_label(), "\\u00A0-\\uD7FF\\uF900-\\uFDCF")},
        {"hostname", hostname(label())},
        {"idn-hostname", hostname(international_label())},
        {"ipv4", ipv4()},
        {"ipv6", ipv6()},
        {"uri", Uri(false).full()},
        {"uri-reference", Uri(false).reference()},
        {"iri", Uri(true).full()},
        {"iri-reference", Uri(true).reference()},
        {"uri-template", uri_template()},
        {"json-pointer", kPointer},
        {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + kPointer + ")"},
        {"regex", regex()},
    };
  }();
  return kPatterns;
}

// Formats of which not all is written, or whose standards can be read in several ways: what is certainly outside of
// these is outside of the format. They are simple, since their opposites are needed.
const Patterns& wide_patterns() {
  static const Patterns kPatterns = [] {
    const string label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", scheme = "[A-Za-z][A-Za-z0-9+.-]*:";
    const string wide_clock = clock("(?:[0-5][0-9]|60)"), visible = "[^\\u0000- ]*";
    return Patterns{
        {"time", wide_clock},
        {"date-time", date() + "[Tt ]" + wide_clock},
        {"duration", "[Pp][0-9A-Za-z]+"},
        {"email", "[ -~]+@[ -~]+"},
        {"idn-email", "[^]+@[^]+"},
        {"hostname", hostname(label) + "\\.?"},
        {"idn-hostname", "(?:[A-Za-z0-9.-]|[^\\u0000-\\u007F])+"},
        {"ipv4", "[0-9]{1,3}(?:\\.[0-9]{1,3}){3}"},
        {"ipv6", "[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"},
        {"uri", scheme + "[!-~]*"},
        {"uri-reference", "[!-~]*"},
        {"iri", scheme + visible},
        {"iri-reference", visible},
        {"uri-template", visible},
        {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:[+-][0-9]+)?(?:#|" + kPointer + ")"},
        {"regex", "(?:[^*+?)][^]*)?"},
    };
  }();
  return kPatterns;
}

}  // namespace

std::optional<FormatTexts> format_texts(std::string_view format, const Payer& payer) {
  const auto found = patterns().find(format);
  if (found == patterns().end()) return std::nullopt;
  FormatTexts result{regex_automaton(whole(found->second), payer)};
  if (format == "hostname" || format == "idn-hostname") result.most = 253;
  if (format.ends_with("email")) {
    constexpr const char* kLocalPart = "^(?:[^@\"]{1,64}@|\"(?:[^\"\\\\]|\\\\.){0,31}\"@)";
    result.most = 254;
    result.automaton = intersection(result.automaton, regex_automaton(kLocalPart, payer), payer);
  }
  return result;
}

std::optional<CharAutomaton> wide_format_texts(std::string_view format, const Payer& payer) {
  const auto found = wide_patterns().find(format);
  if (found == wide_patterns().end()) return std::nullopt;
  return regex_automaton(whole(found->second), payer);
}

}  // namespace toy::grammar
