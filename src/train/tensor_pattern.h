// Patterns that a user gives for tensors of a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// Throws Error{bad_input} where `pattern` fits none of `names`, with the pattern nearest to it that fits some. `what`
/// they are, such as "tensor".
void require_match(std::string_view option, const std::string& pattern, const std::vector<std::string>& names,
                   std::string_view what = "tensor");

}  // namespace toy
