// The header X-Toy-Ignored: which fields of a request had no effect.
#pragma once

#include <string>
#include <vector>

namespace toy::serve {

/// Names with commas between, as a header can hold them: other bytes than letters, digits and .$[]_- are
/// percent-encoded, and a long list ends with "and N more".
std::string ignored_text(const std::vector<std::string>& names);

}  // namespace toy::serve
