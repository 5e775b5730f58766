// `toy`: models that no other architecture can state, such as layers of several kinds beyond what llama.cpp knows. The
// key toy.dimensions holds all of them as JSON, with the keys of docs/model-keys.md; tensors are called as usual.
#include <nlohmann/json.hpp>

#include "models/families/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy {
namespace {

constexpr const char* kKey = "dimensions";

// Whatever is wrong with them, the message begins with the file.
ModelSpec read_dimensions(const std::string& path, const std::string& key, const std::string& text) {
  try {
    return spec_from_json(read_json<nlohmann::json>(key, text), key);
  } catch (const Error& e) {
    fail("{}: {}", path, e.what());
  }
}

void read(Metadata& metadata, ModelSpec& m) {
  const std::string path = metadata.file().path(), where = path + ": " + metadata.key(kKey);
  check(metadata.has(kKey), "{} is missing", where);
  const ModelSpec stated = read_dimensions(path, metadata.key(kKey), metadata.text(kKey, ""));
  check(stated.architecture == m.architecture, "{}: architecture is '{}', expected '{}'", where, stated.architecture,
        m.architecture);
  check(stated.d_model == m.d_model && stated.layers.size() == m.layers.size() && stated.context == m.context,
        "{}: d_model, n_layers and context are {}, {} and {}; other keys say {}, {} and {}", where, stated.d_model,
        stated.layers.size(), stated.context, m.d_model, m.layers.size(), m.context);
  const std::string name = m.name;
  m = stated;
  m.name = name;
}

void write(MetadataWriter& w, const ModelSpec& m) { w.text(kKey, json_text(to_json(m))); }

}  // namespace

Family toy_family() {
  Family f{.defaults = {}, .read = read, .write = write};
  f.defaults.architecture = "toy";
  f.defaults.rope.pairing = RopePairing::half;
  f.defaults.layers = {LayerSpec{}};
  f.holds_all = true;
  f.check = [](const ModelSpec& m) {
    check(!m.ffn_norm_is_post_attention,
          "model {}: in files of the architecture toy, ffn_norm is not called post_attention_norm", m.name);
  };
  return f;
}

}  // namespace toy
