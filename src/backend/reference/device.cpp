// The reference device: f64 plain loops on one thread.
#include "backend/host_device.h"
#include "backend/reference/kernels.h"
#include "toy/backend/devices.h"

namespace toy {
namespace {

std::vector<KernelRecord> reference_kernels() {
  using namespace reference;
  return {
#define TOY_KERNEL(name) name##_kernel(),
#include "toy/backend/kernels.def"
#undef TOY_KERNEL
  };
}

class ReferenceDevice final : public HostDevice {
 public:
  ReferenceDevice() : HostDevice(1) {}
  std::string_view name() const override { return "reference"; }
  DType storage(DType logical) const override {
    return is_float(logical) || is_quantized(logical) ? DType::f64 : logical;
  }
  DType compute() const override { return DType::f64; }
  std::span<const KernelRecord> kernels() const override { return kernels_; }

 private:
  std::vector<KernelRecord> kernels_ = reference_kernels();
};

}  // namespace

std::unique_ptr<Device> make_reference_device() { return std::make_unique<ReferenceDevice>(); }

}  // namespace toy
