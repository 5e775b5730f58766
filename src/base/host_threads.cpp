#include "toy/base/host_threads.h"

#include <atomic>

#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {
namespace {

std::atomic<int> limit{0};

}  // namespace

int host_threads() {
  const int most = limit;
  return most > 0 ? most : available_cpus();
}

void set_host_threads(int threads) {
  check(threads >= 0, "threads: {} is negative; use 0 for every core", threads);
  limit = threads;
}

}  // namespace toy
