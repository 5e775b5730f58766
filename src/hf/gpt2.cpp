#include "hf/gpt2.h"

#include "hf/dimensions.h"
#include "models/families/families.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

void read_gpt2(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  m.d_model = c.integer("n_embd"), m.vocab = c.integer("vocab_size");
  m.context = c.integer(c.has("n_positions") ? "n_positions" : "n_ctx");
  m.norm_eps = c.number("layer_norm_epsilon");
  m.tied = c.flag("tie_word_embeddings", true);
  const int64_t layers = c.integer("n_layer"), heads = c.integer("n_head");
  check(layers >= 1 && layers <= kMaxLayers, "{}: 'n_layer' is {}, expected 1 to {}", c.path(), layers, kMaxLayers);
  check(heads >= 1, "{}: 'n_head' is {}", c.path(), heads);
  m.layers = repeated(m.layers, size_t(layers));
  for (LayerSpec& l : m.layers) {
    l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads;
    l.d_ff = c.integer("n_inner", 4 * m.d_model);
  }
  const json* act = c.find("activation_function");
  check(!act || *act == "gelu_new" || *act == "gelu_pytorch_tanh",
        "{}: 'activation_function' is {}; supported: gelu_new", c.path(), act ? json_text(*act) : "");
  c.require("scale_attn_weights", true);
  c.require("scale_attn_by_inverse_layer_idx", false);
  c.require("add_cross_attention", false);
}
void write_gpt2(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["n_embd"] = m.d_model, c["n_inner"] = l.d_ff, c["n_layer"] = m.layers.size();
  c["n_head"] = l.heads, c["n_positions"] = m.context, c["n_ctx"] = m.context;
  c["layer_norm_epsilon"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied;
  c["activation_function"] = "gelu_new";
}

}  // namespace toy::hf
