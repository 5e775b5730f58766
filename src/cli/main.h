// The program, apart from its entry point.
#pragma once

namespace toy::cli {

/// Parses and runs. Exit codes: 0 done, 2 bad input, 1 failure.
int main(int argc, char** argv);

}  // namespace toy::cli
