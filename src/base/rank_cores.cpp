#include "base/rank_cores.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "toy/base/communicator.h"
#include "toy/base/threads.h"

namespace toy {

cpu_set_t cores_of(int me, std::span<const std::string> hosts, std::span<const Cores> cores) {
  const cpu_set_t& mask = cores[size_t(me)].mask;
  int sharing = 0, index = 0;
  for (size_t r = 0; r < cores.size(); ++r) {
    if (hosts[r] != hosts[size_t(me)] || !CPU_EQUAL(&cores[r].mask, &mask)) continue;
    if (int(r) < me) ++index;
    ++sharing;
  }
  const int count = CPU_COUNT(&mask);
  if (sharing == 1 || count == 0) return mask;
  // One where there are fewer CPUs than ranks.
  const Range range = count >= sharing ? part(count, index, sharing) : Range{index % count, index % count + 1};
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int cpu = 0, i = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) {
      if (i >= range.begin && i < range.end) CPU_SET(cpu, &mine);
      ++i;
    }
  return mine;
}

std::string unused_cores(std::span<const std::string> hosts, std::span<const Cores> cores) {
  for (size_t r = 0; r < cores.size(); ++r) {
    const auto together = int(std::ranges::count(hosts, hosts[r]));
    if (cores[r].count() * together >= cores[r].online) continue;
    return fmt::format(
        "rank {} may use {} of the {} cores of {}: start with mpirun --bind-to none, or srun --cpus-per-task", r,
        cores[r].count(), cores[r].online, hosts[r]);
  }
  return "";
}

std::string share_cores(Communicator& ranks) {
  const auto n = size_t(ranks.size()), me = size_t(ranks.rank());
  std::vector<Cores> all(n);
  CPU_ZERO(&all[me].mask);
  sched_getaffinity(0, sizeof(cpu_set_t), &all[me].mask);
  all[me].online = int32_t(sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<size_t> bounds;
  for (size_t r = 0; r <= n; ++r) bounds.push_back(r * sizeof(Cores));
  ranks.all_gather(std::as_writable_bytes(std::span(all)), bounds);
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks.size(); ++r) hosts.push_back(ranks.host(r));
  const cpu_set_t mine = cores_of(int(me), hosts, all);
  if (!CPU_EQUAL(&mine, &all[me].mask)) sched_setaffinity(0, sizeof mine, &mine);
  return me == 0 ? unused_cores(hosts, all) : "";
}

}  // namespace toy
