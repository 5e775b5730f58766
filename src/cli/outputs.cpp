#include "cli/outputs.h"

#include <filesystem>

#include "bind/files.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"

namespace toy::cli {

bool begins_as_text(std::string_view beginning) {
  constexpr size_t kLongest = 3;  // of a character without its last byte
  if (beginning.find('\0') != beginning.npos) return false;
  for (size_t cut = 0; cut <= std::min(kLongest, beginning.size()); ++cut)
    if (is_utf8(beginning.substr(0, beginning.size() - cut))) return true;
  return false;
}

void refuse_losing(const std::string& option, const std::string& out, bool overwrite, const IsOwn& is_own,
                   const std::function<std::string(std::string_view there)>& again) {
  std::string beginning;
  refuse_replacing(option, out, [&](std::string_view there) {
    beginning = there;
    return is_own(there);
  });
  if (overwrite || beginning.empty()) return;
  if (!again) return bind::require_new(option, out, overwrite, "--overwrite it");
  const auto is_written_again = [&](std::string_view there) { return again(there).starts_with(there); };
  std::error_code error;
  const bool is_all = std::filesystem::file_size(out, error) == beginning.size();
  if (!is_all) beginning.resize(beginning.rfind('\n') + 1);
  // The beginning first: a large file of another origin is not read.
  check(is_written_again(beginning) && (is_all || is_written_again(read_text_file(out))),
        "{}: '{}' exists, and these options do not write it again; use another name, or --overwrite it", option, out);
}

}  // namespace toy::cli
