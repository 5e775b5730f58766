// The cpu device: f32 with SIMD on a team of threads.
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernel_list.h"
#include "backend/cpu/simd_targets.h"
#include "backend/host_device.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"

#include <hwy/highway.h>

namespace toy {
namespace {

class CpuDevice final : public HostDevice {
 public:
  using HostDevice::HostDevice;
  std::string_view name() const override { return "cpu"; }
  DType storage(DType logical) const override { return logical; }
  bool has_products(DType type) const override {
    return type == DType::f32 || type == DType::q8_0 || (type == DType::bf16 && cpu::has_bf16_products());
  }
  // The width of vectors decides nothing, see docs/numerics.md.
  std::string arithmetic(DType products) const override {
    const bool fused = hwy::SupportedAndGeneratedTargets().front() != HWY_SSSE3;  // the best comes first
    return std::string(fused ? "fma" : "no fma") + (products == DType::f32 ? ""
                                                    : cpu::has_amx()       ? ", AMX"
                                                                           : ", AVX512_BF16");
  }
  DType compute() const override { return DType::f32; }
  std::span<const KernelRecord> kernels() const override { return cpu::kernel_list(); }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  // Better a message than an illegal instruction.
  check(!hwy::SupportedAndGeneratedTargets().empty(),
        "device cpu: this processor has none of the instruction sets it is compiled for ({}); use the device reference",
        HWY_ARCH_X86 ? "SSSE3, AVX2 with FMA, AVX-512" : "NEON");
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace toy
