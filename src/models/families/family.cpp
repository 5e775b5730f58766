#include "toy/models/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/families/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/score_head.h"

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
  for (const char* encoder : {"bert", "mpnet", "t5encoder"})
    if (architecture.find(encoder) != architecture.npos)
      return "; it is an encoder of a kind that toy does not compute: for embeddings use a bert, nomic-bert, "
             "nomic-bert-moe, jina-bert-v2, modern-bert or gemma-embedding, such as MiniLM, BGE, E5, or a causal "
             "model, such as Qwen3-Embedding";
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
  check(architecture != "search-index",
        "{}: it is an index of passages, no model; toy search query {} TEXT searches it", where, where);
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

void read_encoder(Metadata& metadata, ModelSpec& m) {
  const int64_t heads = metadata.u32("attention.head_count"), d_ff = metadata.u32("feed_forward_length");
  check(heads > 0 && m.d_model % heads == 0, "{}: {} is {}, which does not divide {}, {}", metadata.file().path(),
        metadata.key("attention.head_count"), heads, metadata.key("embedding_length"), m.d_model);
  for (LayerSpec& l : m.layers) l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
  m.norm_eps = metadata.f32("attention.layer_norm_epsilon");
}

void write_encoder(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  w.u32("feed_forward_length", l.d_ff);
  w.u32("attention.head_count", l.heads);
  w.f32("attention.layer_norm_epsilon", m.norm_eps);
  w.flag("attention.causal", false);
}

// llama.cpp writes a matrix of one row as a vector.
static int64_t rows_of(const gguf::TensorInfo& matrix) { return matrix.shape.rank() == 1 ? 1 : matrix.shape[0]; }

static constexpr const char* kTokenTypes = "tokenizer.ggml.token_type_count";

void read_token_types(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  m.token_types = rows_of(file.require("token_types.weight"));
  const int64_t stated = file.get_u32(kTokenTypes, uint32_t(m.token_types));
  check(stated == m.token_types, "{}: {} is {}, token_types.weight has {} rows", file.path(), kTokenTypes, stated,
        m.token_types);
}

void write_token_types(MetadataWriter& w, const ModelSpec& m) { w.file().set(kTokenTypes, uint32_t(m.token_types)); }

void require_token_types(const ModelSpec& m) {
  check(m.token_types > 0, "model {}: token_types is 0; in the architecture {} there is at least one", m.name,
        m.architecture);
}

static constexpr int64_t kMostLabels = 1 << 16;

void read_score_head(Metadata& metadata, ModelSpec& m, ScoreHead::Dense dense) {
  const gguf::File& file = metadata.file();
  const gguf::TensorInfo* output = file.find("cls.output.weight");
  if (output == nullptr) return;
  metadata.ignore(kClassLabels);
  m.score.labels = rows_of(*output);
  m.score.dense = file.find("cls.weight") ? dense : ScoreHead::none;
  if (m.score.labels == 1) return;  // a reranker
  const std::string key = metadata.key(kClassLabels);
  if (file.has(key))
    m.score.names = file.get_strings(key);
  else  // as transformers names them
    for (int64_t i = 0; i < m.score.labels; ++i) m.score.names.push_back(fmt::format("LABEL_{}", i));
}

void write_score_head(MetadataWriter& w, const ModelSpec& m) {
  if (m.score.there()) w.u32("pooling_type", pooling_number("rank"));
  if (m.score.classifies()) w.texts(kClassLabels, m.score.names);
}

void require_labels(const ModelSpec& m) {
  const ScoreHead& s = m.score;
  check(s.labels >= 0 && s.labels <= kMostLabels, "model {}: labels is {}, expected 0 to {}", m.name, s.labels,
        kMostLabels);
  check(int64_t(s.names.size()) == (s.labels > 1 ? s.labels : 0),
        "model {}: its head has {} scores and {} names of classes; a classifier has one for each, and a reranker has "
        "one score",
        m.name, s.labels, s.names.size());
  std::set<std::string_view> seen;
  for (const std::string& name : s.names)
    check(!name.empty() && seen.insert(name).second, "model {}: the class '{}' {}", m.name, name,
          name.empty() ? "has no name" : "is there twice");
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
