#include "toy/models/family.h"

#include <algorithm>
#include <utility>

#include "models/families.h"
#include "toy/base/error.h"

namespace toy {

namespace {

const Family* find_built_in(std::string_view architecture) {
  const auto it = std::find_if(families().begin(), families().end(),
                               [&](const Family& f) { return f.defaults.architecture == architecture; });
  return it == families().end() ? nullptr : &*it;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> list{llama_family(), gpt2_family()};
  return list;
}

ModelSpec spec_of(const std::shared_ptr<const Family>& family) {
  check(family != nullptr, "family: it is null");
  const ModelSpec& defaults = family->defaults;
  check(!defaults.architecture.empty() && !defaults.layers.empty() && family->read && family->write,
        "family '{}': it needs a name (defaults.architecture), one layer as the pattern, read and write",
        defaults.architecture);
  ModelSpec spec = defaults;
  spec.family = family;
  return spec;
}

ModelSpec spec_of(std::string_view architecture, const Families& more, const std::string& where) {
  std::string known;
  for (const auto& family : more) {
    ModelSpec spec = spec_of(family);
    if (spec.architecture == architecture) return spec;
    known += spec.architecture + ", ";
  }
  if (const Family* family = find_built_in(architecture)) return family->defaults;
  for (const Family& f : families()) known += f.defaults.architecture + ", ";
  known.resize(known.size() - 2);
  fail("{}: architecture '{}' is not supported; supported: {}", where, architecture, known);
}

const Family& family_of(const ModelSpec& spec) {
  const Family* family = spec.family ? spec.family.get() : find_built_in(spec.architecture);
  check(family != nullptr, "model {}: architecture '{}' is not built in, and the model names no family of its own",
        spec.name, spec.architecture);
  check(family->defaults.architecture == spec.architecture,
        "model {}: architecture is '{}', and its family is '{}'; they must agree", spec.name, spec.architecture,
        family->defaults.architecture);
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
