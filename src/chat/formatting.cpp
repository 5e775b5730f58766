#include "chat/formatting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "chat/interpreter.h"
#include "chat/py_text.h"
#include "toy/base/utf8.h"

namespace toy::chat {
namespace {

constexpr int64_t kWidest = 1'000'000;
constexpr int kMostDigits = 400;

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

// Digits of a whole number in three or four together.
std::string grouped(const std::string& digits, char separator, size_t together) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % together == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string whole_digits(uint64_t n, char type, bool alternate) {
  switch (type) {
    case 'x':
      return fmt::format("{}{:x}", alternate ? "0x" : "", n);
    case 'X':
      return fmt::format("{}{:X}", alternate ? "0X" : "", n);
    case 'o':
      return fmt::format("{}{:o}", alternate ? "0o" : "", n);
    case 'b':
      return fmt::format("{}{:b}", alternate ? "0b" : "", n);
    default:
      return fmt::format("{}", n);
  }
}

std::string real_digits(double x, const FormatSpec& spec) {
  if (std::isnan(x) || std::isinf(x)) {
    const bool large = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    return std::string(std::isnan(x) ? (large ? "NAN" : "nan") : (large ? "INF" : "inf")) +
           (spec.type == '%' ? "%" : "");
  }
  const int precision = std::min(spec.precision < 0 ? 6 : spec.precision, kMostDigits);
  switch (spec.type) {
    case 'e':
      return spec.alternate ? fmt::format("{:#.{}e}", x, precision) : fmt::format("{:.{}e}", x, precision);
    case 'E':
      return spec.alternate ? fmt::format("{:#.{}E}", x, precision) : fmt::format("{:.{}E}", x, precision);
    case 'f':
    case 'F':
      return spec.alternate ? fmt::format("{:#.{}f}", x, precision) : fmt::format("{:.{}f}", x, precision);
    case '%':
      return fmt::format("{:.{}f}%", x * 100, precision);
    case 'G':
      return spec.alternate ? fmt::format("{:#.{}G}", x, precision) : fmt::format("{:.{}G}", x, precision);
    case 0:
      if (spec.precision < 0) return repr(x);
      break;
    default:
      break;
  }
  std::string out = spec.alternate ? fmt::format("{:#.{}g}", x, precision) : fmt::format("{:.{}g}", x, precision);
  // Without a type it is shown to be a real number.
  if (spec.type == 0 && out.find_first_of(".en") == out.npos) {
    if (int(out.size()) >= std::max(precision, 1))
      out = fmt::format("{:.{}e}", x, std::max(precision - 1, 0));
    else
      out += ".0";
  }
  return out;
}

std::string number(const Value& v, FormatSpec spec, Budget& budget) {
  constexpr std::string_view kReal = "eEfFgG%";
  const bool real = v.real() || kReal.find(spec.type ? spec.type : ' ') != kReal.npos;
  bool negative = false;
  std::string digits;
  if (real) {
    const double x = v.as_real();
    negative = std::signbit(x) && !std::isnan(x);
    digits = real_digits(std::abs(x), spec);
  } else {
    const int64_t n = v.as_integer("the number");
    negative = n < 0;
    if (spec.type == 'c') {
      if (n < 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000)) throw Problem(fmt::format("{} is no character", n));
      return padded(utf8_encode(uint32_t(n)), spec, '<', budget);
    }
    digits = whole_digits(negative ? 0 - uint64_t(n) : uint64_t(n), spec.type, spec.alternate);
    const size_t lead = spec.alternate && digits.size() > 1 && digits[0] == '0' ? 2 : 0;
    const int64_t zeros = spec.digits - int64_t(digits.size() - lead);
    if (zeros > 0) digits.insert(lead, size_t(zeros), '0');
  }
  if (spec.grouping) {
    const size_t start = digits.size() > 1 && digits[0] == '0' && !is_digit_char(digits[1]) && digits[1] != '.' ? 2 : 0;
    const size_t end = real ? std::min(digits.find_first_not_of("0123456789"), digits.size()) : digits.size();
    const bool decimal = real || spec.type == 0 || spec.type == 'd';
    digits = digits.substr(0, start) + grouped(digits.substr(start, end - start), spec.grouping, decimal ? 3 : 4) +
             digits.substr(end);
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') return padded(sign + digits, spec, '>', budget);
  // After the sign, and after 0x.
  size_t lead = 0;
  if (spec.alternate && digits.size() > 1 && digits[0] == '0' && digits[1] != '.') lead = 2;
  FormatSpec inner = spec;
  inner.align = '>';
  inner.width = std::max<int64_t>(0, spec.width - int64_t(sign.size() + lead));
  return sign + digits.substr(0, lead) + padded(digits.substr(lead), inner, '>', budget);
}

// Digits from `at` on, as a number.
int64_t take_number(std::string_view text, size_t& at) {
  int64_t n = 0;
  for (; at < text.size() && is_digit_char(text[at]); ++at) {
    n = 10 * n + (text[at] - '0');
    if (n > kWidest) throw Problem("a width or precision of a format is too large");
  }
  return n;
}

std::string first_characters(const std::string& text, int n) {
  return n < 0 ? text : text.substr(0, character_begin(text, n));
}

// What stands after % and a name: flags, width, precision and the kind.
class PercentField {
 public:
  PercentField(const std::string& format, size_t& at, const std::function<Value()>& next) {
    for (; at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos; ++at) {
      if (format[at] == '-') left_ = true;
      if (format[at] == '0') zero_ = true;
      if (format[at] == '#') spec_.alternate = true;
      if (format[at] == '+' || (format[at] == ' ' && spec_.sign != '+')) spec_.sign = format[at];
    }
    spec_.width = count(format, at, next);
    if (spec_.width < 0) left_ = true, spec_.width = -spec_.width;
    if (at < format.size() && format[at] == '.') spec_.precision = int(std::max<int64_t>(0, count(format, ++at, next)));
    while (at < format.size() && std::string_view("hlL").find(format[at]) != std::string_view::npos) ++at;
    if (at >= format.size()) throw Problem("the format ends after %");
    kind_ = format[at++];
  }
  char kind() const { return kind_; }

  std::string written(const Value& v, Budget& budget) {
    if (left_) spec_.align = '<';
    TextBuilder text(budget);
    switch (kind_) {
      case 's':
        append_str(v, text);
        break;
      case 'r':
      case 'a':
        append_repr(v, text);
        break;
      case 'c':
        if (v.text() && count_characters(*v.text()) == 1) {
          text += *v.text();
          break;
        }
        spec_.type = 'c', spec_.align = left_ ? '<' : '>';
        if (v.integer()) return number(v, spec_, budget);
        throw Problem(fmt::format("%c of {}; a character is needed", v.kind()));
      default:
        return of_number(v, budget);
    }
    return padded(first_characters(text.take(), spec_.precision), spec_, '>', budget);
  }

 private:
  // A number, or * for the next value.
  static int64_t count(const std::string& format, size_t& at, const std::function<Value()>& next) {
    if (at >= format.size() || format[at] != '*') return take_number(format, at);
    ++at;
    const int64_t n = next().as_integer("*");
    if (n > kWidest || n < -kWidest) throw Problem("a width or precision of a format is too large");
    return n;
  }

  std::string of_number(const Value& v, Budget& budget) {
    constexpr std::string_view kWhole = "diuoxX", kReal = "eEfFgG";
    const bool whole = kWhole.find(kind_) != kWhole.npos;
    if (!whole && kReal.find(kind_) == kReal.npos) throw Problem(fmt::format("the format '%{}' is not known", kind_));
    if (!v.is_number()) throw Problem(fmt::format("%{} of {}; a number is needed", kind_, v.kind()));
    if (zero_ && !left_) spec_.fill = "0", spec_.align = '=';
    spec_.type = whole && kind_ != 'o' && kind_ != 'x' && kind_ != 'X' ? 'd' : kind_;
    if (!whole) return number(v, spec_, budget);
    spec_.digits = std::exchange(spec_.precision, -1);
    if (!v.real()) return number(v, spec_, budget);
    if (spec_.type != 'd') throw Problem(fmt::format("%{} of a number; a whole number is needed", kind_));
    const double x = std::trunc(*v.real());
    if (std::isnan(x) || std::abs(x) >= 0x1p63) throw Problem("%d of a number that is too large");
    return number(int64_t(x), spec_, budget);
  }

  FormatSpec spec_;
  bool left_ = false, zero_ = false;
  char kind_ = 's';
};

FormatSpec read_spec(std::string_view s) {
  FormatSpec out;
  constexpr std::string_view kAligns = "<>=^";
  const size_t first = s.empty() ? 0 : character_begin(s, 1);
  if (first < s.size() && kAligns.find(s[first]) != kAligns.npos) {
    out.fill = s.substr(0, first), out.align = s[first];
    s.remove_prefix(first + 1);
  } else if (!s.empty() && kAligns.find(s[0]) != kAligns.npos) {
    out.align = s[0];
    s.remove_prefix(1);
  }
  size_t at = 0;
  const auto take = [&](std::string_view any) {
    return at < s.size() && any.find(s[at]) != any.npos ? s[at++] : char(0);
  };
  if (const char sign = take("+- ")) out.sign = sign;
  take("z");
  out.alternate = take("#");
  if (take("0") && !out.align) out.fill = "0", out.align = '=';
  out.width = take_number(s, at);
  out.grouping = take(",_");
  if (take(".")) {
    if (at >= s.size() || !is_digit_char(s[at])) throw Problem("a format has no digits after '.'");
    out.precision = int(take_number(s, at));
  }
  if (at < s.size()) out.type = s[at++];
  if (at < s.size()) throw Problem(fmt::format("'{}' is no format", s));
  return out;
}

std::string with_spec(const Value& v, const std::string& text_of_spec, Budget& budget) {
  if (text_of_spec.empty()) return *str(v, budget);
  FormatSpec spec = read_spec(text_of_spec);
  if (v.is_number()) {
    constexpr std::string_view kTypes = "bcdnoxXeEfFgG%";
    if (spec.type && kTypes.find(spec.type) == kTypes.npos)
      throw Problem(fmt::format("the format '{}' is not for {}", spec.type, v.kind()));
    if (v.real() && spec.type && std::string_view("bcdoxX").find(spec.type) != std::string_view::npos)
      throw Problem(fmt::format("the format '{}' is for whole numbers only", spec.type));
    if (spec.type == 'n') spec.type = v.real() ? 'g' : 'd';
    return number(v, spec, budget);
  }
  if (!v.text()) throw Problem(fmt::format("{} takes no format '{}'", v.kind(), text_of_spec));
  if ((spec.type && spec.type != 's') || spec.align == '=' || spec.grouping || spec.sign != '-')
    throw Problem(fmt::format("the format '{}' is not for strings", text_of_spec));
  return padded(first_characters(*v.text(), spec.precision), spec, '<', budget);
}

// '{0.name[key]!r:>8}' and its kin.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, const Arguments& arguments) : in_(in), arguments_(arguments) {}

  std::string run(std::string_view format, int depth = 0) {
    if (depth > 1) throw Problem("a format has too many { in each other");
    TextBuilder out(in_.budget());
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out += format.substr(at, 1);
        at += 2;
      } else if (c == '{') {
        out += field(format, ++at, depth);
      } else if (c == '}') {
        throw Problem("a format has a '}' without '{'");
      } else {
        const size_t end = std::min(format.find_first_of("{}", at), format.size());
        out += format.substr(at, end - at);
        at = end;
      }
    }
    return out.take();
  }

 private:
  std::string field(std::string_view format, size_t& at, int depth) {
    const size_t begin = at;
    size_t brackets = 0;
    for (; at < format.size(); ++at) {
      if (format[at] == '[') ++brackets;
      if (format[at] == ']' && brackets > 0) --brackets;
      if (brackets == 0 && std::string_view("!:}").find(format[at]) != std::string_view::npos) break;
    }
    Value v = value(format.substr(begin, at - begin));
    char conversion = 0;
    if (at < format.size() && format[at] == '!') {
      conversion = at + 1 < format.size() ? format[at + 1] : ' ';
      if (std::string_view("rsa").find(conversion) == std::string_view::npos)
        throw Problem("a format has no r, s or a after '!'");
      at += 2;
    }
    std::string spec;
    if (at < format.size() && format[at] == ':') {
      const size_t from = ++at;
      for (size_t open = 0; at < format.size() && (open > 0 || format[at] != '}'); ++at) {
        if (format[at] == '{') ++open;
        if (format[at] == '}') --open;
      }
      spec = run(format.substr(from, at - from), depth + 1);
    }
    if (at >= format.size() || format[at] != '}') throw Problem("a format has a '{' without '}'");
    ++at;
    if (conversion) {
      TextBuilder text(in_.budget());
      conversion == 's' ? append_str(v, text) : append_repr(v, text);
      v = text.take();
    }
    return with_spec(v, spec, in_.budget());
  }

  // name, then .attribute and [key] as often as there are.
  Value value(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value v = argument(std::string(name.substr(0, at)));
    while (at < name.size()) {
      const bool dot = name[at] == '.';
      const size_t end = std::min(dot ? name.find_first_of(".[", at + 1) : name.find(']', at), name.size());
      const std::string part(name.substr(at + 1, end - at - 1));
      if (part.empty() || (!dot && end == name.size()))
        throw Problem(fmt::format("'{}' is no field of a format", name));
      size_t digits = 0;
      if (!dot && is_digit_char(part[0])) {
        const int64_t n = take_number(part, digits);
        v = digits == part.size() ? in_.item(v, n) : in_.item(v, part);
      } else {
        v = dot ? in_.attribute(v, part) : in_.item(v, part);
      }
      at = dot ? end : end + 1;
    }
    return v;
  }

  Value argument(const std::string& name) {
    if (name.empty() || is_digit_char(name[0])) {
      size_t at = 0;
      const size_t i = name.empty() ? next_++ : size_t(take_number(name, at));
      if (i >= arguments_.positional.size()) throw Problem(fmt::format("format() has no argument {}", i));
      return arguments_.positional[i];
    }
    in_.budget().spend(arguments_.named.size());
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    throw Problem(fmt::format("format() has no argument '{}'", name));
  }

  Interpreter& in_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

std::string padded(std::string_view text, const FormatSpec& spec, char usual_align, Budget& budget) {
  const int64_t missing = spec.width - count_characters(text);
  if (missing <= 0) return std::string(text);
  const char align = spec.align && spec.align != '=' ? spec.align : usual_align;
  const int64_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  TextBuilder out(budget);
  out.repeat(spec.fill, uint64_t(before));
  out += text;
  out.repeat(spec.fill, uint64_t(missing - before));
  return out.take();
}

Value format_percent(const std::string& format, const Value& values, Budget& budget) {
  const bool many = values.list() && values.list()->is_tuple();
  size_t used = 0;
  const auto next = [&]() -> Value {
    if (used >= (many ? values.list()->items.size() : 1)) throw Problem("there are fewer values than % in the format");
    return many ? values.list()->items[used++] : (++used, values);
  };
  TextBuilder out(budget);
  bool by_name = false;
  for (size_t at = 0; at < format.size();) {
    const size_t mark = std::min(format.find('%', at), format.size());
    out += std::string_view(format).substr(at, mark - at);
    at = mark + 1;
    if (mark == format.size()) break;
    Value named;
    bool has_name = false;
    if (at < format.size() && format[at] == '(') {
      const size_t end = format.find(')', at);
      if (!values.dict() || end == format.npos) throw Problem("%(name) needs a dict of values and a ')'");
      const Value* found = values.dict()->table.find(std::string_view(format).substr(at + 1, end - at - 1), budget);
      if (!found) throw Problem(fmt::format("the values have no '{}'", format.substr(at + 1, end - at - 1)));
      named = *found, has_name = by_name = true;
      at = end + 1;
    }
    PercentField field(format, at, next);
    if (field.kind() == '%')
      out += "%";
    else
      out += field.written(has_name ? named : next(), budget);
  }
  const bool may_be_unused = by_name || values.dict();
  if (many ? used < values.list()->items.size() : used == 0 && !may_be_unused && !(values.list() && !many))
    throw Problem("there are more values than % in the format");
  return out.take();
}

Value format_braces(Interpreter& in, const std::string& format, const Arguments& arguments) {
  return BraceFormatter(in, arguments).run(format);
}

}  // namespace toy::chat
