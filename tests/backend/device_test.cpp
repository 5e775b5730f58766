// The two devices: what they call themselves, how they store, and that they offer the same ops.
#include "toy/backend/devices.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace toy {
namespace {

std::set<std::string> ops_of(const Device& device) {
  std::set<std::string> ops;
  for (const KernelRecord& record : device.kernels()) {
    EXPECT_TRUE(record.run) << record.op;
    EXPECT_TRUE(ops.insert(std::string(record.op)).second) << record.op << " is listed twice";
  }
  return ops;
}

TEST(Device, BothOfferTheSameOps) { EXPECT_EQ(ops_of(*make_reference_device()), ops_of(*make_cpu_device(1))); }

TEST(Device, ReferenceHoldsEveryFloatInF64) {
  const auto device = make_reference_device();
  EXPECT_EQ(device->name(), "reference");
  EXPECT_EQ(device->compute(), DType::f64);
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) EXPECT_EQ(device->storage(t), DType::f64);
  EXPECT_EQ(device->storage(DType::i32), DType::i32);
  EXPECT_EQ(device->pool().size(), 1);
}

TEST(Device, CpuHoldsWhatItIsGiven) {
  const auto device = make_cpu_device(3);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->compute(), DType::f32);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i32}) EXPECT_EQ(device->storage(t), t);
  EXPECT_EQ(device->pool().size(), 3);
}

}  // namespace
}  // namespace toy
