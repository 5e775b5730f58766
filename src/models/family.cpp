#include "models/family.h"

#include <algorithm>
#include <utility>

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

void require_like_layers(const ModelSpec& m) {
  constexpr std::pair<const char*, int64_t LayerSpec::*> kOnce[] = {{"n_heads", &LayerSpec::heads},
                                                                    {"n_kv", &LayerSpec::kv_heads},
                                                                    {"d_head", &LayerSpec::d_head},
                                                                    {"d_ff", &LayerSpec::d_ff},
                                                                    {"window", &LayerSpec::window}};
  for (size_t i = 0; i < m.layers.size(); ++i)
    for (const auto& [what, size] : kOnce)
      check(m.layers[i].*size == m.layers.front().*size,
            "model {}: layer {}: {} is {}, that of layer 0 is {}; a file of the architecture {} has one for all layers",
            m.name, i, what, m.layers[i].*size, m.layers.front().*size, m.architecture);
}

}  // namespace toy
