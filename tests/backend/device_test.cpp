// The two devices: what they call themselves, how they store, and that they offer the same ops.
#include "toy/backend/devices.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "toy/backend/extend.h"
#include "toy/backend/fused.h"
#include "toy/base/error.h"

namespace toy {
namespace {

// An op may have several records if all but the last choose what they take.
std::set<std::string> ops_of(const Device& device) {
  std::map<std::string_view, bool> takes_all;
  for (const KernelRecord& record : device.kernels()) {
    EXPECT_TRUE(record.run) << record.op;
    EXPECT_FALSE(takes_all[record.op]) << record.op << " is listed twice";
    takes_all[record.op] = !record.accepts;
  }
  std::set<std::string> ops;
  for (const auto& [op, all] : takes_all) ops.insert(std::string(op));
  return ops;
}

TEST(Device, BothOfferTheSameOps) {
  std::set<std::string> cpu = ops_of(*make_cpu_device(1));
  for (const std::string_view op : {kFusedElementwise, kLinearGradWAdamW})  // for speed alone
    EXPECT_EQ(cpu.erase(std::string(op)), 1u) << op;
  EXPECT_EQ(ops_of(*make_reference_device()), cpu);
}

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

void nothing(const ExecContext&, const KernelArgs&) noexcept {}

TEST(Device, KernelsOfOnesOwnComeFirst) {
  const auto base = make_cpu_device(2);
  const auto device =
      extend_device(make_cpu_device(2), {{.op = "mine", .run = nothing}, {.op = "add", .run = nothing}});
  ASSERT_EQ(device->kernels().size(), base->kernels().size() + 2);
  EXPECT_EQ(device->kernels()[0].op, "mine");
  EXPECT_EQ(device->kernels()[1].op, "add");
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->compute(), DType::f32);
  EXPECT_EQ(device->pool().size(), 2);
  EXPECT_EQ(device->has_products(DType::bf16), base->has_products(DType::bf16));
  EXPECT_THROW(extend_device(make_cpu_device(1), {{.op = "mine"}}), Error);
  EXPECT_THROW(extend_device(make_cpu_device(1), {{.run = nothing}}), Error);
  EXPECT_THROW(extend_device(nullptr, {}), Error);
}

}  // namespace
}  // namespace toy
