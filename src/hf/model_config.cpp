// The checks and names that all classes share.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hf/models.h"
#include "hf/names.h"
#include "models/families/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool alike(const ordered_json& a, const ordered_json& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::abs(x);
}

// Whether heads of which `width` elements turn have the same angles.
bool same_angles(const RopeSpec& a, const RopeSpec& b, int64_t width) {
  const auto same = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(x); };
  if (a.pairing != b.pairing || a.dims != b.dims || !same(rope_magnitude(a), rope_magnitude(b))) return false;
  if (!a.long_factors.empty() && a.original_context != b.original_context) return false;
  if (a.long_factors.size() != b.long_factors.size()) return false;
  for (const int64_t positions : {int64_t(1), int64_t(1) << 40}) {
    const std::vector<double> x = rope_frequencies(a, width, positions), y = rope_frequencies(b, width, positions);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

// The part of a name between "blk.N." and ".weight", ".bias" or its end.
struct Parts {
  std::string_view layer, stem, kind;  // layer: "3", or "" outside of layers
};
Parts parts_of(std::string_view name) {
  Parts p;
  for (const std::string_view kind : {".weight", ".bias"})
    if (name.ends_with(kind)) p.kind = kind;
  name.remove_suffix(p.kind.size());
  for (const std::string_view blocks : {"blk.", "v.blk."}) {
    if (!name.starts_with(blocks)) continue;
    name.remove_prefix(blocks.size());
    p.layer = name.substr(0, name.find('.'));
    name.remove_prefix(p.layer.size() + 1);
  }
  p.stem = name;
  return p;
}

}  // namespace

const HfModel& model_of(Config& config) {
  if (config.has("text_config")) {
    Config text = config.object("text_config");
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"})
      if (const json* value = config.find(key)) text.add_defaults(json_text(json{{key, *value}}));
    config = std::move(text);
  }
  const std::string type = config.text("model_type", "");
  std::string known;
  for (const HfModel& m : models()) {
    if (m.type == type && (!m.takes || m.takes(config))) {
      config.add_defaults(m.defaults);
      return m;
    }
    if (!m.takes) known.append(known.empty() ? "" : ", ").append(m.type);
  }
  fail("{}: model_type '{}' is not supported; supported: {}{}", config.path(), type, known, advice_on(type));
}

const HfModel& model_of(const ModelSpec& spec) {
  for (const HfModel& m : models())
    if (m.architecture == spec.architecture && m.fits(spec)) return m;
  fail("model {}: transformers has no class for this model of the architecture {}", spec.name, spec.architecture);
}

Reading read_config(const HfModel& model, const Config& config) {
  Reading r{spec_of(model.architecture, {}, config.path()), 1};
  model.read(config, r);
  ModelSpec& m = r.spec;
  m.name = model.type;
  r.ties = m.tied;
  // Families whose files always hold the output.
  if (m.tied && !holds(m, "tied") && !family_of(m).defaults.tied) m.tied = false;
  try {
    m.validate();
  } catch (const Error& e) {
    fail("{}: a GGUF cannot hold this model: {}", config.path(), e.what());
  }
  return r;
}

ordered_json write_config(const HfModel& model, const ModelSpec& spec) {
  ordered_json c = {{"architectures", {model.class_name}}, {"model_type", model.type}};
  model.write(c, spec);
  // What the config does not say would silently be something else.
  Config config(json(c), "config.json");
  ModelSpec again = read_config(model_of(config), config).spec;
  const LayerSpec& layer = first_turning(spec);
  if (same_angles(again.rope, spec.rope, layer.rope_dims > 0 ? layer.rope_dims : layer.d_head)) again.rope = spec.rope;
  for (size_t i = 0; i < spec.layers.size(); ++i) {  // how a GGUF holds them
    again.layers[i].fused_qkv = spec.layers[i].fused_qkv;
    again.layers[i].fused_gate_up = spec.layers[i].fused_gate_up;
  }
  again.mask_head = spec.mask_head;              // which the class says; folders are read without it
  again.embedding_inner = spec.embedding_inner;  // of which modules.json says
  const auto compare = [&](const std::string& where, const ordered_json& is, const ordered_json& said) {
    for (const auto& [key, value] : is.items())
      check(alike(value, said.at(key)), "model {}: {}{} is {}; the class {} of transformers cannot state that",
            spec.name, where, key, json_text(value), model.class_name);
  };
  compare("", fields_of(spec), fields_of(again));
  check(spec.rope.scaling == again.rope.scaling,
        "model {}: the class {} of transformers cannot state how rope is scaled", spec.name, model.class_name);
  for (size_t i = 0; i < spec.layers.size(); ++i)
    compare(fmt::format("layer {}: ", i), fields_of(spec.layers[i]), fields_of(again.layers[i]));
  return c;
}

std::string hf_name(const HfModel& model, std::string_view gguf_name) {
  const Parts p = parts_of(gguf_name);
  const auto in = [&](std::span<const TensorName> names, std::string_view gguf) {
    const auto it = std::find_if(names.begin(), names.end(), [&](const TensorName& n) { return n.gguf == gguf; });
    return it == names.end() ? std::string() : std::string(it->hf);
  };
  const std::string start = p.layer.empty() ? "" : fmt::format("{}{}.", model.layers, p.layer);
  for (const auto names : std::array<std::span<const TensorName>, 3>{model.names, kLlamaNames, kUsualNames}) {
    if (const std::string complete = in(names, fmt::format("{}{}", p.stem, p.kind)); !complete.empty())
      return start + complete;
    if (const std::string stem = in(names, p.stem); !stem.empty()) return fmt::format("{}{}{}", start, stem, p.kind);
  }
  fail("tensor '{}': the class {} has no such tensor", gguf_name, model.class_name);
}

}  // namespace toy::hf
