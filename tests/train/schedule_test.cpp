// Learning rates over time, from their definitions.
#include "toy/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "toy/base/error.h"
#include "toy/train/recipe.h"

namespace toy::schedule_test {
namespace {

TEST(Schedule, WarmsUpAndDecays) {
  const Schedule s{.kind = Schedule::cosine, .peak = 2, .warmup = 10, .steps = 110, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(s.at(0), 0.2);
  EXPECT_DOUBLE_EQ(s.at(9), 2.0);
  EXPECT_DOUBLE_EQ(s.at(10), 2.0);
  EXPECT_NEAR(s.at(109), 0.2, 1e-12);
  for (int64_t i = 11; i < 110; ++i) EXPECT_LT(s.at(i), s.at(i - 1));
  // Half way down: 100 steps from 10 to 109.
  EXPECT_NEAR((s.at(59) + s.at(60)) / 2, 2 * 0.55, 1e-12);
}

TEST(Schedule, AllShareTheWarmup) {
  for (const auto kind : {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    const Schedule s{.kind = kind, .peak = 3, .warmup = 5, .steps = 50, .decay = 10};
    for (int64_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(s.at(i), 3 * double(i + 1) / 5);
    EXPECT_DOUBLE_EQ(s.at(5), 3);
    EXPECT_NEAR(s.at(49), kind == Schedule::constant ? 3 : 0.3, 1e-12);
    EXPECT_EQ(s.at(1000), s.at(49)) << kind;  // behind the end
  }
}

TEST(Schedule, ConstantStays) {
  const Schedule s{.kind = Schedule::constant, .peak = 3, .steps = 7};
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(s.at(i), 3);
}

TEST(Schedule, LinearIsALine) {
  const Schedule s{.kind = Schedule::linear, .peak = 1, .warmup = 2, .steps = 13, .final_fraction = 0};
  for (int64_t i = 2; i < 13; ++i) EXPECT_NEAR(s.at(i), 1 - double(i - 2) / 10, 1e-12);
}

// 20 steps: 4 of warmup, then the peak up to step 14, and a line over steps 15 to 19.
TEST(Schedule, WsdIsConstantUntilItsDecay) {
  const Schedule s{.kind = Schedule::wsd, .peak = 1, .warmup = 4, .steps = 20, .decay = 5, .final_fraction = 0};
  for (int64_t i = 4; i < 15; ++i) EXPECT_EQ(s.at(i), 1) << i;
  for (int64_t i = 15; i < 20; ++i) EXPECT_NEAR(s.at(i), 1 - double(i - 14) / 5, 1e-12) << i;
  const Schedule without{.kind = Schedule::wsd, .peak = 1, .steps = 20};
  EXPECT_EQ(without.at(19), 1);
  const Schedule all{.kind = Schedule::wsd, .peak = 1, .steps = 4, .decay = 4, .final_fraction = 0};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(all.at(i), 1 - double(i + 1) / 4, 1e-12) << i;
}

TEST(Schedule, OneStep) {
  for (const auto kind : {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd})
    EXPECT_EQ((Schedule{.kind = kind, .peak = 1, .steps = 1}).at(0), 1) << kind;
}

TEST(Schedule, RefusesTheImpossible) {
  const auto message = [](const Schedule& s) -> std::string {
    try {
      s.validate();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({.warmup = 10, .steps = 10}), "");
  EXPECT_NE(message({.peak = 0}).find("lr is 0"), std::string::npos);
  EXPECT_NE(message({.peak = NAN}).find("lr is nan"), std::string::npos);
  EXPECT_NE(message({.steps = 0}).find("steps is 0"), std::string::npos);
  EXPECT_NE(message({.warmup = 11, .steps = 10}).find("warmup is 11"), std::string::npos);
  EXPECT_NE(message({.warmup = -1, .steps = 10}).find("warmup is -1"), std::string::npos);
  EXPECT_NE(message({.steps = 10, .final_fraction = 1.5}).find("final-lr is 1.5"), std::string::npos);
  EXPECT_NE(message({.kind = Schedule::wsd, .steps = 10, .decay = 11}).find("decay is 11"), std::string::npos);
  EXPECT_EQ(message({.kind = Schedule::wsd, .warmup = 5, .steps = 10, .decay = 5}), "");
  EXPECT_EQ(message({.kind = Schedule::wsd, .warmup = 6, .steps = 10, .decay = 5}),
            "warmup 6 and decay 5 are more than the 10 steps; make one of them smaller");
  RecipeOptions o;
  set_schedule(o, "wsd(decay=20)");
  EXPECT_EQ(o.schedule, Schedule::wsd);
  EXPECT_EQ(o.decay_steps, 20);
  EXPECT_EQ(schedule_text(o), "wsd(decay=20)");
  o.decay_steps = -1;
  EXPECT_EQ(schedule_text(o), "wsd(decay=200)");
  set_schedule(o, "constant");
  EXPECT_EQ(schedule_text(o), "constant");
  for (const char* bad :
       {"cosinus", "cosine(decay=2)", "wsd(decay=-2)", "wsd(decay=2, decay=3)", "wsd;wsd", "constant(0.1)"})
    EXPECT_THROW(set_schedule(o, bad), Error) << bad;
}

}  // namespace
}  // namespace toy::schedule_test
