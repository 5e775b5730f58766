// Suggestions for unknown words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// The candidate that is most like `word` (edit distance), or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace toy
