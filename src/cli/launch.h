// Programs that mpirun or srun started as several tasks.
#pragma once

#include <functional>
#include <span>

#include "toy/base/communicator.h"

namespace toy::cli {

/// Runs `work` in the one process that there is, or in rank 0. Of the other ranks, those of a command that trains do
/// their part, and the others have nothing to do. `arguments`: of main(). Returns the exit code, the same in all ranks.
int run_in_ranks(std::span<char*> arguments, const std::function<int(Communicator* ranks)>& work);

}  // namespace toy::cli
