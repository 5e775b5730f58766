// The two devices: what they call themselves, how they store, and which ops they offer.
#include "toy/backend/devices.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/extend.h"
#include "toy/backend/fused.h"
#include "toy/backend/host_kernel.h"
#include "toy/base/error.h"
#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy::device_test {
namespace {

// An op may have several records if all but the last choose what they take.
std::set<std::string> ops_of(const Device& device) {
  std::map<std::string_view, bool> takes_all;
  for (const KernelRecord& record : device.kernels()) {
    EXPECT_TRUE(record.code.as<HostKernel>()) << record.op;
    EXPECT_FALSE(takes_all[record.op]) << record.op << " is listed twice";
    takes_all[record.op] = !record.accepts;
  }
  std::set<std::string> ops;
  for (const auto& [op, all] : takes_all) ops.insert(std::string(op));
  return ops;
}

TEST(Device, TheReferenceLacksWhatHasADecomposition) {
  std::set<std::string> cpu = ops_of(*make_cpu_device(1));
  for (const std::string_view op : {kFusedElementwise, kLinearGradWAdamW})  // for speed alone
    EXPECT_EQ(cpu.erase(std::string(op)), 1u) << op;
  for (const std::string& op : ops_of(*make_reference_device())) EXPECT_EQ(cpu.erase(op), 1u) << op;
  EXPECT_GE(cpu.size(), 15u);
  for (const std::string& op : cpu) EXPECT_TRUE(find_op(op)->decompose) << op;
}

TEST(Device, ReferenceHoldsEveryFloatInF64) {
  const auto device = make_reference_device();
  EXPECT_EQ(device->name(), "reference");
  EXPECT_EQ(device->compute(), DType::f64);
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) EXPECT_EQ(device->storage(t), DType::f64);
  EXPECT_EQ(device->storage(DType::i32), DType::i32);
  EXPECT_EQ(device->threads(), 1);
}

TEST(Device, CpuHoldsWhatItIsGiven) {
  const auto device = make_cpu_device(3);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->compute(), DType::f32);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i32}) EXPECT_EQ(device->storage(t), t);
  EXPECT_EQ(device->threads(), 3);
}

TEST(Device, MemoryIsReturnedOrTaken) {
  auto device = make_cpu_device(2);
  DeviceBuffer kept(*device, 100);
  {
    const DeviceBuffer a(*device, 1 << 20), none(*device, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(device->host(a.at())) % 64, 0u);
    EXPECT_EQ(device->held().buffers, 2u);
    EXPECT_EQ(device->held().bytes, (1u << 20) + 100);
    DeviceBuffer moved = std::move(kept);
    EXPECT_EQ(moved.bytes(), 100u);
    EXPECT_EQ(kept.bytes(), 0u);
    kept = std::move(moved);
  }
  EXPECT_EQ(device->held().buffers, 1u);
  ::testing::internal::CaptureStderr();
  device.reset();  // `kept` must not touch it afterwards
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("1 buffers of it (100 bytes)"), std::string::npos);
}

// On the memory of any device; the protected one has no other way.
void check_transfers(const Device& device) {
  const DeviceBuffer a(device, 100), b(device, 50);
  std::vector<char> bytes(100, 1);
  device.download(bytes.data(), a.at(), 100);
  EXPECT_EQ(bytes, std::vector<char>(100, 0));
  device.upload(a.at(10), "hello", 5);
  device.fill(b.at(), std::byte{'x'}, 50);
  device.copy(b.at(20), a.at(10), 5);
  device.copy(a.at(50), a.at(10), 5);
  bytes.resize(9);
  device.download(bytes.data(), b.at(18), 9);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "xxhelloxx");
  device.download(bytes.data(), a.at(50), 5);
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 5), "hello");
}

TEST(Device, Transfers) {
  check_transfers(*make_cpu_device(2));
  check_transfers(*make_reference_device());
  check_transfers(*make_emulated_device());
  check_transfers(*extend_device(make_cpu_device(1), {}));
  check_transfers(ProtectedDevice(make_cpu_device(1)));
}

TEST(DeviceDeathTest, ProtectedMemoryIsOutOfReach) {
  const ProtectedDevice device(make_cpu_device(1));
  const DeviceBuffer a(device, 100);
  EXPECT_DEATH(*static_cast<volatile char*>(device.address(a.at())) = 1, "");
}

void nothing(const ExecContext&, const KernelArgs&) noexcept {}

TEST(Device, TheListMakesThem) {
  std::set<std::string> names;
  for (const DeviceKind& kind : devices()) {
    names.insert(std::string(kind.name));
    EXPECT_FALSE(kind.title.empty());
    std::unique_ptr<Device> device;
    const std::string lacks = testing::error_of([&] { device = make_device(kind.name, {.threads = 1}); });
    if (!device) {  // as of a GPU
      EXPECT_TRUE(lacks.starts_with("device '" + std::string(kind.name) + "'")) << lacks;
      continue;
    }
    EXPECT_EQ(device->name(), kind.name);
    EXPECT_EQ(device->threads(), 1);
    const Device::Memory memory = device->memory();
    EXPECT_GT(memory.free, 0u);
    EXPECT_GE(memory.total, memory.free);
    EXPECT_EQ(device->alignment() % 64, 0u);
  }
  EXPECT_EQ(names, (std::set<std::string>{"cpu", "cuda", "emulated", "opencl", "reference"}));
  EXPECT_EQ(testing::error_of([] { make_device("tpu"); }),
            "device 'tpu' is unknown; this build has cpu, cuda, opencl, emulated, reference");
}

void elsewhere(int) noexcept {}

TEST(Device, ProgramsTakeOnlyTheDevicesOwnCode) {
  const KernelRecord own{.op = "mine", .code = nothing}, foreign{.op = "theirs", .code = elsewhere};
  EXPECT_FALSE(foreign.code.as<HostKernel>());
  const Attrs none;
  const KernelCall call{&own, &none, {}, {}, nullptr}, wrong{&foreign, &none, {}, {}, nullptr};
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(make_cpu_device(1));
  devices.push_back(make_reference_device());
  devices.push_back(extend_device(make_cpu_device(1), {}));
  devices.push_back(std::make_unique<ProtectedDevice>(make_cpu_device(1)));
  for (const auto& device : devices) {
    device->run(*device->prepare({&call, 1}));
    try {
      device->prepare({&wrong, 1});
      ADD_FAILURE() << device->name() << " took it";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()),
                "device '" + std::string(device->name()) +
                    "': the kernel for 'theirs' is of another device; compile for the device that runs the plan");
    }
  }
}

// A program holds what it needs, and several of them live side by side.
TEST(Device, ProgramsOutliveTheirCalls) {
  const auto count = [](const ExecContext&, const KernelArgs& args) noexcept { args.out[0].as<float>()[0] += 1; };
  const KernelRecord record{.op = "count", .code = +count};
  const Attrs none;
  for (const bool is_protected : {false, true}) {
    std::unique_ptr<Device> device = make_cpu_device(1);
    if (is_protected) device = std::make_unique<ProtectedDevice>(std::move(device));
    const DeviceBuffer memory(*device, 2 * sizeof(float));
    std::vector<std::unique_ptr<Program>> programs;
    for (const size_t at : {0, 4}) {
      const View out(device->address(memory.at(at)), DType::f32, {1});
      const KernelCall call{&record, &none, {}, {&out, 1}, nullptr};
      programs.push_back(device->prepare({&call, 1}));
    }
    for (const size_t i : {0, 1, 1, 0, 1}) device->run(*programs[i]);
    device->synchronize();
    float counted[2];
    device->download(counted, memory.at(), sizeof(counted));
    EXPECT_EQ(counted[0], 2);
    EXPECT_EQ(counted[1], 3);
  }
}

TEST(Device, KernelsOfOnesOwnComeFirst) {
  const auto base = make_cpu_device(2);
  const auto device =
      extend_device(make_cpu_device(2), {{.op = "mine", .code = nothing}, {.op = "add", .code = nothing}});
  ASSERT_EQ(device->kernels().size(), base->kernels().size() + 2);
  EXPECT_EQ(device->kernels()[0].op, "mine");
  EXPECT_EQ(device->kernels()[1].op, "add");
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->compute(), DType::f32);
  EXPECT_EQ(device->threads(), 2);
  EXPECT_EQ(device->has_products(DType::bf16), base->has_products(DType::bf16));
  EXPECT_THROW(extend_device(make_cpu_device(1), {{.op = "mine"}}), Error);
  EXPECT_THROW(extend_device(make_cpu_device(1), {{.code = nothing}}), Error);
  EXPECT_THROW(extend_device(nullptr, {}), Error);
}

}  // namespace
}  // namespace toy::device_test
