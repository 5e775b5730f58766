// The one exception type of the library, and the checks that throw it.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace toy {

/// What went wrong, as a program sees it. The command line exits with 2 for bad_input and with 1 for failure.
enum class ErrorCode {
  bad_input,  ///< the caller can fix it: a file, an option, a shape
  failure,    ///< the machine or the library failed: no memory, no disk, a broken invariant
};

/// Thrown by every part of the library. The text names the thing, the reason and, if there is one, what to do.
class Error : public std::runtime_error {
 public:
  /// Most code calls fail() or check(), which format the text.
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// No space is left where something has to be written: the caller can free some or choose another place.
class DiskFull : public Error {
 public:
  /// `text`: what could not be written, and what to do.
  explicit DiskFull(const std::string& text) : Error(ErrorCode::bad_input, "disk full: " + text) {}
};

/// Throws Error with a text. Not a template, so that each check costs little code and little time to compile.
[[noreturn]] void throw_error(ErrorCode code, fmt::string_view format, fmt::format_args args);
/// Throws DiskFull, likewise.
[[noreturn]] void throw_disk_full(fmt::string_view format, fmt::format_args args);

/// Throws Error{bad_input} with a formatted text.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(ErrorCode::bad_input, format, fmt::make_format_args(args...));
}

/// Throws DiskFull with a formatted text.
template <class... Args>
[[noreturn]] void fail_disk_full(fmt::format_string<Args...> format, Args&&... args) {
  throw_disk_full(format, fmt::make_format_args(args...));
}

/// Throws Error{failure} with a formatted text: nothing the caller can fix.
template <class... Args>
[[noreturn]] void fail_internal(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(ErrorCode::failure, format, fmt::make_format_args(args...));
}

/// Throws Error{bad_input} unless `ok`. The arguments are formatted only on failure.
template <class... Args>
void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    throw_error(ErrorCode::bad_input, format, fmt::make_format_args(args...));
}

}  // namespace toy
