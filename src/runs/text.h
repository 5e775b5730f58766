// Numbers, times and names as people read them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace toy::runs {

/// 1234567 -> "1,234,567"
std::string grouped(int64_t v);
/// 3723.4 -> "1:02:03"; below a minute "12.3 s"
std::string duration_text(double seconds);
/// "2026-01-31T23:59:59Z" -> "2026-01-31 23:59"
std::string readable_time(const std::string& iso);
/// Four significant digits without noise: "1.234", "0.0005", "3e-5", "12,345".
std::string number_text(double v);
/// 1500 -> "1.5k", 2000000 -> "2M", else as it is; for axes.
std::string short_number(double v);
/// At most `width` columns, the last one an ellipsis where something was cut (a dot without Unicode).
std::string shortened(const std::string& text, int width, bool unicode = true);
/// The fewest digits that give the value back, as an f32 where it is one: 9.999999747378752e-06 is "1e-05".
std::string exact_text(double v);
/// The id of the run in a folder: the folder's name.
std::string id_of(const std::string& folder);
/// Orders runs of digits by their value: "blk.2" before "blk.10".
struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const { return ::strverscmp(a.c_str(), b.c_str()) < 0; }
};

}  // namespace toy::runs
