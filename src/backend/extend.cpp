#include "toy/backend/extend.h"

#include <algorithm>

#include "backend/forwarding_device.h"
#include "toy/backend/fused.h"
#include "toy/base/error.h"

namespace toy {
namespace {

// Made before the device that hands on to it, and destroyed behind it.
struct Owner {
  std::unique_ptr<Device> owned;
};

class ExtendedDevice final : private Owner, public ForwardingDevice {
 public:
  ExtendedDevice(std::unique_ptr<Device> base, std::vector<KernelRecord> more)
      : Owner{std::move(base)}, ForwardingDevice(*owned), kernels_(std::move(more)) {
    for (const KernelRecord& k : kernels_)
      check(!k.op.empty() && k.code, "device '{}': a kernel for '{}' has no {}", name(), k.op,
            k.code ? "name" : "function");
    const auto own = [&](std::string_view op) {
      return std::any_of(kernels_.begin(), kernels_.end(), [&](const KernelRecord& k) { return k.op == op; });
    };
    // What runs two ops as one would pass by a kernel of one's own for either.
    const bool joins = !own("adamw") && !own("linear_grad_w");
    for (const KernelRecord& k : owned->kernels())
      if (joins || k.op != kLinearGradWAdamW) kernels_.push_back(k);
  }
  std::span<const KernelRecord> kernels() const override { return kernels_; }

 private:
  std::vector<KernelRecord> kernels_;
};

}  // namespace

std::unique_ptr<Device> extend_device(std::unique_ptr<Device> base, std::vector<KernelRecord> more) {
  check(base != nullptr, "device: there is none to extend");
  return std::make_unique<ExtendedDevice>(std::move(base), std::move(more));
}

}  // namespace toy
