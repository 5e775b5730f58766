// The device that a driver makes.
#include <gtest/gtest.h>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

namespace toy::gpu::device_test {
namespace {

TEST(GpuDevice, ComputesInEveryOrderOfTheItems) {
  Graph g;
  std::vector<double> ones(300, 1.0), threes(300, 3.0);
  const Value y = rms_norm(g.constant(f32({300}), threes), g.constant(f32({300}), ones), 0);
  for (const ItemOrder order : {ItemOrder::ascending, ItemOrder::descending, ItemOrder::shuffled}) {
    const auto device = make_gpu_device(make_emulated_driver(order));
    EXPECT_EQ(evaluate(y, {.device = device.get()}).values, ones);
  }
}

}  // namespace
}  // namespace toy::gpu::device_test
