// What the names of GGUF files say.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace toy {

/// "NAME-00002-of-00005.gguf": one of the files over which a model is split.
struct SplitName {
  std::string stem;  ///< "NAME", with its folder
  int part = 0;      ///< from 1
  int parts = 0;     ///< how many there are
  std::string text;  ///< of `parts`, with its zeros
  /// The name of a part.
  std::string of(int number) const;
  /// The first of the parts that is not there as a file, or 0.
  int missing() const;
};
/// Nothing for other names.
std::optional<SplitName> split_name(const std::string& path);
/// The same of a file, which may be a link under another name or in another folder: where no other parts lie next to
/// it, those next to the file that it links to.
std::optional<SplitName> find_split(const std::string& path);

/// Is it by its name a file that goes with models and is none: a projector of images (mmproj), an importance matrix?
bool is_side_file_name(const std::string& path);

/// Is it the file `in`, or another part of a model that `in` is a part of?
bool is_same_file(const std::string& out, const std::string& in);
/// Throws Error{bad_input} where `out` is a file that the command reads: `inputs` are pairs of an option and a path.
void refuse_overwriting(const std::string& option, const std::string& out,
                        std::initializer_list<std::pair<const char*, std::string>> inputs);

}  // namespace toy
