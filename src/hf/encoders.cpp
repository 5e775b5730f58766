#include "hf/encoders.h"

#include <algorithm>
#include <array>

#include "hf/bert.h"
#include "hf/dimensions.h"
#include "hf/names.h"
#include "hf/rope.h"
#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What stands before the names of the base model in classes with a head.
constexpr std::pair<std::string_view, std::string_view> kBases[] = {
    {"bert", "bert."}, {"roberta", "roberta."}, {"xlm-roberta", "roberta."}, {"modernbert", "model."}};
std::string_view base_of(const HfModel& model) {
  for (const auto& [type, base] : kBases)
    if (type == model.type) return base;
  return "";
}

void set_layers(const Config& c, ModelSpec& m, int64_t layers, int64_t heads, int64_t d_ff) {
  check(layers >= 1 && layers <= kMaxLayers, "{}: there are {} layers, expected 1 to {}", c.path(), layers, kMaxLayers);
  check(heads >= 1, "{}: there are {} heads", c.path(), heads);
  m.layers = repeated(m.layers, size_t(layers));
  for (LayerSpec& l : m.layers) l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
}

}  // namespace

bool is_encoder(const HfModel& model) { return model.type == "nomic_bert" || !base_of(model).empty(); }

std::string plain_encoder_name(std::string_view name, const HfModel& model) {
  const std::string_view base = base_of(model);
  std::string plain(name);
  for (const auto& [old, now] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")})
    if (plain.ends_with(old)) plain.replace(plain.rfind('.'), std::string::npos, now);
  if (base.empty()) return plain;
  const bool has_base = plain.starts_with(base), wants = model.layers.starts_with(base);
  if (has_base && !wants) return plain.substr(base.size());
  constexpr std::array<std::string_view, 5> kOfBase{"embeddings.", "encoder.", "pooler.", "layers.", "final_norm."};
  const bool of_base = std::ranges::any_of(kOfBase, [&](std::string_view start) { return plain.starts_with(start); });
  return wants && of_base ? std::string(base) + plain : plain;
}

bool is_unused_in_encoder(std::string_view name, const HfModel& model) {
  constexpr std::array<std::string_view, 6> kHeads{"pooler.",  "cls.predictions.", "cls.seq_relationship.",
                                                   "lm_head.", "decoder.",         "head."};
  if (!is_encoder(model)) return false;
  if (model.stacked_experts && name.ends_with(kNomicBertExpertsBias)) return true;
  const std::string pooler = std::string(base_of(model)) + "pooler.";
  return name.starts_with(pooler) ||
         std::ranges::any_of(kHeads, [&](std::string_view start) { return name.starts_with(start); });
}

void read_roberta(const Config& c, Reading& r) {
  read_bert(c, r);
  check(c.integer("pad_token_id", 1) == kUnusedPositions - 1,
        "{}: 'pad_token_id' is {}; in RoBERTa it is 1, and positions begin after it", c.path(),
        c.integer("pad_token_id", 1));
  check(r.spec.context > kUnusedPositions, "{}: 'max_position_embeddings' is {}, expected above {}", c.path(),
        r.spec.context, kUnusedPositions);
  check(r.spec.token_types == 1, "{}: 'type_vocab_size' is {}; in RoBERTa it is 1", c.path(), r.spec.token_types);
  r.spec.context -= kUnusedPositions;
}

void write_roberta(ordered_json& c, const ModelSpec& m) {
  write_bert(c, m);
  c["max_position_embeddings"] = m.context + kUnusedPositions;
  c["pad_token_id"] = kUnusedPositions - 1;
}

void read_roberta_ranker(const Config& c, Reading& r) {
  read_roberta(c, r);
  read_labels(c, r.spec, ScoreHead::tanh);
}

void write_roberta_ranker(ordered_json& c, const ModelSpec& m) {
  write_roberta(c, m);
  write_labels(c, m);
}

namespace {

constexpr const char* kNomicExperts = "num_experts";

// Dimensions in the authors' keys (`old`) or those of transformers.
void read_nomic_sizes(const Config& c, Reading& r, bool old) {
  ModelSpec& m = r.spec;
  const auto number = [&](const char* theirs, const char* ours) { return c.integer(old ? theirs : ours); };
  m.d_model = number("n_embd", "hidden_size"), m.vocab = c.integer("vocab_size");
  m.context = number("n_positions", "max_position_embeddings");
  m.norm_eps = c.number(old ? "layer_norm_epsilon" : "layer_norm_eps", 1e-12f);
  m.token_types = c.integer("type_vocab_size", 2);
  set_layers(c, m, number("n_layer", "num_hidden_layers"), number("n_head", "num_attention_heads"),
             number("n_inner", "intermediate_size"));
}

// The rest of the authors' files. `biased`: maps have biases.
void read_nomic_authors(const Config& c, Reading& r, bool biased, const char* activation) {
  ModelSpec& m = r.spec;
  m.rope.base = c.number("rotary_emb_base", 10000);
  for (const auto& [key, only] : {std::pair<const char*, json>{"rotary_emb_fraction", 1.0},
                                  {"rotary_emb_interleaved", false},
                                  {"prenorm", false},
                                  {"use_rms_norm", false},
                                  {"parallel_block", false},
                                  {"qkv_proj_bias", biased},
                                  {"mlp_fc1_bias", biased},
                                  {"mlp_fc2_bias", biased},
                                  {"activation_function", activation}})
    c.require(key, only);
  const int64_t trained = c.integer("max_trained_positions", 0);
  if (trained > 0 && trained < m.context) {
    r.warnings.push_back(
        fmt::format("config.json has {} positions, and the model was trained on {}; the GGUF says {}, as beyond them "
                    "positions would have to be rescaled",
                    m.context, trained, trained));
    m.context = trained;
  }
}

}  // namespace

void read_nomic_bert(const Config& c, Reading& r) {
  const bool old = c.has("n_embd");
  read_nomic_sizes(c, r, old);
  if (old) return read_nomic_authors(c, r, false, "swiglu");
  read_rope(rope_parameters(c, ""), r.spec.context, r.spec.layers.front().d_head, r.spec.rope);
  c.require("hidden_act", "silu");
}

bool has_nomic_experts(const Config& c) { return c.integer(kNomicExperts, 0) > 0; }

void read_nomic_bert_moe(const Config& c, Reading& r) {
  read_nomic_sizes(c, r, true);
  read_nomic_authors(c, r, true, "gelu");
  for (const auto& [key, only] : {std::pair<const char*, json>{"moe_normalize_expert_weights", false},
                                  {"expert_choice_router", false},
                                  {"num_shared_experts", 0},
                                  {"ffn_div", 1}})
    c.require(key, only);
  const int64_t every = c.integer("moe_every_n_layers");
  check(every >= 2, "{}: 'moe_every_n_layers' is {}, expected at least 2", c.path(), every);
  set_experts_every(r.spec, every, {.count = c.integer(kNomicExperts), .used = c.integer("moe_top_k")});
  r.warnings.push_back(
      fmt::format("'{}', which is added to what experts return, has no place in a GGUF and is left out, as llama.cpp's "
                  "converter does it",
                  kNomicBertExpertsBias));
}

void write_nomic_bert_moe(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  const Experts& e = m.layers[1].experts;
  c["vocab_size"] = m.vocab, c["n_embd"] = m.d_model, c["n_inner"] = l.d_ff;
  c["n_layer"] = m.layers.size(), c["n_head"] = l.heads;
  c["n_positions"] = c["max_trained_positions"] = m.context, c["type_vocab_size"] = m.token_types;
  c["layer_norm_epsilon"] = shortest(m.norm_eps), c["rotary_emb_base"] = shortest(m.rope.base);
  c["rotary_emb_fraction"] = 1.0, c["rotary_emb_interleaved"] = false, c["prenorm"] = false;
  c["use_rms_norm"] = false, c["parallel_block"] = false, c["activation_function"] = "gelu";
  c["qkv_proj_bias"] = c["mlp_fc1_bias"] = c["mlp_fc2_bias"] = true;
  c[kNomicExperts] = e.count, c["moe_top_k"] = e.used, c["moe_every_n_layers"] = experts_every(m);
  c["moe_normalize_expert_weights"] = false, c["expert_choice_router"] = false;
  c["num_shared_experts"] = 0, c["ffn_div"] = 1;
  const std::string home = "nomic-ai/nomic-bert-2048--";
  c["auto_map"] = {{"AutoConfig", home + "configuration_hf_nomic_bert.NomicBertConfig"},
                   {"AutoModel", home + "modeling_hf_nomic_bert.NomicBertModel"}};
}

bool is_jina_bert(const Config& c) { return c.text("position_embedding_type", "absolute") == "alibi"; }
bool is_plain_jina_bert(const Config& c) {
  return is_jina_bert(c) && c.text("feed_forward_type", "original") == "original";
}

void read_jina_bert(const Config& c, Reading& r) {
  const json* map = c.find("auto_map");
  for (const std::string& where : {c.text("_name_or_path", ""), map ? map->dump() : std::string()})
    check(where.find("qk-post-norm") == where.npos,
          "{}: it names 'jina-bert-v2-qk-post-norm', the kind of jina-embeddings-v2-base-code, which is not supported",
          c.path());
  const bool gated = !is_plain_jina_bert(c);
  if (gated) c.require("feed_forward_type", "geglu");
  read_bert_sizes(c, r);
  for (LayerSpec& l : r.spec.layers) set_jina_ffn(l, gated);
}

void write_jina_bert(ordered_json& c, const ModelSpec& m) {
  write_bert(c, m);
  c["position_embedding_type"] = "alibi", c["emb_pooler"] = "mean";
  c["feed_forward_type"] = has_gate(m.layers.front().ffn) ? "geglu" : "original";
  const std::string home = "jinaai/jina-bert-implementation--";
  c["auto_map"] = {{"AutoConfig", home + "configuration_bert.JinaBertConfig"},
                   {"AutoModel", home + "modeling_bert.JinaBertModel"}};
}

void write_nomic_bert(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["intermediate_size"] = l.d_ff;
  c["num_hidden_layers"] = m.layers.size(), c["num_attention_heads"] = l.heads;
  c["max_position_embeddings"] = m.context, c["type_vocab_size"] = m.token_types;
  c["layer_norm_eps"] = shortest(m.norm_eps), c["hidden_act"] = "silu", c["pad_token_id"] = 0;
  c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", shortest(m.rope.base)}};
}

void read_modern_bert(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  m.d_model = c.integer("hidden_size"), m.vocab = c.integer("vocab_size");
  m.context = c.integer("max_position_embeddings");
  m.norm_eps = c.number("norm_eps");
  set_layers(c, m, c.integer("num_hidden_layers"), c.integer("num_attention_heads"), c.integer("intermediate_size"));
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias"}) c.require(key, false);
  c.require("hidden_activation", "gelu");
  const int64_t both = c.integer("local_attention"), width = m.layers.front().d_head;
  check(both >= 2, "{}: 'local_attention' is {}, expected at least 2", c.path(), both);
  // Of all layers but the first, a listed_layers() that counts from 1 would give other ones.
  std::vector<bool> local;
  if (c.has("layer_types")) {
    local = listed_layers(c, m.layers.size(), "sliding_attention", 0);
  } else {
    const int64_t every = c.integer("global_attn_every_n_layers", 3);
    check(every >= 1, "{}: 'global_attn_every_n_layers' is {}", c.path(), every);
    for (size_t i = 0; i < m.layers.size(); ++i) local.push_back(int64_t(i) % every != 0);
  }
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    l.mixer_norm = i > 0;
    l.window = local[i] ? both / 2 + 1 : 0;
    l.rope = local[i] ? LayerRope::local : LayerRope::global;
  }
  const auto base = [&](const char* layers, const char* theta, float usual) {
    RopeSpec rope;
    Config p = rope_parameters(c, layers, theta, "");
    json values = p.values();
    if (!values.contains("rope_theta")) values["rope_theta"] = usual;
    read_rope(Config(values, p.path()), m.context, width, rope);
    check(rope.scaling == RopeSpec::Scaling::none && rope.factors.empty() && rope.long_factors.empty(),
          "{}: scaled rotary positions are not supported in ModernBERT", p.path());
    return rope.base;
  };
  m.rope.base = base("full_attention", "global_rope_theta", 160000);
  m.local_rope_base = base("sliding_attention", "local_rope_theta", 10000);
}

void write_modern_bert(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["intermediate_size"] = l.d_ff;
  c["num_hidden_layers"] = m.layers.size(), c["num_attention_heads"] = l.heads;
  c["max_position_embeddings"] = m.context, c["norm_eps"] = shortest(m.norm_eps), c["norm_bias"] = false;
  c["hidden_activation"] = "gelu", c["attention_bias"] = false, c["mlp_bias"] = false;
  int64_t window = 0;
  for (const LayerSpec& layer : m.layers) {
    c["layer_types"].push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, layer.window);
  }
  c["local_attention"] = window > 0 ? 2 * (window - 1) : 128;
  c["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", shortest(m.rope.base)}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", shortest(m.local_rope_base)}}}};
  c["tie_word_embeddings"] = true;
  c["cls_token_id"] = c["sep_token_id"] = nullptr;  // the class has others
}

void read_modern_bert_ranker(const Config& c, Reading& r) {
  read_modern_bert(c, r);
  read_labels(c, r.spec, ScoreHead::gelu_norm);
  c.require("classifier_bias", false);
  c.require("classifier_activation", "gelu");
  const std::string pooling = c.text("classifier_pooling", "cls");
  check(pooling == "cls" || pooling == "mean", "{}: 'classifier_pooling' is '{}'; supported: cls, mean", c.path(),
        pooling);
  r.spec.score.mean = pooling == "mean";
}

void write_modern_bert_ranker(ordered_json& c, const ModelSpec& m) {
  write_modern_bert(c, m);
  write_labels(c, m);
  c["classifier_pooling"] = m.score.mean ? "mean" : "cls";
}

}  // namespace toy::hf
