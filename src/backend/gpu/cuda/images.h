// The kernels as nvcc compiled them when toy was built, a part of the program.
#pragma once

#include <span>
#include <string_view>

namespace toy::gpu::cuda {

/// Code of one file for every architecture that the build knows; the driver picks.
struct Image {
  std::string_view file;  ///< KernelInfo::file
  const void* data;
};
/// One for each file of kernels; none where the build had no nvcc.
std::span<const Image> images();
/// nvcc's version, as cuDriverGetVersion() counts: 13000 for 13.0. 0 without nvcc.
int built_with();

}  // namespace toy::gpu::cuda
