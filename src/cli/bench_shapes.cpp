// Shapes that are measured one after the other.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <sstream>

#include "cli/bench.h"
#include "toy/base/error.h"
#include "toy/models/spec.h"

namespace toy::cli {
namespace {

// What a child has to say when it fails: the digit of an ErrorCode, and the text.
std::string outcome(const std::function<void()>& work) {
  const auto text = [](ErrorCode code, const char* what) { return fmt::format("{}{}", int(code), what); };
  try {
    work();
    if (std::fflush(stdout) != 0) return text(ErrorCode::failure, "stdout: the output could not be written");
    return "";
  } catch (const Error& e) {
    return text(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return text(ErrorCode::bad_input, "memory: there is not enough for this; use a smaller shape, batch or context");
  } catch (const std::exception& e) {
    return text(ErrorCode::failure, e.what());
  }
}

std::string read_all(int file) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(buffer, size_t(n));
  return text;
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    text.remove_prefix(size_t(n < 0 ? 0 : n));
  }
}

}  // namespace

std::vector<std::string> shapes_of(const std::string& list) {
  std::vector<std::string> shapes;
  std::istringstream names(list + ",");
  for (std::string name; std::getline(names, name, ',');) {
    check(!name.empty(), "shape '{}': a name is empty; give NAME[,NAME...]", list);
    model_spec(name);
    shapes.push_back(name);
  }
  return shapes;
}

void run_apart(const std::function<void()>& work) {
  int ends[2];
  std::fflush(stdout);
  if (pipe(ends) != 0) fail_internal("pipe: there are no more files");
  const pid_t child = fork();
  if (child < 0) {
    for (const int end : ends) close(end);
    fail_internal("fork: there are no more processes");
  }
  if (child == 0) {
    close(ends[0]);
    write_all(ends[1], outcome(work));
    _exit(0);
  }
  close(ends[1]);
  const std::string failure = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!failure.empty()) throw Error(ErrorCode(failure.front() - '0'), failure.substr(1));
  if (!WIFEXITED(status)) fail_internal("the measuring process was ended by signal {}", WTERMSIG(status));
}

void for_each_shape(const std::vector<std::string>& shapes, const std::function<void(const std::string&)>& measure) {
  if (shapes.size() == 1) return measure(shapes.front());
  for (const std::string& shape : shapes) run_apart([&] { measure(shape); });
}

}  // namespace toy::cli
