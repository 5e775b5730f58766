#include "toy/base/user_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace toy {

std::string user_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/toy";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/toy";
  return {};
}

bool make_writable(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return !error && access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace toy
