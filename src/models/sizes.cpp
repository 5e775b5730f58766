// Sizes by name, and from a JSON file.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/families.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy {
namespace {

struct Size {
  const char *name, *architecture;
  int64_t d_model, d_ff, layers, heads, kv_heads, d_head, vocab, context;
  double rope_base = 0;  // where positions are rope
};

// Dimensions of the published models; `tiny`, `small` and `gpt2-tiny` are ours.
constexpr Size kSizes[] = {
    {"tiny", "llama", 64, 176, 4, 4, 2, 16, 256, 512, 1e4},
    {"small", "llama", 128, 352, 4, 4, 2, 32, 512, 512, 1e4},
    {"stories15m", "llama", 288, 768, 6, 6, 6, 48, 32000, 1024, 1e4},
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, 8192, 1e5},
    {"smollm2-360m", "llama", 960, 2560, 32, 15, 5, 64, 49152, 8192, 1e5},
    {"gpt2-tiny", "gpt2", 64, 256, 4, 4, 4, 16, 256, 512},
    {"gpt2-124m", "gpt2", 768, 3072, 12, 12, 12, 64, 50257, 1024},
    {"gpt2-355m", "gpt2", 1024, 4096, 24, 16, 16, 64, 50257, 1024},
};

ModelSpec make(const Size& s) {
  ModelSpec m = spec_of(s.architecture, {}, s.name);
  m.name = s.name;
  m.d_model = s.d_model;
  m.vocab = s.vocab;
  m.context = s.context;
  if (m.positions == PositionKind::rope) m.rope.base = float(s.rope_base);
  LayerSpec l = m.layers.front();
  l.heads = s.heads, l.kv_heads = s.kv_heads, l.d_head = s.d_head, l.d_ff = s.d_ff;
  m.layers.assign(size_t(s.layers), l);
  return m;
}

// Reads the known keys of an object and refuses all others, so that a typing mistake is not silently ignored.
class Reader {
 public:
  Reader(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {
    check(json.is_object(), "{}: expected a JSON object of dimensions", where_);
  }
  template <class T>
  void read(const char* key, T& value, bool required = false) {
    known_.push_back(key);
    if (!json_.contains(key)) {
      check(!required, "{}: '{}' is missing", where_, key);
      return;
    }
    try {
      take(json_.at(key), fmt::format("{}: '{}'", where_, key), value);
    } catch (const nlohmann::json::exception&) {
      fail("{}: '{}' is {}, which is not of the right type", where_, key, json_text(json_.at(key)));
    }
  }
  bool has(const char* key) const { return json_.contains(key); }
  void done() const {
    for (const auto& [key, v] : json_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        const std::string near = nearest(key, known_);
        fail("{}: unknown key '{}'{}", where_, key, near.empty() ? "" : "; did you mean '" + near + "'?");
      }
  }

 private:
  // Every dimension becomes a float or an integer of 64 bits.
  template <class T>
  static void take(const nlohmann::json& json, const std::string& name, T& value) {
    if constexpr (std::is_same_v<T, double>)
      value = json_number<float>(json, name), value = json.get<double>();
    else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t>)
      value = json_number<T>(json, name);
    else
      value = json.get<T>();
  }
  template <class T>
  static void take(const nlohmann::json& json, const std::string& name, std::vector<T>& values) {
    values.clear();
    check(json.is_array(), "{} is {}, expected a list", name, json_text(json));
    for (const nlohmann::json& v : json) take(v, name, values.emplace_back());
  }

  const nlohmann::json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

std::vector<std::string> names_of(const Biases& biases) {
  std::vector<std::string> names;
  for (const BiasName& b : kBiasNames)
    if (biases.*b.flag) names.push_back(b.tensor);
  return names;
}

// "biases": the linear maps that have one, as their tensors are called.
Biases read_biases(Reader& r, const std::string& where, const Biases& otherwise) {
  std::vector<std::string> names = names_of(otherwise), all;
  r.read("biases", names);
  for (const BiasName& b : kBiasNames) all.push_back(b.tensor);
  Biases biases;
  for (const std::string& name : names) {
    const auto it = std::find(all.begin(), all.end(), name);
    check(it != all.end(), "{}: 'biases' names '{}'; there are: {}", where, name, fmt::join(all, ", "));
    biases.*kBiasNames[it - all.begin()].flag = true;
  }
  return biases;
}

// "llama3" is a way to state factors; "yarn" and "llama3" stretch from rope_original_context (default: context).
void read_rope(Reader& r, const std::string& where, ModelSpec& m, int64_t d_head) {
  RopeSpec& rope = m.rope;
  std::string scaling = "none";
  Llama3Scaling llama3;
  int64_t original = m.context;
  r.read("rope_base", rope.base);
  r.read("rope_scaling", scaling);
  check(scaling == "none" || scaling == "linear" || scaling == "yarn" || scaling == "llama3",
        "{}: rope_scaling is '{}'; there are: none, linear, yarn, llama3", where, scaling);
  r.read("rope_factor", rope.factor, scaling != "none");
  r.read("rope_original_context", original);
  r.read("rope_attn_factor", rope.attn_factor);
  r.read("rope_factors", rope.factors);
  r.read("rope_low_freq_factor", llama3.low);
  r.read("rope_high_freq_factor", llama3.high);
  const auto only_with = [&](bool used, const char* key) {
    check(used || !r.has(key), "{}: {} has no meaning with rope_scaling {}", where, key, scaling);
  };
  only_with(scaling == "yarn" || scaling == "llama3", "rope_original_context");
  only_with(scaling == "llama3", "rope_low_freq_factor");
  only_with(scaling == "llama3", "rope_high_freq_factor");
  if (scaling == "linear") rope.scaling = RopeSpec::Scaling::linear;
  if (scaling == "yarn") rope.scaling = RopeSpec::Scaling::yarn, rope.original_context = original;
  if (scaling == "llama3") {
    check(rope.factors.empty(), "{}: give rope_factors or rope_scaling llama3, not both", where);
    check(llama3.low > 0 && llama3.high > llama3.low && original >= 1,
          "{}: llama3 needs 0 < rope_low_freq_factor < rope_high_freq_factor and rope_original_context of 1 or more",
          where);
    check(d_head <= kMaxHeadWidth, "{}: d_head is {}, expected 1 to {}", where, d_head, kMaxHeadWidth);
    llama3.factor = rope.factor, llama3.original_context = double(original);
    rope.factors = llama3_factors(llama3, rope.base, d_head);
  }
  check(scaling != "none" || rope.factor == 1, "{}: rope_factor has no meaning without rope_scaling", where);
  if (rope.scaling == RopeSpec::Scaling::none) rope.factor = 1;
}

const char* eps_key(const ModelSpec& m) { return m.norm == NormKind::rms ? "rms_eps" : "layer_norm_eps"; }

}  // namespace

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const Size& s : kSizes) names.push_back(s.name);
  return names;
}

ModelSpec spec_from_json(const nlohmann::json& json, const std::string& where, const Families& more) {
  int64_t layers = 0;
  std::string architecture = "llama";
  Reader r(json, where);
  r.read("architecture", architecture);
  ModelSpec m = spec_of(architecture, more, where);
  LayerSpec l = m.layers.front();
  double eps = m.norm_eps;
  r.read("name", m.name);
  r.read("d_model", m.d_model, true);
  r.read("n_layers", layers, true);
  r.read("n_heads", l.heads, true);
  l.kv_heads = l.heads;
  r.read("n_kv", l.kv_heads);
  const bool divides = l.heads > 0 && m.d_model % l.heads == 0;
  l.d_head = divides ? m.d_model / l.heads : 0;
  r.read("d_head", l.d_head);
  check(divides || l.heads <= 0 || l.d_head != 0,
        "{}: d_model {} is not a multiple of n_heads {}, so the width of a head is not plain; give d_head", where,
        m.d_model, l.heads);
  r.read("d_ff", l.d_ff, true);
  r.read("window", l.window);
  m.vocab = 256;
  r.read("vocab", m.vocab);
  m.context = 512;
  r.read("context", m.context);
  r.read(eps_key(m), eps);
  r.read("tied", m.tied);
  r.read("qk_norm", l.qk_norm);
  l.bias = read_biases(r, where, l.bias);
  if (m.positions == PositionKind::rope) read_rope(r, where, m, l.d_head);
  r.done();
  m.norm_eps = float(eps);
  check(layers >= 1 && layers <= 4096, "{}: n_layers is {}, expected 1 to 4096", where, layers);
  m.layers.assign(size_t(layers), l);
  if (m.name.empty()) m.name = where;
  m.validate();
  return m;
}

nlohmann::ordered_json to_json(const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  nlohmann::ordered_json j{{"architecture", m.architecture},
                           {"name", m.name},
                           {"d_model", m.d_model},
                           {"n_layers", m.layers.size()},
                           {"n_heads", l.heads},
                           {"n_kv", l.kv_heads},
                           {"d_head", l.d_head},
                           {"d_ff", l.d_ff},
                           {"window", l.window},
                           {"vocab", m.vocab},
                           {"context", m.context},
                           {eps_key(m), m.norm_eps}};
  if (m.positions == PositionKind::rope) j["rope_base"] = m.rope.base;
  j["tied"] = m.tied;
  if (l.qk_norm) j["qk_norm"] = true;
  if (const auto names = names_of(l.bias); !names.empty()) j["biases"] = names;
  const RopeSpec& r = m.rope;
  if (r.scaling != RopeSpec::Scaling::none) {
    const bool yarn = r.scaling == RopeSpec::Scaling::yarn;
    j["rope_scaling"] = yarn ? "yarn" : "linear";
    j["rope_factor"] = r.factor;
    if (yarn) j["rope_original_context"] = r.original_context;
  }
  if (r.attn_factor != 1) j["rope_attn_factor"] = r.attn_factor;
  if (!r.factors.empty()) j["rope_factors"] = r.factors;
  return j;
}

ModelSpec model_spec(const std::string& size_or_file, int64_t vocab, int64_t context, const Families& more) {
  ModelSpec m;
  bool found = false;
  for (const Size& s : kSizes)
    if (size_or_file == s.name) m = make(s), found = true;
  if (!found) {
    std::ifstream f(size_or_file);
    if (!f) {
      const std::string near = nearest(size_or_file, size_names());
      fail("size '{}' is neither a known size ({}) nor a file of dimensions that can be read{}", size_or_file,
           fmt::join(size_names(), ", "), near.empty() ? "" : "; did you mean '" + near + "'?");
    }
    std::stringstream text;
    text << f.rdbuf();
    m = spec_from_json(read_json<nlohmann::json>(size_or_file, text.str()), size_or_file, more);
  }
  if (vocab > 0) m.vocab = vocab;
  if (context > 0) m.context = context;
  m.validate();
  return m;
}

}  // namespace toy
