#include "cli/console.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

namespace toy::cli {

void to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void ensure_standard_streams() {
  // A standard output for reading only: what is written to it is seen to fail.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) == -1) (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

Results::Results() : before_(signal(SIGPIPE, SIG_IGN)) {}

Results::~Results() { signal(SIGPIPE, before_); }

void Results::put(const std::string& text) {
  if (lost_) return;
  lost_ = std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
}

}  // namespace toy::cli
