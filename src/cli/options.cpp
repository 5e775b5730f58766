#include "cli/options.h"

#include "toy/base/error.h"
#include "toy/models/spec.h"

namespace toy::cli {

void DeviceOptions::add(CLI::App& app) {
  app.add_option("--device", device, "cpu (f32, SIMD) or reference (f64 plain loops, slow: what every op means)")
      ->capture_default_str();
  app.add_option("--threads", threads, "number of threads, 1 to 1024; 0: every core. Results do not depend on it")
      ->capture_default_str();
}

std::unique_ptr<Device> DeviceOptions::make() const {
  check(threads >= 0 && threads <= 1024, "threads: {} is not in 1 to 1024 (0 uses every core)", threads);
  if (device == "cpu") return make_cpu_device(threads);
  if (device == "reference") return make_reference_device();
  const std::string near = nearest(device, {"cpu", "reference"});
  fail("device '{}' is not there; this build has: cpu, reference{}", device, near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace toy::cli
