// Python's ways to put values into texts: '%s' % x, '{}'.format(x), and what pprint makes.
#pragma once

#include <functional>
#include <string>

#include "chat/value.h"

namespace toy::chat {

/// How a value is written: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  ///< <, >, ^, or = for after the sign; 0: as is usual for the value
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  ///< , or _
  int precision = -1;
  int digits = 0;  ///< of a whole number at least
  char type = 0;
};

/// format % values: a tuple's, a dict's by name, or one.
Value format_percent(const std::string& format, const Value& values, Budget& budget);
/// str.format(). `field`: the value of a name such as "0.a[b]" (before its first . or [), from the arguments.
Value format_braces(Interpreter& in, const std::string& format, const Arguments& arguments);
/// A text in a field of so many characters.
std::string padded(std::string_view text, const FormatSpec& spec, char usual_align, Budget& budget);
/// pprint.pformat(): pretty.cpp.
std::string pretty(const Value& v, Budget& budget);

}  // namespace toy::chat
