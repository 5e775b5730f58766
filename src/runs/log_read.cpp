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

// Lines of the file as it was when it was opened, and their numbers; the same ones however often they are read.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    check(type != std::filesystem::file_type::fifo && type != std::filesystem::file_type::character,
          "{}: is a pipe or a device; a file is needed", path);
    file_.open(path, std::ios::binary);  // of a pipe it would wait for a writer
    check(file_.good(), "{}: cannot open: {}", path, std::strerror(errno));
    end_ = file_.seekg(0, std::ios::end).tellg();
  }

  // Calls f(line, number, torn) for each that is not empty.
  template <class F>
  void each(const F& f) {
    file_.clear();
    file_.seekg(0);
    int64_t number = 0, at = 0;
    for (std::string line; at < end_ && std::getline(file_, line);) {
      ++number;
      at += int64_t(line.size()) + 1;
      if (at > end_ + 1) line.resize(size_t(int64_t(line.size()) + 1 - (at - end_)));  // it has grown since
      if (!line.empty()) f(line, number, at > end_);
    }
    check(!file_.bad(), "{}: cannot read: {}", path_, std::strerror(errno));
  }

 private:
  const std::string& path_;
  std::ifstream file_;
  int64_t end_ = 0;
};

// Where a run begins or resumes: what was written before and does not count from there on.
struct Turn {
  int64_t line;
  bool starts;
  int64_t step;  // the last that counts
};

std::vector<Turn> turns_of(Lines& lines) {
  std::vector<Turn> turns;
  lines.each([&](const std::string& line, int64_t number, bool) {
    if (line.starts_with(R"({"kind":"step")")) return;
    if (line.find("\"resume\"") == line.npos && line.find("\"run_start\"") == line.npos) return;
    try {
      const std::optional<Event> e = parse_event(line);
      if (e && e->as<RunStart>()) turns.push_back({number, true, 0});
      if (e && e->as<Resume>()) turns.push_back({number, false, e->step.value_or(0)});
    } catch (const Error&) {  // the caller says so
    }
  });
  return turns;
}

// Which events count. Asked in the order of the lines.
class Filter {
 public:
  explicit Filter(std::vector<Turn> turns) : turns_(std::move(turns)), last_(turns_.size() + 1, INT64_MAX) {
    for (size_t i = turns_.size(); i-- > 0;)
      last_[i] = std::min(last_[i + 1], turns_[i].starts ? INT64_MIN : turns_[i].step);
  }
  bool counts(const Event& e, int64_t line) {
    while (next_ < turns_.size() && turns_[next_].line <= line) ++next_;
    if (next_ < turns_.size() && e.as<RunEnd>()) return false;
    return e.step.value_or(0) <= last_[next_] && last_[next_] != INT64_MIN;
  }

 private:
  std::vector<Turn> turns_;
  std::vector<int64_t> last_;  // step that the turns from each one on let count
  size_t next_ = 0;
};

}  // namespace

std::vector<std::string> visit_events(const std::string& path, const std::function<void(Event&&)>& see) {
  Lines lines(path);
  Filter filter(turns_of(lines));
  std::vector<std::string> warnings;
  int64_t events = 0;
  bool other = false, begun = false;
  const auto warn = [&](int64_t line, const std::string& text) {
    warnings.push_back(fmt::format("line {}: {}", line, text));
  };
  lines.each([&](const std::string& line, int64_t number, bool torn) {
    std::optional<Event> e;
    try {
      e = parse_event(line);
    } catch (const Error& error) {
      other = other || !torn;
      warn(number, torn ? "the last line is torn and was skipped"
                        : fmt::format("is not a whole event and was skipped: {}", error.what()));
      return;
    }
    ++events;  // an unknown kind is an event too
    if (!e) return;
    if (const RunStart* start = e->as<RunStart>()) {
      check(start->schema == kSchema, "{}: line {}: the schema is '{}'; this version reads {}", path, number,
            start->schema, kSchema);
      if (begun) warn(number, "a second run begins in this file; only it is shown");
    }
    begun = true;
    if (filter.counts(*e, number)) see(std::move(*e));
  });
  check(events > 0 || !other, "{}: is not a log of events: no line of it is a JSON object with a kind", path);
  check(events > 0, "{}: holds no event", path);
  return warnings;
}

Log read_events(const std::string& path) {
  Log log;
  log.warnings = visit_events(path, [&](Event&& e) { log.events.push_back(std::move(e)); });
  const auto key = [&](size_t i) {
    const Event& e = log.events[i];
    return std::tuple(e.body.index(), e.step.value_or(0), name_of_event(e));
  };
  std::map<decltype(key(0)), size_t> last;
  for (size_t i = 0; i < log.events.size(); ++i)
    if (once_per_step(log.events[i])) last[key(i)] = i;
  size_t kept = 0;
  for (size_t i = 0; i < log.events.size(); ++i) {
    if (once_per_step(log.events[i]) && last.at(key(i)) != i) continue;
    if (kept != i) log.events[kept] = std::move(log.events[i]);
    ++kept;
  }
  log.events.erase(log.events.begin() + int64_t(kept), log.events.end());
  return log;
}

}  // namespace toy::runs
