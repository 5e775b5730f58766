// How long the remainder of a run takes.
#include "train/time_left.h"

#include <gtest/gtest.h>

namespace toy::time_left_test {
namespace {

RecipeOptions options(int64_t steps, int64_t eval_every, double time_limit = 0) {
  RecipeOptions o;
  o.steps = steps;
  o.eval_every = eval_every;
  o.time_limit = time_limit;
  return o;
}

TEST(TimeLeft, CountsTheValidationsToCome) {
  constexpr double kPart = 2, kFull = 10;
  const auto during = [&](int64_t every, int64_t step, bool validated) {
    return validation_time(options(100, every), step, validated, kPart, kFull).during / kPart;
  };
  EXPECT_EQ(during(0, 0, true), 0);
  EXPECT_EQ(during(30, 0, true), 3);  // 30, 60, 90
  EXPECT_EQ(during(30, 30, false), 3);
  EXPECT_EQ(during(30, 30, true), 2);
  EXPECT_EQ(during(30, 90, true), 0);
  EXPECT_EQ(during(50, 0, true), 1);  // the one at 100 is the end's
  EXPECT_EQ(during(50, 100, false), 0);
  EXPECT_EQ(during(1, 0, false), 99);
  EXPECT_EQ(during(1, 0, true), 99);
  EXPECT_EQ(validation_time(options(0, 5), 0, true, kPart, kFull).during, 0);
  // At the end a part and everything; everything once where the two are the same.
  EXPECT_EQ(validation_time(options(100, 30), 7, true, kPart, kFull).at_end, kPart + kFull);
  EXPECT_EQ(validation_time(options(100, 30), 7, true, kFull, kFull).at_end, kFull);
  EXPECT_EQ(validation_time(options(100, 0), 7, true, kPart, kFull).at_end, kPart);
}

TEST(TimeLeft, EndsAtTheLimit) {
  const ValidationTime v{.during = 6, .at_end = 10};
  EXPECT_EQ(time_left(options(100, 30), 50, v, 1000), 66);
  EXPECT_EQ(time_left(options(100, 30, 100), 50, v, 20), 66);
  EXPECT_EQ(time_left(options(100, 30, 100), 50, v, 70), 40);  // and the last validation
  EXPECT_EQ(time_left(options(100, 30, 100), 50, v, 101), 10);
}

}  // namespace
}  // namespace toy::time_left_test
