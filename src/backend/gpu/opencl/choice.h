// Which device of which platform.
#pragma once

#include <string>

#include "backend/gpu/opencl/functions.h"

namespace toy::gpu::opencl {

struct Choice {
  Platform platform = nullptr;
  DeviceId device = nullptr;
  bool gpu = false;
  std::string platform_name, name;
};
/// As make_opencl_driver() says.
Choice choose_device();

/// A property that is text.
std::string text_of(DeviceId device, uint32_t what);
/// A property of type T.
template <class T>
T value_of(DeviceId device, uint32_t what) {
  T value{};
  check_status(functions().clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "a property of the device");
  return value;
}
/// Throws Error{bad_input} for a device whose CL_DEVICE_VERSION ("OpenCL 3.0 CUDA") is below 1.2.
void require_version(std::string_view version, std::string_view name);

}  // namespace toy::gpu::opencl
