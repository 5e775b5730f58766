// The files of a new project.
#pragma once

#include <string>
#include <vector>

namespace toy::cli {

struct ProjectFile {
  std::string path;  ///< below the project's folder, without folders of its own
  std::string text;
  bool executable = false;
};

/// Trains and generates with the program: a corpus, dimensions, options, scripts. `program` is what the scripts call
/// where no `toy` is on the PATH.
std::vector<ProjectFile> training_project(const std::string& name, const std::string& program);
/// A CMake project that uses the installed library, of this program's version.
std::vector<ProjectFile> library_project(const std::string& name);

}  // namespace toy::cli
