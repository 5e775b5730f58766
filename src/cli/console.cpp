#include "cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/tables.h"
#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

// A process has one terminal, and whatever is written to it has to know about the line.
struct StatusLine {
  std::string text;
  int width = 0;  // of the terminal when the line was drawn
} status_line;

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

// Columns that a line takes, without its color sequences.
size_t visible_columns(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b')
      i = std::min(line.find('m', i), line.size());
    else
      plain += line[i];
  }
  return terminal_columns(plain);
}

// What removes the status line. Terminals break a line anew when they become narrower: it may fill several rows by now.
std::string erasing() {
  if (status_line.text.empty()) return {};
  const size_t columns = visible_columns(status_line.text);
  if (is_dumb()) return "\r" + std::string(columns, ' ') + "\r";
  const size_t now = size_t(terminal_width(STDERR_FILENO));
  const size_t rows = now < size_t(status_line.width) ? (std::max<size_t>(columns, 1) - 1) / now : 0;
  return (rows > 0 ? "\x1b[" + std::to_string(rows) + "A" : "") + "\r\x1b[J";
}

// The line once more, unless it might not fit.
std::string redrawn() { return terminal_width(STDERR_FILENO) == status_line.width ? status_line.text : std::string(); }

}  // namespace

void print_json(const nlohmann::ordered_json& json, int indent) { fmt::print("{}\n", json_text(json, indent)); }

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Sentences longer than a terminal's line continue between words. Commands to copy, which begin with a space, tables
// and what has colors stay.
std::string for_terminal(std::string_view text) {
  if (!is_terminal(STDERR_FILENO)) return std::string(text);
  const size_t columns = size_t(terminal_width(STDERR_FILENO));
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool keep = line.size() < columns || line.starts_with(' ') || line.find("  ") != line.npos ||
                      line.find('\x1b') != line.npos;
    out += keep ? std::string(line) : wrapped(line, columns);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void to_stderr(std::string_view text) {
  std::string all = erasing() + for_terminal(text);
  if (!text.ends_with('\n')) status_line = {};
  if (!status_line.text.empty()) status_line.text = redrawn();
  write_stderr(all + status_line.text);
}

void ensure_standard_streams() {
  // A standard output for reading only: what is written to it is seen to fail.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) == -1) (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

std::string lost_output(int error) {
  if (error == 0) {  // a device says it again, and a full disk is still one
    struct statvfs disk = {};
    errno = 0;
    if (::write(STDOUT_FILENO, "", 0) < 0)
      error = errno;
    else if (::fstatvfs(STDOUT_FILENO, &disk) == 0 && disk.f_blocks > 0 && disk.f_bavail == 0)
      error = ENOSPC;
  }
  const std::string reason = error ? ": " + std::generic_category().message(error) : "";
  return "stdout: the output could not be written" + reason;
}

bool is_terminal(int fd) { return isatty(fd) == 1; }

int terminal_width(int fd) {
  winsize w{};
  return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

bool has_unicode() {
  std::setlocale(LC_CTYPE, "");
  const std::string codeset = nl_langinfo(CODESET);
  std::setlocale(LC_CTYPE, "C");
  return codeset == "UTF-8";
}

bool has_color(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return is_terminal(fd) && !is_dumb() && !(no_color && *no_color);
}

void show_status(const std::string& line) {
  const std::string erase = erasing();
  status_line = {line, terminal_width(STDERR_FILENO)};
  write_stderr(erase + line);
}

void clear_status() {
  write_stderr(erasing());
  status_line = {};
}

void keep_status() {
  if (!status_line.text.empty()) write_stderr("\n");
  status_line = {};
}

Results::Results() : before_(signal(SIGPIPE, SIG_IGN)) {}

Results::~Results() { signal(SIGPIPE, before_); }

void Results::put(const std::string& text) {
  if (lost_) return;
  const bool covered = !status_line.text.empty() && is_terminal(STDOUT_FILENO);
  if (covered) write_stderr(erasing());
  lost_ = std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
  if (covered) write_stderr(status_line.text = redrawn());
}

}  // namespace toy::cli
