#include "backend/gpu/opencl/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/gpu/driver.h"
#include "toy/base/error.h"

namespace toy::gpu::opencl {
namespace {

constexpr const char* kVariable = "TOY_OPENCL_DEVICE";
constexpr const char* kInstall =
    "install one for this machine's GPU (on Debian: mesa-opencl-icd for AMD, intel-opencl-icd, nvidia-opencl-icd; "
    "pocl-opencl-icd for the CPU)";

// A text of clGetPlatformInfo() or clGetDeviceInfo().
template <class Info, class Of>
std::string text_by(Info info, Of of, uint32_t what) {
  size_t bytes = 0;
  check_status(info(of, what, 0, nullptr, &bytes), "a property of the device");
  std::string text(bytes, '\0');
  check_status(info(of, what, bytes, text.data(), nullptr), "a property of the device");
  return text.substr(0, text.find('\0'));
}

std::vector<Choice> all_devices() {
  const Functions& f = functions();
  check(f.missing.empty(),
        "device 'opencl' needs a loader of OpenCL drivers: {}; on Debian: apt-get install "
        "ocl-icd-libopencl1, and a driver: {}",
        f.missing, kInstall);
  uint32_t count = 0;
  f.clGetPlatformIDs(0, nullptr, &count);  // an error: no platform
  std::vector<Platform> platforms(count);
  if (count > 0) check_status(f.clGetPlatformIDs(count, platforms.data(), nullptr), "the platforms");
  std::vector<Choice> all;
  for (Platform p : platforms) {
    uint32_t devices = 0;
    f.clGetDeviceIDs(p, kAnyDevice, 0, nullptr, &devices);  // an error: no device
    std::vector<DeviceId> ids(devices);
    if (devices > 0) check_status(f.clGetDeviceIDs(p, kAnyDevice, devices, ids.data(), nullptr), "the devices");
    for (DeviceId id : ids)
      if (value_of<uint32_t>(id, kAvailable) && value_of<uint32_t>(id, kHasCompiler))
        all.push_back({p, id, (value_of<Bits>(id, kDeviceType) & kIsGpu) != 0,
                       text_by(f.clGetPlatformInfo, p, kPlatformName), text_of(id, kDeviceName)});
  }
  check(!all.empty(), "device 'opencl': there is no OpenCL device; {}", kInstall);
  return all;
}

}  // namespace

void require_version(std::string_view version, std::string_view name) {
  int major = 0, minor = 0;
  const bool known = std::sscanf(std::string(version).c_str(), "OpenCL %d.%d", &major, &minor) == 2;
  check(known && 10 * major + minor >= 12,
        "device 'opencl': '{}' has '{}', and the kernels need OpenCL 1.2; install a newer driver, or choose another "
        "device with {}",
        name, version, kVariable);
}

std::string text_of(DeviceId device, uint32_t what) { return text_by(functions().clGetDeviceInfo, device, what); }

Choice choose_device() {
  const std::vector<Choice> all = all_devices();
  const char* const wanted = std::getenv(kVariable);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Choice& c) {
    return wanted ? c.name.find(wanted) != std::string::npos || c.platform_name.find(wanted) != std::string::npos
                  : c.gpu;
  });
  if (found == all.end() && wanted) {
    std::vector<std::string> names;
    for (const Choice& c : all) names.push_back(fmt::format("'{}' of '{}'", c.name, c.platform_name));
    fail("{} is '{}', and no OpenCL device has that in its name; there are {}", kVariable, wanted,
         fmt::join(names, ", "));
  }
  return found == all.end() ? all.front() : *found;
}

}  // namespace toy::gpu::opencl
