// Ranks above 0 of a job that trains.
#pragma once

#include "toy/base/communicator.h"

namespace toy {

/// Does what trainers of rank 0 (TrainerOptions::ranks) want done, until dismiss_workers(). Needs no files. Returns the
/// exit code of the job. What goes wrong here is thrown by rank 0's trainer, with rank and host.
int run_worker(Communicator& ranks);
/// Rank 0, whose trainers are gone: the others return from run_worker().
void dismiss_workers(Communicator& ranks, int exit_code);

}  // namespace toy
