// `toy`: models that no other architecture can state, such as layers of several kinds beyond what llama.cpp knows. The
// key toy.dimensions holds all of them as JSON, with the keys of docs/architecture.md; tensors are called as usual.
#include <nlohmann/json.hpp>

#include "models/families.h"
#include "models/fields.h"
#include "toy/base/json_text.h"

namespace toy {
namespace {

constexpr const char* kKey = "dimensions";

void read(Metadata& metadata, ModelSpec& m) {
  const std::string where = metadata.file().path() + ": " + metadata.key(kKey);
  const ModelSpec stated = spec_from_json(read_json<nlohmann::json>(where, metadata.text(kKey, "")), where);
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
  return f;
}

}  // namespace toy
