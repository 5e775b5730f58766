// Work-items of a group as fibers of one thread: they run one after another, each until it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// The item that runs.
struct Running {
  int item = 0, group[3] = {};
};
extern Running running;

/// For the item that runs: until all items of its group, or of its warp, wait at that line.
void wait_for_group(int line);
void wait_for_warp(int line);
/// Gives a value to the lanes of the warp, and returns that of the lane whose number differs in `mask`.
uint32_t exchange(uint32_t value, int mask, int line);

inline constexpr size_t kAllFit = ~size_t(0);
/// A kernel as C++.
struct Text {
  const char* name;
  int items;
  void (*call)(const Launch& launch);               ///< of one item
  size_t (*misfit)(const Launch& launch) noexcept;  ///< the first argument that is not one of its parameter; or kAllFit
  std::vector<Arg> (*take)(void* const* values);    ///< its arguments, from where each lies
  char *local, *local_end;                          ///< where its local memory lies, with that of others of its file
};

/// In which order the items of a group run between barriers. The bits must not depend on it.
enum class ItemOrder { ascending, descending, shuffled };

/// All groups of a launch, one after another. Throws Error{failure} for barriers that do not fit, naming the item.
void run_groups(const Text& text, const Launch& launch, ItemOrder order);
/// "kernel rms_norm, item 3 of group (0,0,0)": what runs; empty where none does.
const char* describe_running(char* buffer, size_t bytes) noexcept;

}  // namespace toy::gpu
