// Results on standard output and in files; standard error for people: what it cannot say must not stop the work, write
// errors are ignored.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace toy::cli {

/// Prints JSON on stdout, on one line or with `indent` spaces a level.
void print_json(const nlohmann::ordered_json& json, int indent = -1);
/// Writes a file, completely or not at all.
void write_file(const std::string& path, std::string_view text);

/// `text` with lines that end between words, if standard error is a terminal.
std::string for_terminal(std::string_view text);
/// Writes it above the status line, if there is one.
void to_stderr(std::string_view text);
/// What to say where stdout did not take what was printed. `error`: the errno of the write, 0 if it is not known.
std::string lost_output(int error);
/// Opens /dev/null in place of closed standard streams, so that no file of ours gets their numbers; writing to a
/// standard output that was closed fails. Call it first.
void ensure_standard_streams();

bool is_terminal(int fd);
/// Columns of the terminal `fd`; 80 where it does not say.
int terminal_width(int fd);
/// Whether the locale's encoding is UTF-8.
bool has_unicode();
/// Whether `fd` is a terminal with colors, and NO_COLOR (https://no-color.org) is not set.
bool has_color(int fd);

/// The last line of the terminal on stderr, drawn again in place: for one thread, and only where stderr is a terminal.
/// `line` is at most terminal_width() - 1 columns wide, and may hold colors where has_color() says so.
void show_status(const std::string& line);
/// Removes the line.
void clear_status();
/// Leaves the line where it is; what follows comes below it.
void keep_status();

/// Standard output of work that has more to lose than what it prints. While it lives SIGPIPE is ignored; once something
/// could not be written (the reader has gone away, the disk is full), the rest is dropped, and whoever works can stop
/// in order. The stream keeps its error, so the program ends with exit code 1.
class Results {
 public:
  Results();
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  void put(const std::string& text);
  bool lost() const { return lost_; }

 private:
  void (*before_)(int);
  bool lost_ = false;
};

}  // namespace toy::cli
