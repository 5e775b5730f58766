#include "runs/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "toy/base/utf8.h"

namespace toy::runs {

std::string grouped(int64_t v) {
  std::string s = std::to_string(v);
  for (int64_t at = int64_t(s.size()) - 3; at > (v < 0 ? 1 : 0); at -= 3) s.insert(size_t(at), ",");
  return s;
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e15)) return "-";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const int64_t s = std::llround(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string readable_time(const std::string& iso) {
  std::string s = iso.substr(0, 16);
  std::replace(s.begin(), s.end(), 'T', ' ');
  return s;
}

std::string number_text(double v) {
  if (!std::isfinite(v)) return "-";
  if (std::fabs(v) >= 10000 && std::fabs(v) < 1e15) return grouped(std::llround(v));
  std::string s = fmt::format("{:.4g}", v);
  // printf writes at least two digits of an exponent.
  if (const size_t e = s.find('e'); e != std::string::npos && s[e + 2] == '0') s.erase(e + 2, 1);
  return s;
}

std::string exact_text(double v) { return double(float(v)) == v ? fmt::format("{}", float(v)) : fmt::format("{}", v); }

std::string id_of(const std::string& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string short_number(double v) {
  const double a = std::fabs(v);
  for (const auto& [unit, letter] :
       {std::pair(1e12, 'T'), std::pair(1e9, 'G'), std::pair(1e6, 'M'), std::pair(1e3, 'k')})
    if (a >= unit && a < unit * 1000) return fmt::format("{:.4g}{}", v / unit, letter);
  return fmt::format("{:.4g}", v == 0 ? 0.0 : v);
}

std::string shortened(const std::string& text, int width, bool unicode) {
  if (int(terminal_columns(text)) <= width) return text;
  if (width <= 0) return {};
  return std::string(first_columns(text, size_t(width) - 1)) + (unicode ? "…" : ".");
}

}  // namespace toy::runs
