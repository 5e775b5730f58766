// How many threads the host uses for its own work beside a device, such as loading and scoring.
#pragma once

namespace toy {

/// Every CPU (available_cpus()), or what set_host_threads() set.
int host_threads();
/// Limits them for the whole process, for teams that are made afterwards. 0: every CPU.
void set_host_threads(int threads);

}  // namespace toy
