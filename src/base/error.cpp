#include "toy/base/error.h"

#include <fmt/format.h>

namespace toy {

void throw_error(ErrorCode code, fmt::string_view format, fmt::format_args args) {
  throw Error(code, fmt::vformat(format, args));
}

void throw_disk_full(fmt::string_view format, fmt::format_args args) { throw DiskFull(fmt::vformat(format, args)); }

}  // namespace toy
