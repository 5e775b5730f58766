// How much memory there is, asked before it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace toy {

/// Bytes that can still be allocated: on this machine (what the system calls available; 0 if unknown), and by the
/// processes of this one's cgroup (the largest number where it has no limit), whose number tells it from others.
struct FreeMemory {
  size_t machine = 0, group = SIZE_MAX;
  uint64_t group_id = 0;
};
FreeMemory free_memory();
/// The smaller of the two: what this process can still allocate. 0 if unknown.
size_t available_memory();
/// Bytes of memory that the machine has, at most the cgroup's limit. 0 if unknown.
size_t total_memory();
/// Throws Error{bad_input} naming what needs the memory, how much, and how much there is where more than `free` are
/// needed. 0: unknown, which is enough. `where`: follows "are free" where it is not the machine's memory.
void require_memory(size_t bytes, std::string_view what, size_t free = available_memory(), std::string_view where = "");
/// Largest resident memory of this process so far, in bytes.
size_t peak_resident_memory();
/// Current resident memory of this process without pages of files: what limits count. 0 if unknown.
size_t anonymous_memory();
/// Throws Error{bad_input} where `bytes` more than this process holds now are more than `limit` (0: none), before
/// anything is allocated: `what` needs them, which limit would do, and `instead`, what else would.
void require_below(size_t limit, size_t bytes, std::string_view what, std::string_view instead);
/// Gives the pages of the heap that nothing uses back to the system. Takes milliseconds.
void release_freed();
/// Gives the pages that lie within a part of a mapped file back to the system, which reads them again when needed.
void release_mapped(std::span<const std::byte> part);
/// Parses the bytes given for `option`: "4G", "1.5GiB" (1024^3), "6GB" (1000^3), K, M and T alike, or a number of
/// bytes. Throws Error{bad_input} naming the option for anything else, and for less than 1 MiB.
size_t parse_bytes(std::string_view option, std::string_view text);
/// "1.5 GiB"
std::string format_bytes(size_t bytes);

}  // namespace toy
