// How much memory there is, asked before it is needed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace toy {

/// Bytes that this process can still have: what the system calls available, cut down by the cgroup's limit. 0 if
/// unknown.
size_t available_memory();
/// Throws Error{bad_input} naming what needs the memory, how much, and how much there is.
void require_memory(size_t bytes, std::string_view what);
/// Largest resident memory of this process so far, in bytes.
size_t peak_resident_memory();
/// "1.5 GiB"
std::string format_bytes(size_t bytes);

}  // namespace toy
