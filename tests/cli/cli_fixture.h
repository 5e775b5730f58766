// Runs the program in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/files.h"

namespace toy_cli_test {

namespace fs = std::filesystem;

struct Result {
  int code;
  std::string out, err;
};

using toy::testing::slurp;

class Cli : public ::testing::Test, protected toy::testing::Folder {
 protected:
  // Runs the program with a shell's words.
  Result toy(const std::string& arguments, const std::string& input = "/dev/null") const {
    const std::string out = path("stdout"), err = path("stderr");
    const int status =
        std::system((std::string(TOY_BINARY) + " " + arguments + " >" + out + " 2>" + err + " <" + input).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(out), slurp(err)};
  }
  // Exit code 2, and a last line that holds all the words. Notes on rows, steps, folders and words of other programs
  // may stand before it.
  void refuses(const std::string& arguments, const std::vector<std::string>& words) const {
    const Result r = toy(arguments);
    EXPECT_EQ(r.code, 2) << arguments << "\n" << r.err;
    EXPECT_EQ(r.out, "") << arguments;
    ASSERT_TRUE(r.err.ends_with('\n')) << arguments << "\n" << r.err;
    const size_t last = r.err.rfind('\n', r.err.size() - 2) + 1;  // 0 where there is one line
    std::istringstream before(r.err.substr(0, last));
    for (std::string line; std::getline(before, line);)
      EXPECT_TRUE(line.ends_with("(said once for this file)") || line.find(" epochs of ") != line.npos ||
                  line.ends_with(" here") || line.ends_with(" keeps this one apart"))
          << arguments << "\n"
          << r.err;
    for (const std::string& w : words)
      EXPECT_NE(r.err.find(w, last), std::string::npos) << arguments << "\nexpected: " << w << "\ngot: " << r.err;
  }
  std::string tiny_corpus() const {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "the cat sat on mat number " + std::to_string(i * i % 97) + " and was glad.\n";
    return write("corpus.txt", text);
  }
};

// `options` without those that `more` has too: an option is given once. Each is "--name value".
inline std::string with(const std::string& options, const std::string& more) {
  std::istringstream words(options);
  std::string result = " ";
  for (std::string name, value; words >> name >> value;)
    if ((" " + more).find(" " + name + " ") == std::string::npos) result += name + " " + value + " ";
  return result;
}

inline const char* const kSmall = " --size tiny --tokenizer bytes --batch 2 --tokens 16 --lr 1e-3 ";

}  // namespace toy_cli_test

using namespace toy_cli_test;  // NOLINT: the tests of this folder are all in this vocabulary
