#include "cli/interrupt.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace toy::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};  // one that nohup has set aside stays so

// What a handler may touch has to be global and lock-free.
std::atomic<int> caught{0};
constexpr int64_t kNever = -1;
std::atomic<int64_t> caught_at{kNever};  // milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t now() {
  struct timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

// Only calls that POSIX allows in a handler (signal-safety(7)).
extern "C" void on_signal(int number, siginfo_t* info, void*) {
  // timeout(1) asks twice: the program, and all of its group. A terminal that closes may send several, too. No one
  // presses Ctrl-C twice within a tenth of a second.
  constexpr int64_t kTogether = 1000, kTogetherByHand = 100;
  const int before = errno;
  int64_t first = kNever;
  const int64_t time = now();
  if (caught_at.compare_exchange_strong(first, time)) {
    caught = number;
  } else if (info->si_code != SI_QUEUE && time >= first + (number == SIGINT ? kTogetherByHand : kTogether)) {
    signal(number, SIG_DFL);  // request_stop() may ask again
    raise(number);            // delivered when the handler returns
  }
  errno = before;
}

// Of signals that nothing else handles.
void set_handlers() {
  for (const int number : kSignals) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_DFL) continue;
    struct sigaction next = {};
    next.sa_sigaction = on_signal;
    next.sa_flags = SA_RESTART | SA_SIGINFO;
    sigemptyset(&next.sa_mask);
    sigaction(number, &next, nullptr);
  }
}

void reset_handlers() {
  for (const int number : kSignals) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_signal) ::signal(number, SIG_DFL);
  }
}

}  // namespace

Interrupt::Interrupt() {
  caught = 0, caught_at = kNever;
  set_handlers();
}

Interrupt::~Interrupt() { reset_handlers(); }

int Interrupt::signal() const { return caught; }

void Interrupt::end_by_signal() {
  const int number = caught;
  if (number == 0) return;
  reset_handlers();
  std::fflush(nullptr);
  raise(number);
}

bool request_stop(int process) {
  // Python takes Ctrl-C, and would end at once at SIGTERM. "SigCgt:" has a bit for each signal that a process takes.
  std::ifstream status(fmt::format("/proc/{}/status", process));
  uint64_t taken = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:")) taken = std::strtoull(line.c_str() + 7, nullptr, 16);
  const auto takes = [&](int number) { return (taken >> (number - 1) & 1) != 0; };
  return sigqueue(process, !takes(SIGTERM) && takes(SIGINT) ? SIGINT : SIGTERM, {}) == 0;
}

}  // namespace toy::cli
