// Memory for the way back where there is none.
#pragma once

#include <cstddef>
#include <string_view>

namespace toy::serve {

/// While it lives, its thread has memory in reserve for a lack of it. JSON trees allocate where they are destroyed, and
/// an exception there would end the process. The first allocation that fails takes one half of the reserve and goes on:
/// it may be that of a destructor. The next one throws, and while that exception is on its way, allocations that fail
/// take the other half. One at a time for each thread.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc where there is no such memory. It is not touched.
  explicit MemoryReserve(size_t bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
};

/// Enough for errors and small trees.
inline constexpr size_t kSmallReserve = size_t(1) << 20;

/// What destroying the JSON of this text, and copies of its parts, takes at most, about.
size_t bytes_to_destroy(std::string_view json);

}  // namespace toy::serve
