#include "cli/interrupt.h"

#include <signal.h>

#include <atomic>
#include <cstdio>

namespace toy::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};  // one that nohup has set aside stays so

// What a handler may touch has to be global and lock-free.
std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Only calls that POSIX allows in a handler (signal-safety(7)).
extern "C" void on_signal(int number) {
  if (caught.exchange(number) == 0) return;
  signal(number, SIG_DFL);
  raise(number);  // delivered when the handler returns
}

void set_handlers(void (*from)(int), void (*to)(int)) {
  for (const int number : kSignals) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler != from) continue;
    struct sigaction next = {};
    next.sa_handler = to;
    next.sa_flags = SA_RESTART;
    sigemptyset(&next.sa_mask);
    sigaction(number, &next, nullptr);
  }
}

}  // namespace

Interrupt::Interrupt() {
  caught = 0;
  set_handlers(SIG_DFL, on_signal);
}

Interrupt::~Interrupt() { set_handlers(on_signal, SIG_DFL); }

int Interrupt::signal() const { return caught; }

void Interrupt::end_by_signal() {
  const int number = caught;
  if (number == 0) return;
  set_handlers(on_signal, SIG_DFL);
  std::fflush(nullptr);
  raise(number);
}

}  // namespace toy::cli
