// What a plan holds in memory from step to step, and what each layer of it costs: known before anything runs.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "toy/graph/cost.h"
#include "toy/runtime/plan.h"

namespace toy {

/// One block of the arena, from the step that makes it to the last that needs it, both inclusive.
struct LiveBlock {
  int first = 0, last = 0;
  size_t bytes = 0, offset = 0;
  std::string what;  ///< "blk.3: swiglu f32[1024,1536]"
  /// A gradient is what backward makes and an update reads; workspace is what only kernels see; the rest are values.
  enum Use { value, gradient, workspace } use = value;
};

/// The arena over time.
struct MemoryProfile {
  std::vector<LiveBlock> blocks;  ///< in the order in which they are made
  std::vector<size_t> live;       ///< bytes that are needed during each step
  std::vector<Phase> phases;      ///< of the steps
  size_t arena_bytes = 0;         ///< what the plan takes for them: the peak and free gaps between blocks
  int peak_step = 0;              ///< the first of those with most

  size_t peak_bytes() const { return live.empty() ? 0 : live[size_t(peak_step)]; }
  /// Blocks alive at a step, the largest first.
  std::vector<LiveBlock> at(int step) const;
};
/// Lifetimes and bytes of all blocks of a plan's arena.
MemoryProfile memory_profile(const Plan& plan);

/// A line of blocks as high as the memory in use, the phases below it, and the `most` largest blocks of the peak.
std::string to_text(const MemoryProfile& profile, size_t most = 12);
/// {"arena_bytes", "peak_bytes", "peak_step", "live": [...], "phases": [...], "blocks": [{"first", "last", "bytes",
/// "offset", "what", "use"}]}
nlohmann::ordered_json to_json(const MemoryProfile& profile);

/// Bytes that a step reads or writes, and how many bytes other steps touched since these were last read or written:
/// what a level of memory has to hold for them to be still cached there.
struct Reuse {
  double bytes = 0, since = 0;
};
/// Of each operand of each step, for a plan that runs repeatedly. The bytes of a step add up to its cost's.
std::vector<std::vector<Reuse>> reuse_of(const Plan& plan);

/// Work of the steps of one layer, or of each of several identical consecutive layers.
struct LayerCost {
  std::string layer;  ///< "blk.3"; steps without a layer are listed under their op
  std::string last;   ///< of several identical ones, the last
  int count = 1;
  std::array<Cost, kPhases.size()> phases;       ///< of one of them
  std::array<double, kPhases.size()> seconds{};  ///< of the mean one
};
/// In the order in which the layers begin. `seconds`: of each step, or nothing.
std::vector<LayerCost> costs_by_layer(const Plan& plan, std::span<const double> seconds = {});

}  // namespace toy
