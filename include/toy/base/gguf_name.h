// What the names of GGUF files say.
#pragma once

#include <optional>
#include <string>

namespace toy {

/// "NAME-00002-of-00005.gguf": one of the files over which a model is split.
struct SplitName {
  std::string stem;  ///< "NAME", with its folder
  int part = 0;      ///< from 1
  int parts = 0;     ///< how many there are
  std::string text;  ///< of `parts`, with its zeros
  /// The name of a part.
  std::string of(int number) const;
};
/// Nothing for other names.
std::optional<SplitName> split_name(const std::string& path);

/// Is it by its name a file that goes with models and is none: a projector of images (mmproj), an importance matrix?
bool is_side_file_name(const std::string& path);

}  // namespace toy
