#include <sched.h>
#include <unistd.h>

#include <cstring>

#include "toy/base/communicator.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {
namespace {

// What a rank may use of its machine.
struct Cores {
  cpu_set_t mask;
  int32_t online;  // of the machine
  int count() const { return CPU_COUNT(&mask); }
};

// CPUs `part` of the mask, or one where there are fewer CPUs than ranks.
void use(const cpu_set_t& mask, int rank, int ranks) {
  const int count = CPU_COUNT(&mask);
  const Range range =
      count >= ranks ? part(count, rank, ranks) : Range{rank % std::max(1, count), rank % std::max(1, count) + 1};
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int cpu = 0, i = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) {
      if (i >= range.begin && i < range.end) CPU_SET(cpu, &mine);
      ++i;
    }
  sched_setaffinity(0, sizeof mine, &mine);
}

}  // namespace

std::string share_cores(Communicator& ranks) {
  const auto n = size_t(ranks.size()), me = size_t(ranks.rank());
  std::vector<Cores> all(n);
  CPU_ZERO(&all[me].mask);
  sched_getaffinity(0, sizeof(cpu_set_t), &all[me].mask);
  all[me].online = int32_t(sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<size_t> bounds;
  for (size_t r = 0; r <= n; ++r) bounds.push_back(r * sizeof(Cores));
  ranks.all_gather(std::as_writable_bytes(std::span(all)), bounds);
  int sharing = 0, index = 0, least = -1;
  for (size_t r = 0; r < n; ++r) {
    int together = 0;  // ranks on its machine
    for (size_t other = 0; other < n; ++other) together += ranks.host(int(other)) == ranks.host(int(r));
    if (all[r].count() * together < all[r].online && least < 0) least = int(r);
    if (ranks.host(int(r)) != ranks.host(int(me)) || !CPU_EQUAL(&all[r].mask, &all[me].mask)) continue;
    if (r < me) ++index;
    ++sharing;
  }
  const cpu_set_t mask = all[me].mask;
  if (sharing > 1) use(mask, index, sharing);
  if (me != 0 || least < 0) return "";
  const Cores& few = all[size_t(least)];
  return fmt::format(
      "rank {} may use {} of the {} cores of {}: start with mpirun --bind-to none, or srun "
      "--cpus-per-task",
      least, few.count(), few.online, ranks.host(least));
}

}  // namespace toy
