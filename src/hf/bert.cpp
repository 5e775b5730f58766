#include "hf/bert.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

#include "hf/dimensions.h"
#include "models/families/families.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/formats/mapped_file.h"
#include "toy/models/embedding_rule.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The pooling that 1_Pooling/config.json asks for.
std::string pooling_of(const Config& c) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords{
      {{"mean", "mean"}, {"cls", "cls"}, {"lasttoken", "last"}}};
  if (c.has("pooling_mode")) {
    const std::string mode = c.text("pooling_mode", "");
    for (const auto& [theirs, ours] : kWords)
      if (mode == theirs) return std::string(ours);
    fail("{}: 'pooling_mode' is '{}'; supported: mean, cls, lasttoken", c.path(), mode);
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kFlags{
      {{"pooling_mode_cls_token", "cls"},
       {"pooling_mode_mean_tokens", "mean"},
       {"pooling_mode_lasttoken", "last"},
       {"pooling_mode_max_tokens", ""},
       {"pooling_mode_mean_sqrt_len_tokens", ""},
       {"pooling_mode_weightedmean_tokens", ""},
       {"pooling_mode_lmk_token", ""}}};
  std::vector<std::string_view> on;
  std::string_view word;
  for (const auto& [key, ours] : kFlags)
    if (c.flag(key, key == "pooling_mode_mean_tokens")) on.push_back(key), word = ours;
  check(on.size() == 1 && !word.empty(), "{}: the pooling is {}; supported is one of cls, mean and lasttoken", c.path(),
        on.empty() ? "none" : fmt::format("{}", fmt::join(on, " and ")));
  return std::string(word);
}

struct Sentences {
  std::string pooling = {};
  std::vector<DenseModule> dense = {};
  bool normalize = false;
};

DenseModule read_dense(const std::string& path) {
  const Config c = Config::open(path + "/config.json");
  const std::string f = c.text("activation_function", "torch.nn.modules.activation.Tanh");
  check(f.ends_with(".Identity") && !c.flag("bias", true),
        "{}: a dense layer with a bias or the activation '{}' is not supported; supported: none of both", c.path(), f);
  return {path, c.integer("in_features"), c.integer("out_features")};
}

constexpr const char* kDenseFolders[] = {"2_Dense", "3_Dense"};  // as sentence-transformers numbers its modules

// The steps that make a vector, in their order.
Sentences read_modules(const std::string& folder, const ModelSpec& spec, const json& modules, const std::string& path) {
  Sentences s;
  check(modules.is_array(), "{}: expected a list of modules", path);
  for (const json& entry : modules) {
    const Config module(entry, path);
    std::string type = module.text("type", "");
    type = type.substr(type.find_last_of('.') + 1);
    if (type == "Transformer") continue;
    const std::string where = module.text("path", "");
    check(where.find("..") == where.npos && !where.starts_with('/'), "{}: '{}' is not a folder in this one", path,
          where);
    if (type == "Pooling" && s.pooling.empty())
      s.pooling = pooling_of(Config::open(folder + "/" + where + "/config.json"));
    else if (type == "Dense" && !s.pooling.empty() && !s.normalize && holds(spec, "embedding_inner"))
      s.dense.push_back(read_dense(folder + "/" + where));
    else if (type == "Normalize" && !s.pooling.empty())
      s.normalize = true;
    else
      fail("{}: the module '{}' is not supported{}; supported: Transformer, Pooling, Normalize, in this order", path,
           type, type == "Dense" ? fmt::format(" in the architecture {}", spec.architecture) : "");
  }
  check(!s.pooling.empty(), "{}: there is no module 'Pooling'", path);
  const auto& d = s.dense;
  check(d.empty() || (d.size() == 2 && d[0].in == spec.d_model && d[0].out == d[1].in && d[1].out == spec.d_model),
        "{}: the modules 'Dense' have to be two, from {} elements to F and back", path, spec.d_model);
  return s;
}

std::optional<Sentences> read_modules(const std::string& folder, const ModelSpec& spec) {
  const std::string path = folder + "/modules.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const MappedFile modules = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(modules.bytes().data()), modules.bytes().size());
  return read_modules(folder, spec, read_json<json>(path, text), path);
}

void write_json(const std::string& path, const ordered_json& j) {
  AtomicFile file(path);
  file.write(json_text(j, 2) + "\n");
  file.commit();
}

}  // namespace

void read_bert_sizes(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  m.d_model = c.integer("hidden_size"), m.vocab = c.integer("vocab_size");
  m.context = c.integer("max_position_embeddings");
  m.norm_eps = c.number("layer_norm_eps");
  m.token_types = c.integer("type_vocab_size");
  const int64_t layers = c.integer("num_hidden_layers"), heads = c.integer("num_attention_heads");
  check(layers >= 1 && layers <= kMaxLayers, "{}: 'num_hidden_layers' is {}, expected 1 to {}", c.path(), layers,
        kMaxLayers);
  check(heads >= 1, "{}: 'num_attention_heads' is {}", c.path(), heads);
  m.layers = repeated(m.layers, size_t(layers));
  for (LayerSpec& l : m.layers) {
    l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads;
    l.d_ff = c.integer("intermediate_size");
  }
  c.require("hidden_act", "gelu");
  c.require("is_decoder", false);
}

void read_bert(const Config& c, Reading& r) {
  read_bert_sizes(c, r);
  c.require("position_embedding_type", "absolute");
}

void write_bert(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["intermediate_size"] = l.d_ff;
  c["num_hidden_layers"] = m.layers.size(), c["num_attention_heads"] = l.heads;
  c["max_position_embeddings"] = m.context, c["type_vocab_size"] = m.token_types;
  c["layer_norm_eps"] = shortest(m.norm_eps), c["hidden_act"] = "gelu";
  if (m.mask_head) c["tie_word_embeddings"] = true;
}

bool is_ranker(const Config& c) {
  const json* classes = c.find("architectures");
  return classes && classes->is_array() && classes->size() == 1 && classes->front().is_string() &&
         classes->front().get<std::string>().ends_with("ForSequenceClassification");
}

void read_labels(const Config& c, ModelSpec& m, ScoreHead::Dense dense) {
  std::vector<std::string> names{"LABEL_0", "LABEL_1"};  // as transformers has it
  if (c.has("id2label")) {
    const Config labels = c.object("id2label");
    names.assign(labels.values().size(), "");
    for (size_t i = 0; i < names.size(); ++i) names[i] = labels.text(std::to_string(i), "");
    for (size_t i = 0; i < names.size(); ++i)
      check(!names[i].empty(), "{}: 'id2label' has {} labels, and none for {}", c.path(), names.size(), i);
  }
  const std::string problem = c.text("problem_type", "single_label_classification");
  check(names.size() == 1 || problem == "single_label_classification",
        "{}: 'problem_type' is '{}'; a text has exactly one class in classifiers that toy computes", c.path(), problem);
  m.score = {.labels = int64_t(names.size()), .dense = dense};
  if (names.size() > 1) m.score.names = names;
}

void write_labels(ordered_json& c, const ModelSpec& m) {
  const std::vector<std::string> reranker{"LABEL_0"}, &names = m.score.classifies() ? m.score.names : reranker;
  for (size_t i = 0; i < names.size(); ++i) c["id2label"][std::to_string(i)] = names[i], c["label2id"][names[i]] = i;
  if (m.score.classifies()) c["problem_type"] = "single_label_classification";
}

void read_bert_ranker(const Config& c, Reading& r) {
  read_bert(c, r);
  read_labels(c, r.spec, ScoreHead::tanh);
}

void write_bert_ranker(ordered_json& c, const ModelSpec& m) {
  write_bert(c, m);
  write_labels(c, m);
}

std::vector<DenseModule> dense_modules(const std::string& folder, const ModelSpec& spec) {
  if (spec.causal || spec.score.there() || spec.vision.there()) return {};
  const std::optional<Sentences> modules = read_modules(folder, spec);
  return modules ? modules->dense : std::vector<DenseModule>{};
}

void write_embedding_rule(const std::string& folder, const ModelSpec& spec, gguf::Writer& writer,
                          std::vector<std::string>& warnings) {
  if (spec.score.there() || spec.vision.there()) return;  // its family writes "rank"; a picture is not embedded
  const std::string key = spec.architecture + ".pooling_type";
  const std::optional<Sentences> modules = read_modules(folder, spec);
  if (!modules) {
    if (spec.causal) return;
    writer.set(key, pooling_number("mean"));
    warnings.push_back(
        "there is no modules.json, so the folder does not say how a text becomes a vector; the file says mean, as "
        "sentence-transformers does");
    return;
  }
  writer.set(key, pooling_number(modules->pooling));
  writer.set(kNormalizeKey, modules->normalize);
  const Config lengths = Config::open_if_there(folder + "/sentence_bert_config.json");
  const int64_t most = lengths.integer("max_seq_length", 0);
  check(most >= 0 && most <= (1 << 24), "{}: 'max_seq_length' is {}", lengths.path(), most);
  if (most > 0 && most < spec.context) writer.set(kMaxTokensKey, uint32_t(most));
}

void write_sentence_files(const gguf::File& file, const ModelSpec& spec, const std::string& folder) {
  const EmbeddingRule rule = embedding_rule(file.metadata());
  if (rule.pooling.empty() || rule.pooling == "rank") return;
  const std::string type = "sentence_transformers.models.";
  ordered_json modules = {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", type + "Transformer"}},
                          {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", type + "Pooling"}}};
  const auto add = [&](const std::string& path, const char* kind) {
    const std::string number = std::to_string(modules.size());
    modules.push_back({{"idx", modules.size()}, {"name", number}, {"path", path}, {"type", type + kind}});
  };
  for (size_t i = 0; i < std::size(kDenseFolders) && spec.embedding_inner > 0; ++i) {
    add(kDenseFolders[i], "Dense");
    std::filesystem::create_directories(folder + kDenseFolders[i]);
    const int64_t sizes[] = {spec.d_model, spec.embedding_inner};
    write_json(fmt::format("{}{}/config.json", folder, kDenseFolders[i]),
               {{"in_features", sizes[i]},
                {"out_features", sizes[1 - i]},
                {"bias", false},
                {"activation_function", "torch.nn.modules.linear.Identity"}});
  }
  if (rule.normalize.value_or(true)) add(fmt::format("{}_Normalize", modules.size()), "Normalize");
  std::filesystem::create_directories(folder + "1_Pooling");
  write_json(folder + "modules.json", modules);
  write_json(folder + "1_Pooling/config.json", {{"word_embedding_dimension", spec.d_model},
                                                {"pooling_mode_cls_token", rule.pooling == "cls"},
                                                {"pooling_mode_mean_tokens", rule.pooling == "mean"},
                                                {"pooling_mode_lasttoken", rule.pooling == "last"}});
  write_json(folder + "sentence_bert_config.json",
             {{"max_seq_length", rule.max_tokens > 0 ? rule.max_tokens : spec.context}, {"do_lower_case", false}});
}

}  // namespace toy::hf
