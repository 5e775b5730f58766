#include "toy/base/communicator.h"

#include <fmt/format.h>

#include "toy/base/error.h"

namespace toy {

void Communicator::fail_lost(std::span<const int> lost, double seconds) const {
  std::vector<std::string> names;
  for (const int r : lost) names.push_back(fmt::format("{} (host {})", r, host(r)));
  const std::string who =
      names.empty() ? "a rank" : fmt::format("rank{} {}", lost.size() > 1 ? "s" : "", fmt::join(names, ", "));
  fail_internal(
      "{} {} not answered for {:g} s (--rank-timeout): a process hangs, or a host or its network is lost; use --resume "
      "to continue from the last checkpoint",
      who, lost.size() > 1 ? "have" : "has", seconds);
}

}  // namespace toy
