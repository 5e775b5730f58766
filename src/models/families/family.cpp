#include "toy/models/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy {

namespace {

const Family* find_built_in(std::string_view architecture) {
  const auto it = std::find_if(families().begin(), families().end(),
                               [&](const Family& f) { return f.defaults.architecture == architecture; });
  return it == families().end() ? nullptr : &*it;
}

}  // namespace

const std::vector<Family>& families() {
#define TOY_FAMILY(name) name##_family(),
  static const std::vector<Family> list{
#include "models/families/family_list.def"
  };
#undef TOY_FAMILY
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

std::string advice_on(std::string_view architecture) {
  for (const char* encoder : {"bert", "gemma-embedding", "mpnet", "t5encoder"})
    if (architecture.find(encoder) != architecture.npos)
      return "; it is an encoder of a kind that toy does not compute yet: for embeddings use a bert, such as MiniLM, "
             "BGE "
             "or E5, or a causal model, such as Qwen3-Embedding";
  return "";
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
  fail("{}: architecture '{}' is not supported; supported: {}{}", where, architecture, known, advice_on(architecture));
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

bool holds(const ModelSpec& m, std::string_view key) {
  const std::vector<std::string_view>& keys = family_of(m).holds;
  return family_of(m).holds_all || std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::vector<LayerSpec> repeated(const std::vector<LayerSpec>& pattern, size_t n) {
  std::vector<LayerSpec> layers;
  for (size_t i = 0; i < n; ++i) layers.push_back(pattern[i % pattern.size()]);
  return layers;
}

void require_like_layers(const ModelSpec& m, const std::vector<std::string_view>& keys) {
  const std::vector<nlohmann::ordered_json> layers = fields_of(m.layers);
  for (const std::string_view key : keys) {
    const auto has = [&](const nlohmann::ordered_json& layer) { return layer.contains(key); };
    const auto first = std::find_if(layers.begin(), layers.end(), has);
    for (auto layer = first; layer != layers.end(); layer = std::find_if(layer + 1, layers.end(), has))
      check(
          layer->at(key) == first->at(key),
          "model {}: layer {}: {} is {}, that of layer {} is {}; a file of the architecture {} has one for all layers",
          m.name, layer - layers.begin(), key, json_text(layer->at(key)), first - layers.begin(),
          json_text(first->at(key)), m.architecture);
  }
}

void require_ffn(const ModelSpec& m) {
  for (size_t i = 0; i < m.layers.size(); ++i)
    check(m.layers[i].d_ff > 0, "model {}: layer {}: d_ff is 0; in the architecture {} every layer has an ffn", m.name,
          i, m.architecture);
}

void require_own_keys(const ModelSpec& m) {
  for (const LayerSpec& l : m.layers)
    check(l.kv_heads == l.heads, "model {}: n_kv is {}; in the architecture {} it is n_heads, {}", m.name, l.kv_heads,
          m.architecture, l.heads);
}

void require_full_width(const ModelSpec& m) {
  for (const LayerSpec& l : m.layers)
    check(l.heads * l.d_head == m.d_model,
          "model {}: {} heads of width {} are not d_model, {}, which the architecture {} needs", m.name, l.heads,
          l.d_head, m.d_model, m.architecture);
}

void require_held(const ModelSpec& m) {
  const Family& family = family_of(m);
  if (family.holds_all) return;
  std::vector<std::string_view> held = family.holds;
  held.insert(held.end(),
              {"d_model", "vocab", "context", "n_heads", "n_kv", "d_head", "d_ff", eps_key(family.defaults)});
  const auto compare = [&](const std::string& where, const auto& is, const auto& only) {
    for (const auto& [key, value] : is.items())
      if (std::find(held.begin(), held.end(), key) == held.end())
        check(only.contains(key) && value == only.at(key), "model {}: {}{} is {}; in the architecture {} it is {}",
              m.name, where, key, json_text(value), m.architecture,
              only.contains(key) ? json_text(only.at(key)) : "not there");
  };
  compare("", fields_of(m), fields_of(family.defaults));
  std::vector<LayerSpec> usual = repeated(family.defaults.layers, m.layers.size());
  for (size_t i = 0; i < m.layers.size(); ++i)
    if (holds(m, "mixer")) change_mixer(usual[i], m.layers[i].mixer, family.defaults.layers);
  for (size_t i = 0; i < m.layers.size(); ++i)
    compare(fmt::format("layer {}: ", i), fields_of(m.layers[i]), fields_of(usual[i]));
}

}  // namespace toy
