// Runs of `toy train` that are stopped, killed and starved in all ways, and compared with one that was left alone.
#pragma once

#include <fcntl.h>
#include <signal.h>

#include <functional>
#include <map>

#include "cli/cli_fixture.h"

namespace toy_cli_test {

class Checkpoints : public Cli {
 protected:
  void SetUp() override {
    corpus_ = tiny_corpus();
    size_ = write("size.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 24})");
  }

  // 4 steps, so few that a run takes hardly longer than its start; what is in `more` comes instead.
  std::string train(const std::string& out, const std::string& more = "") const {
    std::string line = "train from-scratch --corpus " + corpus_ + " --size " + size_ + " --out " + path(out);
    for (const auto& [option, value] :
         {std::pair("--batch", "2"),
          {"--tokens", "8"},
          {"--steps", "4"},
          {"--threads", "1"},
          {"--eval-every", "2"},
          {"--eval-tokens", more.find("--eval-every 0") == std::string::npos ? "40" : "0"}})
      if ((" " + more).find(" " + std::string(option) + " ") == std::string::npos)
        line += std::string(" ") + option + " " + value;
    return line + " " + more;
  }
  // As toy(), with variables of the environment in front.
  Result toy_with(const std::string& variables, const std::string& arguments) const {
    const std::string out = path("stdout"), err = path("stderr");
    const int status = std::system(
        ("env " + variables + " " + TOY_BINARY + " " + arguments + " >" + out + " 2>" + err + " </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(out), slurp(err)};
  }

  // A run that has ended becomes one that was killed after this step.
  void rewind(const std::string& out, int step) const {
    fs::remove(path(out + "/finished.json"));
    for (const auto& e : fs::directory_iterator(path(out + "/checkpoints"))) {
      const std::string name = e.path().filename().string();
      if (name.starts_with("step_") && std::stoi(name.substr(5)) > step) fs::remove_all(e.path());
    }
  }

  // Every file of a run by relative path, but its lock and what says when and how it ran; links as what they lead to.
  std::map<std::string, std::string> files(const std::string& out) const {
    std::map<std::string, std::string> all;
    for (const auto& e : fs::recursive_directory_iterator(path(out))) {
      const std::string name = fs::relative(e.path(), path(out)).string();
      if (e.is_symlink())
        all[name] = "-> " + fs::read_symlink(e.path()).string();
      else if (e.is_regular_file() && name != ".lock" && !name.starts_with("events.") && name != "config.json")
        all[name] = slurp(e.path());
    }
    return all;
  }
  void expect_same_files(const std::string& out, const std::map<std::string, std::string>& wanted,
                         const std::string& how) const {
    const auto got = files(out);
    for (const auto& [name, bytes] : wanted) {
      ASSERT_TRUE(got.contains(name)) << how << ": no " << name;
      EXPECT_TRUE(got.at(name) == bytes) << how << ": " << name << " differs";
    }
    for (const auto& [name, bytes] : got) EXPECT_TRUE(wanted.contains(name)) << how << ": " << name << " is too much";
  }

  // A program that runs beside the test and can be sent signals. Its stdout is a pipe of one page, read by wait_for()
  // and wait(), so that it cannot run far ahead of the test however slow the machine is; stderr goes into <name>.err.
  class Running {
   public:
    Running(const Checkpoints& test, const std::string& name, const std::string& arguments)
        : err_(test.path(name + ".err")) {
      const std::string line = "exec " + std::string(TOY_BINARY) + " " + arguments + " 2>" + err_;
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
      EXPECT_GE(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
      pid_ = fork();
      if (pid_ == 0) {
        signal(SIGINT, SIG_DFL);
        dup2(ends[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
        _exit(127);
      }
      close(ends[1]);
      from_ = ends[0];
    }
    ~Running() {
      if (pid_ > 0) kill(pid_, SIGKILL), wait();
    }
    // False if stdout ends without it.
    bool wait_for(const std::string& text) {
      while (out_.find(text) == std::string::npos)
        if (!read_some()) return false;
      return true;
    }
    void send(int number) const { kill(pid_, number); }
    // 128 + signal where one ended it.
    Result wait() {
      while (read_some()) {
      }
      close(from_);
      int status = 0;
      waitpid(pid_, &status, 0);
      pid_ = -1;
      return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out_, slurp(err_)};
    }

   private:
    bool read_some() {
      char block[256];
      const ssize_t n = read(from_, block, sizeof block);
      if (n > 0) out_.append(block, size_t(n));
      return n > 0;
    }
    std::string err_, out_;
    int from_ = -1;
    pid_t pid_ = -1;
  };

  std::string corpus_, size_;
};

}  // namespace toy_cli_test
