// What tests of files share. Nothing of the library: the tests of the program use it, too.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace toy::testing {

namespace fs = std::filesystem;

/// A new folder that is removed with all that is in it; a fixture may be one.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "toy_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Path of a file in it, or its own.
  std::string path(const std::string& name = {}) const { return name.empty() ? path_ : path_ + "/" + name; }
  /// Writes a file, in new folders where need be, and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// How many files and folders lie in it, or in a folder of it.
  size_t entries(const std::string& name = {}) const {
    return size_t(std::distance(fs::directory_iterator(path(name)), {}));
  }

 private:
  std::string path_;
};

/// All bytes of a file.
inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Path of a file of TOY_SHARED_DIR (data too large for the repository); "" when it is not there.
inline std::string shared_path(const std::string& name) {
  const fs::path path = fs::path(TOY_SHARED_DIR) / name;
  return fs::exists(path) ? path.string() : "";
}

}  // namespace toy::testing
