// The devices this build has.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "toy/backend/device.h"

namespace toy {

/// f64 plain loops on one thread: the executable specification.
std::unique_ptr<Device> make_reference_device();
/// f32 with SIMD. threads 0: every core. Throws Error{bad_input} where the processor lacks the baseline (SSSE3, NEON).
std::unique_ptr<Device> make_cpu_device(int threads = 0);
/// The kernels of GPUs on one thread of the CPU, slowly: their mistakes are found here (docs/gpu.md).
std::unique_ptr<Device> make_emulated_device();
/// An NVIDIA GPU: the first that its driver shows. Throws Error{bad_input} naming what is missing.
std::unique_ptr<Device> make_cuda_device();
/// A device of any OpenCL driver: a GPU where there is one, or what the environment variable TOY_OPENCL_DEVICE names a
/// part of. Throws Error{bad_input} naming what is missing.
std::unique_ptr<Device> make_opencl_device();

/// What a device is made with.
struct DeviceChoice {
  int threads = 0;  ///< of the host, where they run its kernels; 0: every core
};

/// A kind of device that this build has.
struct DeviceKind {
  std::string_view name;                                 ///< Device::name(), and the word of --device
  std::string_view title;                                ///< what it computes with
  std::unique_ptr<Device> (*make)(const DeviceChoice&);  ///< throws Error{bad_input} if this machine lacks something
};

/// All of them, the default first.
std::span<const DeviceKind> devices();
/// The device of that name. Throws Error{bad_input} for a name that devices() does not have, or as DeviceKind::make.
std::unique_ptr<Device> make_device(std::string_view name, const DeviceChoice& choice = {});

/// How many times faster the device's dense products are with bf16 operands than with f32, measured on products of a
/// training step for some milliseconds. 0: it has none.
double bf16_speedup(Device& device);

}  // namespace toy
