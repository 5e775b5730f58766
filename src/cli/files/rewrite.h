// Writing a GGUF again with its tensors in other types: progress, interruption, errors of each tensor.
#pragma once

#include <string>

#include "toy/formats/requantize.h"

namespace toy::cli {

/// One file that becomes another.
struct Rewrite {
  std::string in, out;
  std::string type;            ///< as the user named it
  const char* option = "OUT";  ///< what messages call `out`
  bool json = false;           ///< print a JSON object
  bool brief = false;          ///< print no table of tensors
  bool overwrite = false;      ///< `out` may be another model

  /// Throws Error{bad_input} where `out` is `in`, a file that is no GGUF, or without `overwrite` another model.
  void check_out() const;
  /// Writes `out` and prints the result. After Ctrl-C nothing remains, and the program ends.
  void run(const gguf::File& file, const gguf::RequantizeOptions& options) const;

 private:
  void print(const std::vector<gguf::RequantizedTensor>& results, size_t bytes_before) const;
};

}  // namespace toy::cli
