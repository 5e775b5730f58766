// Where programs keep what they can make again.
#pragma once

#include <string>

namespace toy {

/// The user's folder for it, of this program: $XDG_CACHE_HOME/toy or ~/.cache/toy (XDG Base Directory Specification).
/// It need not exist. "" without a home.
std::string user_cache();
/// Makes the folder unless it exists. False where files cannot be written there.
bool make_writable(const std::string& folder);

}  // namespace toy
