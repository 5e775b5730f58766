// Compiled programs on disk, in the user's cache folder: what a driver compiled once is loaded the next time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toy::gpu::opencl {

/// What was stored for that key; empty where nothing was, or what is there is damaged.
std::vector<unsigned char> load_program(const std::string& key);
/// Stores it. Without a folder that can be written to: nothing.
void store_program(const std::string& key, const std::vector<unsigned char>& binary);

}  // namespace toy::gpu::opencl
