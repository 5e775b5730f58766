// The kernels' text, a part of the program, for drivers that compile it themselves.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace toy::gpu {

/// A file of src/backend/gpu/kernels.
struct Source {
  std::string_view name;  ///< "rms_norm.k"
  std::string_view text;
};
/// All of them.
std::span<const Source> sources();
/// The text of that file with the text of those that it includes in place of each #include "...", and #line where it
/// goes on in another file. Other includes stay.
std::string whole_source(std::string_view name);

}  // namespace toy::gpu
