// A program on a terminal of a given size (a pseudo terminal, pty(7)).
#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace toy_cli_test {

class Terminal {
 public:
  /// Runs a line of the shell; stdin, stdout and stderr are the terminal unless the line says otherwise.
  Terminal(const std::string& line, unsigned short columns) {
    winsize size{24, columns, 0, 0};
    process_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (process_ != 0) return;
    signal(SIGINT, SIG_DFL);  // these tests may run in the background
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  ~Terminal() {
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    if (fd_ >= 0) close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Whether this system has pseudo terminals: a chroot may lack /dev/pts.
  static bool is_available() {
    int master = -1, slave = -1;
    if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return false;
    close(master), close(slave);
    return true;
  }

  void resize(unsigned short columns) const {
    winsize size{24, columns, 0, 0};
    ioctl(fd_, TIOCSWINSZ, &size);
  }
  void type(const std::string& keys) const { (void)!write(fd_, keys.data(), keys.size()); }
  /// Reads until the output since the last call holds `text`, or the program ends. Returns that output.
  std::string until(const std::string& text) {
    return read([&](const std::string& output) { return output.find(text) != std::string::npos; });
  }
  /// The rest of the output; `code` is then the exit status as a shell has it.
  std::string rest() {
    const std::string output = read([](const std::string&) { return false; });
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return output;
  }
  int code = -1;

 private:
  std::string read(const std::function<bool(const std::string&)>& enough) const {
    std::string output;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!enough(output) && std::chrono::steady_clock::now() < end) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 1000) == 0) continue;
      char part[4096];
      const ssize_t n = ::read(fd_, part, sizeof part);
      if (n <= 0 && errno != EINTR) break;  // EIO: the program has ended
      if (n > 0) output.append(part, size_t(n));
    }
    return output;
  }
  int fd_ = -1;
  pid_t process_ = -1;
};

/// What was written between carriage returns, line feeds and sequences that erase or move.
inline std::vector<std::string> strips(const std::string& output) {
  std::vector<std::string> list(1);
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i] == '\r' || output[i] == '\n') {
      list.emplace_back();
    } else if (output[i] == '\x1b') {
      i = output.find_first_of("mJKA", i);
      if (i == std::string::npos) break;
      if (output[i] != 'm') list.emplace_back();
    } else {
      list.back() += output[i];
    }
  }
  std::erase(list, "");
  return list;
}

}  // namespace toy_cli_test
