// Compiled programs on disk, in the user's cache folder: what a driver compiled once is loaded the next time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toy::gpu::opencl {

/// What was stored for that key; empty where nothing was, or what is there is damaged.
std::vector<unsigned char> load_program(const std::string& key);
/// Is there a folder to store programs in?
bool can_store_programs();
/// Stores it.
void store_program(const std::string& key, const std::vector<unsigned char>& binary);

}  // namespace toy::gpu::opencl
