// The cpu device: f32 with SIMD on a team of threads.
#include "backend/cpu/kernel_list.h"
#include "toy/backend/devices.h"

namespace toy {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  std::string_view name() const override { return "cpu"; }
  DType storage(DType logical) const override { return logical; }
  DType compute() const override { return DType::f32; }
  std::span<const KernelRecord> kernels() const override { return cpu::kernel_list(); }
  ThreadPool& pool() override { return pool_; }

 private:
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) { return std::make_unique<CpuDevice>(threads); }

}  // namespace toy
