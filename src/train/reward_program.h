// A reward that a program gives.
#pragma once

#include <memory>
#include <string>

#include "toy/train/reward.h"

namespace toy {

/// Starts `command` with /bin/sh. It is sent a JSON object a line and answers each with one: docs/grpo.md. It ends with
/// the reward. Throws Error{bad_input} where it cannot be started; judge() throws Error{failure} with the line that
/// it does not understand, and where the program ends or is silent for `timeout` seconds.
std::unique_ptr<Reward> program_reward(const std::string& command, double timeout);

}  // namespace toy
