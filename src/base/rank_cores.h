// How ranks divide the cores of their machines.
#pragma once

#include <sched.h>

#include <cstdint>
#include <span>
#include <string>

namespace toy {

/// What a rank may use of its machine.
struct Cores {
  cpu_set_t mask;
  int32_t online;  ///< of the machine
  int count() const { return CPU_COUNT(&mask); }
};

/// What rank `me` takes of its mask: all, or its part where ranks of its machine have the same one. `hosts` and `cores`
/// are those of all ranks.
cpu_set_t cores_of(int me, std::span<const std::string> hosts, std::span<const Cores> cores);
/// A warning where the ranks of a machine leave cores of it unused, naming the first rank with too few; else "".
std::string unused_cores(std::span<const std::string> hosts, std::span<const Cores> cores);

}  // namespace toy
