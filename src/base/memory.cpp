#include "toy/base/memory.h"

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "toy/base/error.h"

namespace toy {
namespace {

// "max" or a number of bytes.
size_t read_limit(const char* path) {
  std::ifstream f(path);
  size_t n = 0;
  return f >> n ? n : std::numeric_limits<size_t>::max();
}

// Bytes of files that the group has read and does not need.
size_t inactive_file() {
  std::ifstream f("/sys/fs/cgroup/memory.stat");
  std::string key;
  size_t value = 0;
  while (f >> key >> value)
    if (key == "inactive_file") return value;
  return 0;
}

// A line of /proc/meminfo, such as "MemTotal:", in bytes; 0 if there is none.
size_t meminfo(std::string_view name) {
  std::ifstream f("/proc/meminfo");
  std::string key, unit;
  size_t kib = 0;
  while (f >> key >> kib >> unit)
    if (key == name) return kib << 10;
  return 0;
}

}  // namespace

void release_freed() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void release_mapped(std::span<const std::byte> part) {
  const size_t page = size_t(::sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(part.data()),
               first = (begin + page - 1) / page * page, last = (begin + part.size()) / page * page;
  if (first < last) [[maybe_unused]]
    const int ignored = ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

size_t total_memory() { return std::min(meminfo("MemTotal:"), read_limit("/sys/fs/cgroup/memory.max")); }

FreeMemory free_memory() {
  FreeMemory free{.machine = meminfo("MemAvailable:")};
  const size_t limit = read_limit("/sys/fs/cgroup/memory.max");
  if (limit != std::numeric_limits<size_t>::max()) {
    // What the page cache holds can be had back; the rest of the group's memory cannot.
    const size_t current = read_limit("/sys/fs/cgroup/memory.current"), cache = inactive_file();
    const size_t used = current - std::min(current, cache);
    free.group = limit - std::min(limit, used);
  }
  struct stat group = {};
  if (::stat("/sys/fs/cgroup", &group) == 0) free.group_id = group.st_ino;  // a container sees its own there
  return free;
}

size_t available_memory() {
  const FreeMemory free = free_memory();
  return std::min(free.machine, free.group);
}

void require_memory(size_t bytes, std::string_view what, size_t free, std::string_view where) {
  check(free == 0 || bytes <= free, "memory: {} needs {}, and {} are free{}; use a smaller model, batch or context",
        what, format_bytes(bytes), format_bytes(free), where);
}

size_t peak_resident_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return size_t(usage.ru_maxrss) << 10;
}

size_t anonymous_memory() {
  std::ifstream f("/proc/self/status");
  for (std::string line; std::getline(f, line);)
    if (line.starts_with("RssAnon:")) return size_t(std::stoull(line.substr(line.find(':') + 1))) << 10;
  return 0;
}

void require_below(size_t limit, size_t bytes, std::string_view what, std::string_view instead) {
  if (limit == 0 || anonymous_memory() + bytes <= limit) return;
  release_freed();
  const size_t there = anonymous_memory();
  constexpr size_t kMiB = size_t(1) << 20;
  check(there + bytes <= limit,
        "memory: {} is not enough: {} needs {} in addition to the {} in use. Use --memory {}M, or {}",
        format_bytes(limit), what, format_bytes(bytes), format_bytes(there), (there + bytes) / kMiB + 2, instead);
}

size_t parse_bytes(std::string_view option, std::string_view text) {
  constexpr size_t kLeast = size_t(1) << 20;
  constexpr double kMost = 0x1p60;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string upper(text.substr(digits));
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  std::string_view unit = upper;
  double factor = 1, base = 1024;
  if (unit.size() == 2 && unit[1] == 'B')
    base = 1000, unit = unit.substr(0, 1);
  else if (unit.size() == 3 && unit.substr(1) == "IB")
    unit = unit.substr(0, 1);
  const size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit) + 1;  // 0: also where it is not found
  for (size_t i = 0; i < power; ++i) factor *= base;
  const std::string_view number = text.substr(0, digits);
  const bool good = !number.empty() && number != "." && std::count(number.begin(), number.end(), '.') <= 1 &&
                    (unit.empty() ? digits == text.size() : unit.size() == 1 && power > 0);
  check(good, "{}: '{}' is no size; expected a number with K, M, G or T, as in 4G, 512M or 6.5GB", option, text);
  // Left as it is where a double cannot hold the number: too large with a digit in front of the point, else too small.
  double value = number.find_first_of("123456789") < number.find('.') ? std::numeric_limits<double>::infinity() : 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  const double bytes = value * factor;
  check(bytes <= kMost, "{}: '{}' is more than any machine has", option, text);
  check(bytes >= double(kLeast), "{}: '{}' is {}; expected at least {}, as in 512M or 4G", option, text,
        format_bytes(size_t(bytes)), format_bytes(kLeast));
  return size_t(bytes);
}

std::string format_bytes(size_t bytes) {
  if (bytes >= size_t(1) << 30) return fmt::format("{:.2f} GiB", double(bytes) / double(size_t(1) << 30));
  if (bytes >= size_t(1) << 20) return fmt::format("{:.1f} MiB", double(bytes) / double(size_t(1) << 20));
  if (bytes >= 1024) return fmt::format("{:.1f} KiB", double(bytes) / 1024.0);
  return fmt::format("{} B", bytes);
}

}  // namespace toy
