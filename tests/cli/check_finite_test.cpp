// --check-finite names the op and the layer where numbers end.
#include <regex>

#include "cli/cli_fixture.h"

namespace {

class CliCheckFinite : public Cli {
 protected:
  std::string train(const std::string& options) const {
    return "train from-scratch --corpus " + tiny_corpus() + " --size tiny --batch 2 --tokens 16 --warmup 0 --out " +
           path("run") + " " + options;
  }
  // Exit code 1 and a last line that matches.
  void ends_with(const Result& r, const std::string& pattern) const {
    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_TRUE(std::regex_search(r.err, std::regex(pattern + "\n$"))) << pattern << "\n" << r.err;
  }
};

const std::string kOp = "(blk\\.[0-9]|output): [a-z_]+ \\((forward|backward)\\): ";
const std::string kFind =
    "output [0-9] f32\\[[0-9,]+\\] holds [0-9]+ values? that (is|are) not finite \\([0-9]+ NaN\\), "
    "the first is (nan|-?inf) at \\[[0-9,]+\\]";

TEST_F(CliCheckFinite, NamesStepOpAndLayerOfTraining) {
  // A rate that makes weights of 1e12: their products overflow in the second step.
  const Result r = toy(train("--steps 8 --lr 1e12 --check-finite"));
  ends_with(r, "toy: step 2: " + kOp + kFind);
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 1) << r.out;  // the first step was sound
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
  const Result first = toy(train("--steps 2 --init-scale 1e30 --check-finite"));
  ends_with(first, "toy: step 1: " + kOp + kFind);
  EXPECT_EQ(first.out, "");
}

TEST_F(CliCheckFinite, ChangesNothingWhereAllIsFinite) {
  const Result plain = toy(train("--steps 3")), checked = toy(train("--steps 3 --check-finite --overwrite"));
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.out, plain.out);
  const std::string rest = path("run/model.gguf") + " --check-finite";
  EXPECT_EQ(toy("infer --prompt 'the cat' --n 4 " + rest).code, 0);
  EXPECT_EQ(toy("eval --file " + tiny_corpus() + " " + rest).code, 0);
  EXPECT_EQ(toy("train warm-start --batch 2 --tokens 16 --steps 1 --corpus " + tiny_corpus() + " --out " +
                path("second") + " --init " + rest)
                .code,
            0);
}

TEST_F(CliCheckFinite, InferEvalAndWarmStart) {
  const Result r = toy(train("--steps 1 --init-scale 1e30"));  // a failure, whose finite weights are kept
  ASSERT_EQ(r.code, 2) << r.err;
  ASSERT_NE(r.err.find("The weights are in"), std::string::npos) << r.err;
  const std::string rest = path("run/model.gguf") + " --check-finite";
  ends_with(toy("infer --prompt 'the cat' --n 4 " + rest), "toy: decoding: call 1, 7 rows: " + kOp + kFind);
  ends_with(toy("eval --file " + tiny_corpus() + " " + rest), "toy: decoding: call 1, [0-9]+ rows: " + kOp + kFind);
  ends_with(toy("train warm-start --batch 2 --tokens 16 --steps 1 --corpus " + tiny_corpus() + " --out " +
                path("second") + " --init " + rest),
            "toy: step 1: " + kOp + kFind);
}

}  // namespace
