// The program, apart from its entry point.
#pragma once

#include <functional>

namespace toy::cli {

/// Parses and runs. Exit codes: 0 done, 2 bad input, 1 failure.
int main(int argc, char** argv);

/// The exit code of this work, which says on stderr why it failed. Output that was lost is a failure, too.
int exit_code_of(const std::function<void()>& work);

/// Thrown where stderr has the reason already.
struct Exit {
  int code;
};

}  // namespace toy::cli
