#include "train/reward_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr rlim_t kMemory = rlim_t(2) << 30;  // bytes of its address space

constexpr const char* kCannotRun = "reward program '{}': it cannot be run; chmod +x allows it";

// SIGPIPE is held back while it lives; one that came is taken away, so that a program that ends is an error and no end
// of ours.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_), sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!sigismember(&before_, SIGPIPE))
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

class RewardProgram final : public Reward {
 public:
  RewardProgram(const std::string& command, double timeout) : command_(command), timeout_(timeout) { start(); }
  ~RewardProgram() override { stop(); }

  std::vector<std::optional<double>> judge(std::span<const Attempt> attempts) override {
    std::string to_send;
    for (size_t i = 0; i < attempts.size(); ++i) to_send += request(first_id_ + int64_t(i), attempts[i]);
    std::vector<std::optional<double>> rewards(attempts.size());
    std::vector<char> answered(attempts.size(), 0);
    const NoBrokenPipe held;
    size_t sent = 0, left = attempts.size();
    for (double deadline = steady_seconds() + timeout_; left > 0;) {
      const double wait = deadline - steady_seconds();
      if (wait <= 0)
        fail_now(fmt::format("gave no answer for {:g} s; {} of {} are missing (--reward-timeout)", timeout_, left,
                             attempts.size()));
      std::array<pollfd, 2> both{{{out_, POLLIN, 0}, {in_, POLLOUT, 0}}};
      if (poll(both.data(), sent < to_send.size() ? 2 : 1, int(std::ceil(wait * 1000))) < 0 && errno != EINTR)
        fail_now(std::strerror(errno));
      if (sent < to_send.size() && both[1].revents != 0) send(to_send, sent);
      if (both[0].revents == 0) continue;
      receive();
      for (size_t end; (end = received_.find('\n')) != received_.npos;) {
        take(received_.substr(0, end), rewards, answered);
        received_.erase(0, end + 1);
        --left, deadline = steady_seconds() + timeout_;
      }
    }
    first_id_ += int64_t(attempts.size());
    return rewards;
  }

 private:
  static std::string request(int64_t id, const Attempt& a) {
    const OpenQuestion& q = *a.question;
    ordered_json j{{"id", id}};
    if (q.messages.is_null())
      j["prompt"] = q.prompt;
    else
      j["messages"] = q.messages;
    j["text"] = a.text, j["tokens"] = a.tokens, j["finished"] = a.finished, j["answers"] = q.answers;
    if (!q.kind.empty()) j["kind"] = q.kind;
    return json_text(j) + "\n";
  }

  void start() {
    check(!command_.empty(), "reward 'program:' has no command; write program:CMD");
    require_program();
    int to[2], from[2];
    check(pipe2(to, O_CLOEXEC) == 0, "reward program: no pipe: {}", std::strerror(errno));
    check(pipe2(from, O_CLOEXEC) == 0, "reward program: no pipe: {}", std::strerror(errno));
    std::vector<std::string> kept;
    for (char** e = environ; *e; ++e)
      for (const char* name : {"PATH=", "HOME=", "LANG=", "TOY_"})
        if (std::strncmp(*e, name, std::strlen(name)) == 0) kept.emplace_back(*e);
    std::vector<char*> environment;
    for (std::string& e : kept) environment.push_back(e.data());
    environment.push_back(nullptr);
    std::string shell = "/bin/sh", option = "-c";
    char* const arguments[] = {shell.data(), option.data(), command_.data(), nullptr};
    pid_ = fork();
    check(pid_ >= 0, "reward program: cannot start: {}", std::strerror(errno));
    if (pid_ == 0) {  // only calls that are safe after a fork of a program with threads
      setsid();
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const rlimit memory{kMemory, kMemory};
      setrlimit(RLIMIT_AS, &memory);
      if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0) _exit(127);
      close_range(3, ~0u, 0);
      execve(arguments[0], arguments, environment.data());
      _exit(127);
    }
    close(to[0]), close(from[1]);
    in_ = to[1], out_ = from[0];
    fcntl(in_, F_SETFL, O_NONBLOCK), fcntl(out_, F_SETFL, O_NONBLOCK);
  }

  // Where the command is a path and no more of a shell's language, as the shell would find only later.
  void require_program() const {
    const std::string path = command_.substr(0, command_.find(' '));
    if (path.find('/') == path.npos || path.find_first_of("'\"`$\\*?[]~=;&|<>()#\n") != path.npos) return;
    check(access(path.c_str(), F_OK) == 0, "reward program: {}", no_such_file(path));
    check(access(path.c_str(), X_OK) == 0, kCannotRun, command_);
  }

  // Its process and what that has started: they are asked to end, and after a second made to.
  void stop() noexcept {
    if (pid_ <= 0) return;
    close(in_), close(out_);
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
      if (i == kTries / 2) kill(-pid_, SIGTERM);
      usleep(10000);
      if (i + 1 == kTries) kill(-pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    }
    kill(-pid_, SIGKILL);  // what is left of its session
    pid_ = -1;
  }

  // It has closed its input or output. The shell tells by its status that there was nothing to run.
  [[noreturn]] void fail_ended(const char* what) {
    constexpr int kTries = 50, kNotFound = 127, kNotExecutable = 126;
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < kTries && (ended = waitpid(pid_, &status, WNOHANG)) == 0; ++i) usleep(10000);
    if (ended == pid_) {
      kill(-pid_, SIGKILL);  // what is left of its session
      close(in_), close(out_), pid_ = -1;
    }
    const int code = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    check(code != kNotFound, "reward program '{}': no such command; give a path such as ./reward.py", command_);
    check(code != kNotExecutable, kCannotRun, command_);
    fail_now(fmt::format("{}; run it by hand, and look for errors above", what));
  }

  [[noreturn]] void fail_now(const std::string& what) const { fail_internal("reward program '{}' {}", command_, what); }

  void send(const std::string& text, size_t& sent) {
    const ssize_t n = write(in_, text.data() + sent, text.size() - sent);
    if (n > 0) sent += size_t(n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) fail_ended("has ended before it read all rows");
  }

  void receive() {
    char buffer[1 << 16];
    const ssize_t n = read(out_, buffer, sizeof buffer);
    if (n > 0) received_.append(buffer, size_t(n));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fail_ended("has ended before it answered all rows");
    constexpr size_t kMost = size_t(1) << 20;
    if (received_.size() > kMost && received_.find('\n') == received_.npos) fail_now("writes a line without an end");
  }

  void take(const std::string& line, std::vector<std::optional<double>>& rewards, std::vector<char>& answered) const {
    const auto j = parse_json<ordered_json>(line);
    const auto wrong = [&](const char* what) {
      constexpr size_t kShown = 200;
      fail_now(fmt::format("wrote a line {}: {}", what, line.substr(0, kShown)));
    };
    if (!j.is_object()) wrong("that is no JSON object, such as {\"id\": 0, \"reward\": 1}");
    if (!j.contains("id") || !j["id"].is_number_integer()) wrong("without an id");
    const int64_t at = j["id"].get<int64_t>() - first_id_;
    if (at < 0 || at >= int64_t(rewards.size()) || answered[size_t(at)]) wrong("whose id was not asked for, or twice");
    if (!j.contains("reward")) wrong("without a reward");
    answered[size_t(at)] = 1;
    const ordered_json& r = j["reward"];
    if (r.is_null()) return;
    constexpr double kMost = 1e6;  // squares of larger ones leave no digits for the others
    if (!r.is_number() || !(std::abs(r.get<double>()) <= kMost)) wrong("whose reward is no number from -1e6 to 1e6");
    rewards[size_t(at)] = r.get<double>();
  }

  std::string command_;
  double timeout_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string received_;
  int64_t first_id_ = 0;
};

}  // namespace

std::unique_ptr<Reward> program_reward(const std::string& command, double timeout) {
  return std::make_unique<RewardProgram>(command, timeout);
}

}  // namespace toy
