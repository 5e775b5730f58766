// The list of devices: the one place that knows all of them.
#include "toy/backend/devices.h"

#include <fmt/format.h>

#include <vector>

#include "toy/base/error.h"

namespace toy {

std::span<const DeviceKind> devices() {
  static const DeviceKind all[] = {
      {"cpu", "f32 with SIMD", [](const DeviceChoice& choice) { return make_cpu_device(choice.threads); }},
      {"cuda", "NVIDIA's GPUs", [](const DeviceChoice&) { return make_cuda_device(); }},
      {"opencl", "any GPU with an OpenCL driver", [](const DeviceChoice&) { return make_opencl_device(); }},
      {"emulated", "the GPU's kernels, slowly on the CPU", [](const DeviceChoice&) { return make_emulated_device(); }},
      {"reference", "slow f64 loops to compare with", [](const DeviceChoice&) { return make_reference_device(); }},
  };
  return all;
}

std::unique_ptr<Device> make_device(std::string_view name, const DeviceChoice& choice) {
  std::vector<std::string_view> names;
  for (const DeviceKind& kind : devices()) {
    if (kind.name == name) return kind.make(choice);
    names.push_back(kind.name);
  }
  fail("device '{}' is unknown; this build has {}", name, fmt::join(names, ", "));
}

}  // namespace toy
