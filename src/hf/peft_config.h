// The adapter_config.json of PEFT.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace toy::hf {

inline constexpr const char* kPeftConfig = "adapter_config.json";

/// What a config says that decides numbers.
struct PeftConfig {
  double alpha = 0;
  bool rslora = false, dora = false;
  std::vector<std::pair<std::string, double>> alphas = {};  ///< of what has this name, or ends in a dot and it
  std::vector<std::string> parameters = {};                 ///< the same
  int64_t rank = 0;                                         ///< 'r'; 0: it does not say
  std::vector<std::pair<std::string, int64_t>> ranks = {};  ///< as `alphas`
  bool other_patterns = false;                              ///< some ranks are for patterns that are no names
  std::string base = {};                                    ///< the model that it was trained on; "": it does not say

  /// Throws Error{bad_input} naming the file and the key that is missing, damaged or not supported.
  static PeftConfig read(const std::string& folder);
  /// `target`: a module, or a module's parameter.
  double scale_of(const std::string& target, int64_t rank) const;
  /// Throws Error{bad_input} where the config says another rank than the tensors have. `where`: the file, for messages.
  void require_rank(const std::string& where, const std::string& target, int64_t of_tensors) const;
  bool has_parameter(const std::string& target) const;
};

}  // namespace toy::hf
