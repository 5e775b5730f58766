// The library's version.
#pragma once

namespace toy::bind {

/// "0.1.0".
const char* version();

}  // namespace toy::bind
