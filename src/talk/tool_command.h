// Results of calls from a command.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace toy::talk {

/// What answers calls; without a command the user does.
struct ToolCommand {
  std::string command;  ///< for sh -c
  bool always = false;  ///< without asking for each call
};

/// More bytes of a result are left out.
inline constexpr size_t kMostResultBytes = size_t(256) << 10;

/// Runs a command with a line of JSON, {"name", "arguments"}, on its standard input. Its standard output, without the
/// line break at the end, is the result; a command that fails gives one that begins with "Error: ". `stop` is asked
/// often, and ends the command and what it has started. nullopt: it was stopped. Throws Error where no command can be
/// started.
std::optional<std::string> run_tool_command(const std::string& command, const nlohmann::ordered_json& function,
                                            const std::function<bool()>& stop);

}  // namespace toy::talk
