// Standard error for people. What it cannot say must not stop the work: write errors are ignored.
#pragma once

#include <string_view>

namespace toy::cli {

void to_stderr(std::string_view text);
/// Opens /dev/null in place of closed standard streams, so that no file of ours gets their numbers; writing to a
/// standard output that was closed fails. Call it first.
void ensure_standard_streams();

}  // namespace toy::cli
