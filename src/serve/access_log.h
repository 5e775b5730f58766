// One line for each request that was answered.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "serve/http/http_server.h"

namespace toy::serve {

/// How lines of the log are written.
enum class LogForm { off, text, json };

/// The line, without its end. What a client sent cannot break it or change a terminal: it is shortened, and bytes that
/// are not plain ASCII are escaped.
std::string log_line(const Answered& a, LogForm form, int64_t unix_milliseconds);

/// Writes to the standard error output, unless that would wait for whoever reads it: then lines are left out, and the
/// next one says how many. Any thread may write.
class AccessLog {
 public:
  explicit AccessLog(LogForm form, int file = 2) : form_(form), file_(file) {}
  void write(const Answered& a);

 private:
  bool write_now(const std::string& line) const;

  const LogForm form_;
  const int file_;
  std::mutex mutex_;
  int64_t left_out_ = 0;
};

}  // namespace toy::serve
