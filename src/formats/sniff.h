// Guesses what a file is that is not what it should be, for error messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace toy {

/// A sentence about the file's first bytes with a way out, or "" when they say nothing.
std::string describe_foreign_file(std::span<const std::byte> bytes);

}  // namespace toy
