// The emulated device finds what is wrong in a kernel. The kernels here are planted mistakes in the words of dialect.h.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "backend/gpu/emulated/texts.h"
#include "testing/errors.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"

extern char __start_toy_local_items_test[] __attribute__((weak)), __stop_toy_local_items_test[] __attribute__((weak));
#define TOY_LOCAL_SECTION "toy_local_items_test"
#include "backend/gpu/kernels/dialect.h"

namespace toy::gpu::items_test {
namespace {

using testing::error_of, testing::expect_contains;

// y_i = x_(n-1-i) through local memory
KERNEL(reversed, 64)(GLOBAL const float* x, GLOBAL float* y) {
  LOCAL float t[64];
  t[LID] = x[LID];
  BARRIER();
  y[LID] = t[63 - LID];
}
KERNEL(reversed_without_barrier, 64)(GLOBAL const float* x, GLOBAL float* y) {
  LOCAL float t[64];
  t[LID] = x[LID];
  y[LID] = t[63 - LID];
}
KERNEL(early_exit, 64)(GLOBAL float* y) {
  if (LID == 5) return;
  BARRIER();
  y[LID] = 1.0f;
}
KERNEL(two_barriers, 64)(GLOBAL float* y) {
  if (LID < 32) {
    BARRIER();
  } else {
    BARRIER();
  }
  y[LID] = 1.0f;
}
KERNEL(sums, 64)(GLOBAL const float* x, GLOBAL float* y) {
  LOCAL float parts[2], scratch[SCRATCH(64)];
  y[LID] = group_sum(x[LID], 64, parts, scratch);
}
KERNEL(functions, 64)(GLOBAL const float* x, GLOBAL float* y, int which) {
  y[LID] = which == 0 ? EXP(x[LID]) : which == 1 ? LOG(x[LID]) : TANH(x[LID]);
}

template <auto* kernel>
void launch(const char* name, std::vector<Arg> args, ItemOrder order = ItemOrder::ascending, Groups groups = {}) {
  run_groups(text_of<kernel>(name, 64, __start_toy_local_items_test, __stop_toy_local_items_test),
             {{}, groups, std::move(args)}, order);
}

using Floats = std::array<float, 64>;
Floats counted() {
  Floats x;
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}
constexpr ItemOrder kOrders[] = {ItemOrder::ascending, ItemOrder::descending, ItemOrder::shuffled};

TEST(Items, BarriersAndWarps) {
  const Floats x = counted();
  for (const ItemOrder order : kOrders) {
    Floats y{};
    launch<reversed>("reversed", {x.data(), y.data()}, order);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], x[63 - i]);
    launch<sums>("sums", {x.data(), y.data()}, order, {3, 2, 1});
    for (const float sum : y) EXPECT_EQ(sum, 64 * 65 / 2);
  }
}

// The instruction, where there is one, rounds as the library's function does.
TEST(Items, FusedProducts) {
  const auto bits = [](float v) { return std::bit_cast<uint32_t>(v); };
  uint32_t u = 1;
  const auto next = [&] { return std::bit_cast<float>(u = u * 1664525 + 1013904223); };
  for (int i = 0; i < 100000; ++i) {
    const float a = next(), b = next(), c = i % 2 ? next() : -(a * b), ours = fma(a, b, c), exact = std::fma(a, b, c);
    if (std::isnan(exact))
      ASSERT_TRUE(std::isnan(ours)) << a << " " << b << " " << c;
    else
      ASSERT_EQ(bits(ours), bits(exact)) << a << " " << b << " " << c;
  }
}

TEST(Items, LocalMemoryThatNobodyWroteIsNaN) {
  const Floats x = counted();
  Floats y{};
  launch<reversed_without_barrier>("reversed", {x.data(), y.data()});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[63], 1);
  launch<reversed_without_barrier>("reversed", {x.data(), y.data()}, ItemOrder::descending);
  EXPECT_TRUE(std::isnan(y[63])) << "a missing barrier shows in another order";
  EXPECT_EQ(y[0], 64);
}

TEST(Items, ABarrierThatNotAllReach) {
  Floats y{};
  expect_contains(error_of([&] { launch<early_exit>("early_exit", {y.data()}); }),
                  "device emulated: kernel early_exit, group (0,0,0): item 5 does not come to line ");
  expect_contains(error_of([&] { launch<two_barriers>("two_barriers", {y.data()}); }),
                  "device emulated: kernel two_barriers, group (0,0,0): item 32 does not come to line ");
  EXPECT_EQ(y, Floats{});
  launch<reversed>("reversed", {counted().data(), y.data()});  // and the next launch works
  EXPECT_EQ(y[0], 64);
}

TEST(Items, AGroupIsWholeWarps) {
  Floats y{};
  const Text half = text_of<early_exit>("half", 48, __start_toy_local_items_test, __stop_toy_local_items_test);
  expect_contains(error_of([&] {
                    run_groups(half, {{}, {}, {y.data()}}, ItemOrder::ascending);
                  }),
                  "kernel half: 48 items, and not a multiple of 32");
}

TEST(Items, ArgumentsAreThoseOfTheKernel) {
  Floats y{};
  const auto message = [](int i) {
    return "device emulated: kernel functions: argument " + std::to_string(i) + " does not fit the parameter";
  };
  const auto of = [](std::vector<Arg> args) { return error_of([&] { launch<functions>("functions", args); }); };
  EXPECT_EQ(of({y.data(), y.data()}), message(2));
  EXPECT_EQ(of({y.data(), y.data(), y.data()}), message(2));
  EXPECT_EQ(of({y.data(), 1, 1}), message(1));
  EXPECT_EQ(of({y.data(), y.data(), 1, 1}), message(3));
  EXPECT_EQ(of({nullptr, y.data(), int64_t(1)}), message(2));
}

TEST(Items, AnAccessOutsideOfABufferNamesTheKernel) {
  if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "the sanitizer handles faults";
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto write_too_far = [] {
    const auto device = make_emulated_device();
    const DeviceBuffer x(*device, 64 * 4), y(*device, 16 * 4);
    launch<reversed>("reversed", {device->address(x.at()), device->address(y.at())});
  };
  EXPECT_DEATH(write_too_far(),
               "device emulated: kernel reversed, item 16 of group .0,0,0.: an access outside of a buffer");
}

// Against the library in f64, in units of the last place.
TEST(Items, Functions) {
  for (int which = 0; which < 3; ++which) {
    double worst = 0;
    for (int chunk = 0; chunk < 2000; ++chunk) {
      Floats x, y;
      for (int i = 0; i < 64; ++i) {
        const float t = float(chunk * 64 + i) / 128000;
        x[size_t(i)] = which == 0 ? -87 + 175 * t : which == 1 ? std::ldexp(1 + t, chunk % 250 - 125) : 10 * t - 5;
      }
      launch<functions>("functions", {x.data(), y.data(), which});
      for (size_t i = 0; i < 64; ++i) {
        const double v = x[i], exact = which == 0 ? std::exp(v) : which == 1 ? std::log(v) : std::tanh(v);
        if (exact != 0) worst = std::fmax(worst, std::fabs(y[i] - exact) / (std::fabs(exact) * 0x1p-23));
      }
    }
    EXPECT_LT(worst, which == 0 ? 1.5 : which == 1 ? 2.5 : 6) << which;
  }
  const Floats x = {-88, 89, NAN, -INFINITY, INFINITY}, z = {0, -1, INFINITY, NAN};
  Floats y;
  launch<functions>("functions", {x.data(), y.data(), 0});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], INFINITY);
  launch<functions>("functions", {z.data(), y.data(), 1});
  EXPECT_EQ(y[0], -INFINITY);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], INFINITY);
  EXPECT_TRUE(std::isnan(y[3]));
}

}  // namespace
}  // namespace toy::gpu::items_test
