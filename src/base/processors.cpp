#include "base/processors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace toy {
namespace {

// The beginning of a small file of the system; "" if there is none.
std::string_view read_into(std::span<char> room, const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  size_t size = 0;
  for (ssize_t n = 1; n > 0 && size < room.size(); size += size_t(std::max<ssize_t>(n, 0)))
    n = read(file, room.data() + size, room.size() - size);
  close(file);
  return {room.data(), size};
}

// Takes the next number of a line from it.
std::optional<int64_t> next_number(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  int64_t n = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), n);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(size_t(end - line.data()));
  return n;
}

}  // namespace

// /proc/self/task/T/schedstat: ns on a processor, ns of waiting for one, time slices.
std::optional<int64_t> waited_ns(pid_t thread) {
  char path[64], room[96];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", int(thread));
  std::string_view text = read_into(room, path);
  return next_number(text).value_or(0) > 0 ? next_number(text) : std::nullopt;  // zeros: it is switched off
}

// /proc/stat, after a line for all processors: "cpu0 user nice system idle ...", and other lines behind them.
std::optional<int64_t> idle_ns(const cpu_set_t& set) {
  char room[CPU_SETSIZE * 128];  // a line has ten numbers
  std::string_view text = read_into(room, "/proc/stat");
  const int64_t tick = 1'000'000'000 / std::max(1L, sysconf(_SC_CLK_TCK));
  std::optional<int64_t> sum;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    std::string_view line = text.substr(0, end);
    if (!line.starts_with("cpu")) break;
    line.remove_prefix(3);
    if (line.starts_with(' ')) continue;
    const std::optional<int64_t> cpu = next_number(line);
    int64_t numbers[4] = {};
    for (int64_t& n : numbers) n = next_number(line).value_or(0);
    if (cpu && *cpu < CPU_SETSIZE && CPU_ISSET(size_t(*cpu), &set)) sum = sum.value_or(0) + numbers[3] * tick;
  }
  return sum;
}

void TeamSize::waited(int64_t elapsed, std::span<const int64_t> ns) {
  double longest = 0, all = 0;
  for (const int64_t n : ns) {
    const double share = double(n) / double(std::max<int64_t>(1, elapsed));
    longest = std::max(longest, share), all += share;
  }
  if (longest > 0.25) now_ = std::max(1, now_ - std::max(1, int(std::lround(all))));
}

void TeamSize::idle(int64_t elapsed, int64_t ns) {
  const double processors = double(ns) / double(std::max<int64_t>(1, elapsed));
  now_ = std::min(most_, now_ + int(std::clamp(processors + 0.25, 0.0, double(most_))));
}

}  // namespace toy
