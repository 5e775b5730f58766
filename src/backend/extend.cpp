#include "toy/backend/extend.h"

#include <algorithm>

#include "toy/backend/fused.h"
#include "toy/base/error.h"

namespace toy {
namespace {

class ExtendedDevice final : public Device {
 public:
  ExtendedDevice(std::unique_ptr<Device> base, std::vector<KernelRecord> more)
      : base_(std::move(base)), kernels_(std::move(more)) {
    for (const KernelRecord& k : kernels_)
      check(!k.op.empty() && k.run, "device '{}': a kernel for '{}' has no {}", base_->name(), k.op,
            k.run ? "name" : "function");
    const auto own = [&](std::string_view op) {
      return std::any_of(kernels_.begin(), kernels_.end(), [&](const KernelRecord& k) { return k.op == op; });
    };
    // What runs two ops as one would pass by a kernel of one's own for either.
    const bool joins = !own("adamw") && !own("linear_grad_w");
    for (const KernelRecord& k : base_->kernels())
      if (joins || k.op != kLinearGradWAdamW) kernels_.push_back(k);
  }
  std::string_view name() const override { return base_->name(); }
  DType storage(DType logical) const override { return base_->storage(logical); }
  DType compute() const override { return base_->compute(); }
  bool has_products(DType type) const override { return base_->has_products(type); }
  std::string arithmetic(DType products) const override { return base_->arithmetic(products); }
  std::span<const KernelRecord> kernels() const override { return kernels_; }
  ThreadPool& pool() override { return base_->pool(); }

 private:
  std::unique_ptr<Device> base_;
  std::vector<KernelRecord> kernels_;
};

}  // namespace

std::unique_ptr<Device> extend_device(std::unique_ptr<Device> base, std::vector<KernelRecord> more) {
  check(base != nullptr, "device: there is none to extend");
  return std::make_unique<ExtendedDevice>(std::move(base), std::move(more));
}

}  // namespace toy
