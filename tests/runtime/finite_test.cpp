// The check for values that are not finite: what it finds, what it lets pass, and what it says.
#include "runtime/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::finite_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(NonFinite, CountsInAnyLayoutAndDtype) {
  std::vector<float> v(10000, 1.0f);
  v[4097] = NAN, v[9999] = -kInf, v[5] = std::numeric_limits<float>::max();
  const View flat(v.data(), DType::f32, {100, 100});
  NonFinite f = find_non_finite(flat);
  EXPECT_EQ(f.count, 2);
  EXPECT_EQ(f.nans, 1);
  EXPECT_EQ(f.first, 4097);
  View turned = flat;
  turned.stride = {1, 100};
  f = find_non_finite(turned);
  EXPECT_EQ(f.count, 2);
  EXPECT_EQ(f.first, 9740);  // row 97, column 40 of the transposed
  std::vector<uint16_t> half{0x7bff, 0x7c00, 0xfe00}, brain{0x7f7f, 0x7f80, 0xffc0};  // largest, inf, NaN
  for (const auto& [bits, dtype] : {std::pair(half, DType::f16), std::pair(brain, DType::bf16)}) {
    f = find_non_finite(View(const_cast<uint16_t*>(bits.data()), dtype, {3}));
    EXPECT_EQ(f.count, 2);
    EXPECT_EQ(f.nans, 1);
    EXPECT_EQ(f.first, 1);
  }
  std::vector<int32_t> ids{0x7f800000};
  EXPECT_EQ(find_non_finite(View(ids.data(), DType::i32, {1})).count, 0);
}

// Runs the graph with input `x` and returns the message, or "no error".
struct Checked {
  Graph g;
  Value x = g.input("x", {DType::f32, {2, 3}, 0});

  std::string run(std::vector<Value> outputs, std::vector<float> values, int threads = 2, bool on = true) {
    const auto device = make_test_device(threads);
    const ParamStore none(*device);
    Session s(*device, std::make_shared<const Plan>(compile(g, outputs, {}, *device, {.fuse = false})), {&none});
    s.set("x", values);
    s.check_finite(on);
    try {
      s.run();
      s.run();  // what one run found does not matter to the next
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::failure);
      return e.what();
    }
    return "no error";
  }
};

TEST(CheckFinite, NamesTheFirstOpItsLayerAndElement) {
  for (const int threads : {1, 2, 3}) {
    Checked c;
    const auto layer = c.g.scope("blk.3");
    const Value y = sum_all(log(c.x) * c.g.scalar(2));
    EXPECT_EQ(c.run({y}, {1, 2, 0, 1, -1, 1}, threads),
              "blk.3: log (forward): output 0 f32[2,3] holds 2 values that are not finite (1 NaN), the first is -inf "
              "at [0,2]");
    EXPECT_EQ(c.run({y}, {1, 2, 3, 1, 1, 1}, threads), "no error");
    EXPECT_EQ(c.run({y}, {1, 2, 0, 1, -1, 1}, threads, false), "no error");  // nobody asked
  }
}

TEST(CheckFinite, BackwardIsNamedToo) {
  Checked c;
  const std::vector<Value> wrt{c.x};
  const Value dx = gradients(sum_all(sqrt(c.x)), wrt)[0];  // infinite at 0, where the root itself is fine
  EXPECT_EQ(c.run({dx}, {1, 4, 9, 16, 25, 0}),
            "div (backward): output 0 f32[2,3] holds 1 value that is not finite (0 NaN), the first is inf at [1,2]");
}

TEST(CheckFinite, InfinitiesThatWereThereAreHandedOn) {
  Checked c;
  const Value mask = c.g.constant({DType::f32, {3}, 0}, {0, -kInf, 0});
  EXPECT_EQ(c.run({softmax(c.x + mask)}, {1, 2, 3, 4, 5, 6}), "no error");
  const Value made = c.x + fill(c.g, {3}, -double(kInf));  // made on purpose; a row of nothing else is a mistake
  EXPECT_EQ(c.run({made}, {1, 2, 3, 4, 5, 6}), "no error");
  EXPECT_EQ(c.run({softmax(made)}, {1, 2, 3, 4, 5, 6}).substr(0, 17), "softmax (forward)");
  EXPECT_EQ(c.run({c.x * c.g.scalar(2)}, {1, 2, NAN, 4, 5, 6}),
            "mul (forward): output 0 f32[2,3] holds 1 value that is not finite (1 NaN), the first is nan at [0,2]");
  EXPECT_EQ(c.run({c.x / c.x}, {1, 2, 3, 4, 5, 0}),
            "div (forward): output 0 f32[2,3] holds 1 value that is not finite (1 NaN), the first is nan at [1,2]");
}

}  // namespace
}  // namespace toy::finite_test
