// Standard error for people: what it cannot say must not stop the work, write errors are ignored. Standard output of
// long work.
#pragma once

#include <string>
#include <string_view>

namespace toy::cli {

void to_stderr(std::string_view text);
/// Opens /dev/null in place of closed standard streams, so that no file of ours gets their numbers; writing to a
/// standard output that was closed fails. Call it first.
void ensure_standard_streams();

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
