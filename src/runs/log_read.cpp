#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "toy/base/error.h"
#include "toy/runs/log.h"

namespace toy::runs {
namespace {

// What tells apart two events of one kind and step.
std::string name_of_event(const Event& e) {
  return std::visit(
      [](const auto& b) -> std::string {
        if constexpr (requires { b.name; }) return b.name;
        if constexpr (requires { b.whole; }) return b.whole ? "whole" : "part";
        if constexpr (requires { b.op; }) return b.op + " " + b.pass;
        return {};
      },
      e.body);
}

bool once_per_step(const Event& e) {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kOncePerStep; }, e.body);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void take(Event e, int64_t line) {
    if (const RunStart* start = e.as<RunStart>()) {
      check(start->schema == kSchema, "{}: line {}: the schema is '{}'; this version reads {}", path_, line,
            start->schema, kSchema);
      if (!log_.events.empty()) {
        warn(line, "a second run begins in this file; only it is shown");
        log_.events.clear();
      }
    }
    if (e.as<Resume>()) go_back_to(e.step.value_or(0));
    log_.events.push_back(std::move(e));
  }
  void warn(int64_t line, const std::string& text) { log_.warnings.push_back(fmt::format("line {}: {}", line, text)); }

  Log finish() {
    std::map<std::tuple<size_t, int64_t, std::string>, size_t> last;
    for (size_t i = 0; i < log_.events.size(); ++i) last[key(i)] = i;
    std::vector<Event> kept;
    for (size_t i = 0; i < log_.events.size(); ++i)
      if (!once_per_step(log_.events[i]) || last.at(key(i)) == i) kept.push_back(std::move(log_.events[i]));
    log_.events = std::move(kept);
    return std::move(log_);
  }

 private:
  void go_back_to(int64_t step) {
    std::erase_if(log_.events, [&](const Event& e) { return e.as<RunEnd>() || e.step.value_or(0) > step; });
  }
  std::tuple<size_t, int64_t, std::string> key(size_t i) const {
    const Event& e = log_.events[i];
    return {e.body.index(), e.step.value_or(0), name_of_event(e)};
  }
  const std::string& path_;
  Log log_;
};

}  // namespace

Log read_events(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  check(type != std::filesystem::file_type::fifo && type != std::filesystem::file_type::character,
        "{}: is a pipe or a device; a file is needed", path);
  std::ifstream file(path, std::ios::binary);
  check(file.good(), "{}: cannot open: {}", path, std::strerror(errno));
  Reader reader(path);
  int64_t number = 0, events = 0;
  bool other = false;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    std::optional<Event> e;
    try {
      e = parse_event(line);
    } catch (const Error&) {
      const bool torn = file.eof();
      other = other || !torn;
      reader.warn(number, torn ? "the last line is torn and was skipped" : "is not a whole event and was skipped");
      continue;
    }
    ++events;  // an unknown kind is an event too
    if (e) reader.take(std::move(*e), number);
  }
  check(!file.bad(), "{}: cannot read: {}", path, std::strerror(errno));
  check(events > 0 || !other, "{}: is not a log of events: no line of it is a JSON object with a kind", path);
  check(events > 0, "{}: holds no event", path);
  return reader.finish();
}

}  // namespace toy::runs
