#include "models/family.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {

const std::vector<Family>& families() {
  static const std::vector<Family> list{llama_family(), gpt2_family()};
  return list;
}

std::string family_names() {
  std::string names;
  for (const Family& f : families()) names += (names.empty() ? "" : ", ") + f.defaults.architecture;
  return names;
}

const Family* find_family(std::string_view architecture) {
  const auto it = std::find_if(families().begin(), families().end(),
                               [&](const Family& f) { return f.defaults.architecture == architecture; });
  return it == families().end() ? nullptr : &*it;
}

const Family& family_of(const ModelSpec& spec) {
  const Family* family = find_family(spec.architecture);
  check(family != nullptr, "model {}: architecture '{}' is not known; known: {}", spec.name, spec.architecture,
        family_names());
  return *family;
}

}  // namespace toy
