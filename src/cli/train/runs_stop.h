// toy runs stop: ends a run as Ctrl-C does, from anywhere on its machine.
#pragma once

#include "cli/command.h"

namespace toy::cli {

void add_runs_stop(CLI::App& runs);

}  // namespace toy::cli
