// Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) as a request that is read between two steps.
#pragma once

namespace toy::cli {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is noted and nothing else; a later one ends the program at once,
/// as it would have without this. What comes together counts as one: within a second, or a tenth of one for Ctrl-C.
/// That of request_stop() ends nothing at once. A signal that was ignored stays ignored
/// (nohup, a shell's background jobs). One at a time: a handler can reach nothing but a global.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// The signal that came, or 0.
  int signal() const;
  /// Ends the program by the signal that came, so that whoever started it sees why: a shell's exit code is 128 +
  /// signal, and a script stops. Returns if none came.
  void end_by_signal();
};

/// Asks a process for what SIGTERM does, any number of times. False where it may not be asked.
bool request_stop(int process);

}  // namespace toy::cli
