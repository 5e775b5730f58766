// A command line with a mistake, and the message that answers it.
#pragma once

#include <gtest/gtest.h>

#include "cli_fixture.h"

struct Mistake {
  std::string words, answer;  // the last line says this
};

class Mistakes : public Cli {
 protected:
  // In a folder of its own.
  void expect(const std::vector<Mistake>& mistakes) const {
    for (const Mistake& m : mistakes) {
      const int status = std::system(("cd " + path("") + " && env -u HF_HOME HOME=" + path("home") + " " + TOY_BINARY +
                                      " " + m.words + " >out.log 2>err.log </dev/null")
                                         .c_str());
      std::string err = slurp(path("err.log"));
      EXPECT_EQ(WEXITSTATUS(status), 2) << m.words << "\n" << err;
      ASSERT_TRUE(err.ends_with('\n')) << m.words;
      err.pop_back();
      EXPECT_EQ(err.substr(err.rfind('\n') + 1), "toy: " + m.answer) << m.words;
    }
  }
};
