// Dimensions of a model in JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families/llama_like.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> names_of(const Biases& biases) {
  std::vector<std::string> names;
  for (const BiasName& b : kBiasNames)
    if (biases.*b.flag) names.push_back(b.tensor);
  return names;
}

// A dimension as JSON.
template <class T>
ordered_json json_of(const T& value) {
  if constexpr (std::is_same_v<T, LayerSpec::QkNorm>) {  // as long as there were only two
    if (value != LayerSpec::row_norm) return value == LayerSpec::head_norm;
  }
  if constexpr (std::is_same_v<T, MixerSpec>)
    return name_in_list(MixerKind(value));
  else if constexpr (Named<T>)
    return name_in_list(value);
  else if constexpr (std::is_same_v<T, Biases>)
    return names_of(value);
  else
    return value;
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
  void ignore(const char* key) { known_.push_back(key); }
  const nlohmann::json& at(const char* key) {
    known_.push_back(key);
    return json_.at(key);
  }
  const std::string& where() const { return where_; }
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
  template <Named E>
  static void take(const nlohmann::json& json, const std::string& name, E& value) {
    if constexpr (std::is_same_v<E, LayerSpec::QkNorm>)
      if (json.is_boolean()) return void(value = json.get<bool>() ? LayerSpec::head_norm : LayerSpec::no_qk_norm);
    std::vector<std::string> all;
    for (const auto& [word, e] : NamesOf<E>::list) {
      if (json == word) return void(value = e);
      all.push_back(word);
    }
    fail("{} is {}; there are: {}", name, json_text(json), fmt::join(all, ", "));
  }
  static void take(const nlohmann::json& json, const std::string& name, MixerSpec& value) {
    MixerKind kind = value;
    take(json, name, kind);
    if (value != kind) value = kind;
  }
  // The linear maps that have one, as their tensors are called.
  static void take(const nlohmann::json& json, const std::string& name, Biases& value) {
    std::vector<std::string> names, all;
    take(json, name, names);
    for (const BiasName& b : kBiasNames) all.push_back(b.tensor);
    value = {};
    for (const std::string& n : names) {
      const auto it = std::find(all.begin(), all.end(), n);
      check(it != all.end(), "{} names '{}'; there are: {}", name, n, fmt::join(all, ", "));
      value.*kBiasNames[it - all.begin()].flag = true;
    }
  }

  const nlohmann::json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

// "llama3" is a way to state factors; "yarn", "llama3" and long factors start from rope_original_context (default:
// context).
// `turned`: elements of a head that turn.
void read_rope_scaling(Reader& r, ModelSpec& m, int64_t turned) {
  const std::string& where = r.where();
  RopeSpec& rope = m.rope;
  std::string scaling = "none";
  Llama3Scaling llama3;
  int64_t original = m.context;
  r.read("rope_scaling", scaling);
  check(scaling == "none" || scaling == "linear" || scaling == "yarn" || scaling == "llama3",
        "{}: rope_scaling is '{}'; there are: none, linear, yarn, llama3", where, scaling);
  r.read("rope_factor", rope.factor, scaling != "none");
  r.read("rope_original_context", original);
  r.read("rope_low_freq_factor", llama3.low);
  r.read("rope_high_freq_factor", llama3.high);
  const auto only_with = [&](bool used, const char* key) {
    check(used || !r.has(key), "{}: {} has no meaning with rope_scaling {}", where, key, scaling);
  };
  only_with(scaling == "yarn" || scaling == "llama3" || !rope.long_factors.empty(), "rope_original_context");
  only_with(scaling == "llama3", "rope_low_freq_factor");
  only_with(scaling == "llama3", "rope_high_freq_factor");
  if (scaling == "linear") rope.scaling = RopeSpec::Scaling::linear;
  if (scaling == "yarn") rope.scaling = RopeSpec::Scaling::yarn;
  if (scaling == "yarn" || !rope.long_factors.empty()) rope.original_context = original;
  if (scaling == "llama3") {
    check(rope.factors.empty(), "{}: give rope_factors or rope_scaling llama3, not both", where);
    check(llama3.low > 0 && llama3.high > llama3.low && original >= 1,
          "{}: llama3 needs 0 < rope_low_freq_factor < rope_high_freq_factor and rope_original_context of 1 or more",
          where);
    check(turned <= kMaxHeadWidth, "{}: d_head is {}, expected 1 to {}", where, turned, kMaxHeadWidth);
    llama3.factor = rope.factor, llama3.original_context = double(original);
    rope.factors = llama3_factors(llama3, rope.base, turned);
  }
  check(scaling != "none" || rope.factor == 1, "{}: rope_factor has no meaning without rope_scaling", where);
  if (rope.scaling == RopeSpec::Scaling::none) rope.factor = 1;
}

// "gdn*3,attn(window=128,rope=none)" as JSON objects, one for each layer.
std::vector<nlohmann::json> layer_list(std::string_view text) {
  ListForm form{.between = ',', .most_times = kMaxLayers};
  for (const MixerDef& mixer : mixers()) form.words.emplace_back(mixer.word);
  std::vector<nlohmann::json> list;
  for (const ListedWord& l : read_list("layers", text, form)) {
    const auto mixer = std::find_if(mixers().begin(), mixers().end(), [&](const auto& m) { return m.word == l.word; });
    nlohmann::json layer{{"mixer", name_of(mixer->kind)}};
    for (const auto& [key, value] : l.settings) {
      check(key != "mixer", "layers '{}': the mixer stands in front of the brackets", text);
      const nlohmann::json parsed = parse_json<nlohmann::json>(value);
      layer[key] = parsed.is_discarded() ? nlohmann::json(value) : parsed;
    }
    list.insert(list.end(), size_t(l.times), layer);
    check(list.size() <= size_t(kMaxLayers), "layers '{}': more than {} layers", text, kMaxLayers);
  }
  return list;
}

// The list for n layers.
std::vector<nlohmann::json> repeated_list(std::string_view text, size_t n) {
  const std::vector<nlohmann::json> list = layer_list(text);
  check(n % list.size() == 0, "layers '{}': a list of {} layers does not repeat in a model of {} layers", text,
        list.size(), n);
  std::vector<nlohmann::json> all;
  for (size_t i = 0; i < n; ++i) all.push_back(list[i % list.size()]);
  return all;
}

// Whether a layer with this mixer looks at the key.
bool looks_at(const MixerDef& mixer, std::string_view key) {
  const bool of_some = std::any_of(mixers().begin(), mixers().end(), [&](const MixerDef& m) { return m.has(key); });
  return !of_some || mixer.has(key) || key == "n_heads" || key == "d_head";
}

// The keys of all layers, whatever their mixers.
std::vector<const char*> keys_of_layers() {
  std::vector<const char*> keys;
  for (const MixerDef& mixer : mixers()) {
    const LayerSpec layer{.mixer = mixer.kind};
    visit_fields_of_layer(layer, [&](std::string_view key, const auto&) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key.data());
    });
  }
  return keys;
}

// The mixer, and the sizes that `all` says of it.
void read_mixer(Reader& r, LayerSpec& l, const std::vector<LayerSpec>& others, Reader* all) {
  MixerSpec mixer = l.mixer;
  r.read("mixer", mixer);
  change_mixer(l, mixer, others);
  for (const MixerField& f : mixer_of(l.mixer).fields)
    if (f.of && all) std::visit([&](auto* value) { all->read(f.key, *value); }, f.of(l));
}

// Sizes of other mixers mean nothing, but are of their types.
void read_fields(Reader& r, LayerSpec& l) {
  for (const MixerDef& mixer : mixers()) {
    LayerSpec other{.mixer = mixer.kind};
    for (const MixerField& f : mixer.fields)
      if (f.of)
        std::visit([&](auto* value) { r.read(f.key, *value); }, f.of(other));
      else
        r.ignore(f.key);
  }
  visit_fields_of_layer(l, [&](const char* key, auto& value) { r.read(key, value); });
}

// Reads what a text says of a layer, and gives it the usual sizes where nothing was said: `all` says it of all layers,
// and `layers` are those before. No filter (0 columns) may be what was said. A width stays where the mixer before had
// no filter, or one of the same kind.
void read_listed(Reader& r, LayerSpec& l, const std::vector<LayerSpec>& layers, int64_t d_model, Reader* all) {
  const int64_t before = mixer_of(l.mixer).usual_conv;
  read_mixer(r, l, layers, all);
  const MixerDef& def = mixer_of(l.mixer);
  const bool fits = before == 0 || before == def.usual_conv, said = all ? all->has("conv_width") : before > 0;
  visit_fields_of_layer(l, [&](std::string_view key, auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>)
      if (key == "conv_width" && !(fits && (value > 0 || said))) value = def.usual_conv;
  });
  for (const char* key : keys_of_layers())
    check(!r.has(key) || looks_at(def, key), "{}: the mixer {} has no {}", r.where(), name_of(l.mixer), key);
  if (def.fill) def.fill(l, d_model);
  read_fields(r, l);
  r.done();
}

// What the keys say of all layers, then what "layers" says of each. A window goes where the family's pattern has one;
// to all layers where it has none.
std::vector<LayerSpec> read_layers(Reader& r, const ModelSpec& defaults, int64_t n, int64_t d_model) {
  const auto has_window = [](const LayerSpec& l) { return l.window > 0; };
  const bool alternate = std::any_of(defaults.layers.begin(), defaults.layers.end(), has_window);
  std::vector<LayerSpec> layers = repeated(defaults.layers, size_t(n));
  for (LayerSpec& l : layers) {
    const bool full = alternate && l.window == 0;
    read_mixer(r, l, defaults.layers, nullptr);
    const bool needed = defaults.layers.size() > 1 || l.mixer == MixerKind::attention;
    r.read("n_heads", l.heads, needed);
    r.read("d_ff", l.d_ff, needed);
    const bool divides = l.heads > 0 && d_model % l.heads == 0;
    l.kv_heads = l.heads, l.d_head = divides ? d_model / l.heads : 0;
    read_fields(r, l);
    check(divides || l.heads <= 0 || l.d_head != 0,
          "{}: d_model {} is not a multiple of n_heads {}, so the width of a head is not plain; give d_head", r.where(),
          d_model, l.heads);
    if (full) l.window = 0;
  }
  if (!r.has("layers")) return layers;
  nlohmann::json list = r.at("layers");
  const bool text = list.is_string();  // objects say all, so that a file is read as it was written
  if (text) list = repeated_list(list.get<std::string>(), layers.size());
  check(list.is_array() && list.size() == layers.size(), "{}: 'layers' is not a list of {} objects, one for each layer",
        r.where(), layers.size());
  const std::vector<LayerSpec> before = layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerSpec& l = layers[i];
    Reader one(list[i], fmt::format("{}: layer {}", r.where(), i));
    if (text) {
      read_listed(one, l, before, d_model, &r);
    } else {
      read_mixer(one, l, defaults.layers, &r);
      read_fields(one, l);
      one.done();
    }
  }
  return layers;
}

}  // namespace

void set_layers(ModelSpec& spec, std::string_view text) {
  ModelSpec m = spec;
  const std::vector<nlohmann::json> list = repeated_list(text, m.layers.size());
  for (size_t i = 0; i < m.layers.size(); ++i) {
    Reader r(list[i], fmt::format("layers '{}': layer {}", text, i));
    read_listed(r, m.layers[i], spec.layers, m.d_model, nullptr);
  }
  try {
    m.validate();
  } catch (const Error&) {
    const ModelSpec toy = spec_of("toy", {}, m.name);
    m.architecture = toy.architecture, m.family = nullptr;
    // What only files of the old family say.
    m.ffn_norm_is_post_attention = toy.ffn_norm_is_post_attention;
    m.output_norm_is_embedding_norm = toy.output_norm_is_embedding_norm;
    if (m.positions != PositionKind::rope) m.rope = toy.rope;
    m.validate();
  }
  spec = std::move(m);
}

void change_mixer(LayerSpec& l, MixerKind kind, const std::vector<LayerSpec>& others) {
  if (l.mixer == kind) return;
  LayerSpec before = l;
  const auto other = std::find_if(others.begin(), others.end(), [&](const LayerSpec& o) { return o.mixer == kind; });
  l.mixer = other == others.end() ? MixerSpec(kind) : other->mixer;
  if (other != others.end()) return;
  const auto copy = [](auto* to, auto* from) {
    if constexpr (std::is_same_v<decltype(to), decltype(from)>) *to = *from;
  };
  for (const MixerField& to : mixer_of(kind).fields)
    for (const MixerField& from : mixer_of(before.mixer).fields)
      if (to.of && from.of && std::string_view(to.key) == from.key) std::visit(copy, to.of(l), from.of(before));
}

std::vector<ordered_json> fields_of(const std::vector<LayerSpec>& layers) {
  std::vector<ordered_json> fields;
  for (const LayerSpec& l : layers) fields.push_back(fields_of(l));
  return fields;
}

ordered_json fields_of(const LayerSpec& l) {
  ordered_json j;
  visit_fields_of_layer(l, [&](const char* key, const auto& value) { j[key] = json_of(value); });
  return j;
}

std::string_view name_of(FfnKind kind) { return name_in_list(kind); }
std::string_view name_of(MixerKind kind) { return name_in_list(kind); }

int64_t number_of(const LayerSpec& l, std::string_view key) {
  int64_t number = 0;
  visit_fields_of_layer(l, [&](std::string_view k, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>)
      if (k == key) number = value;
  });
  return number;
}

ordered_json fields_of(const ModelSpec& m) {
  ordered_json j;
  visit_fields_of_model(m, [&](const char* key, const auto& value) { j[key] = json_of(value); });
  if (m.positions != PositionKind::rope) return j;
  using enum RopeSpec::Scaling;
  j["rope_scaling"] = m.rope.scaling == yarn ? "yarn" : m.rope.scaling == linear ? "linear" : "none";
  j["rope_factor"] = m.rope.factor;
  j["rope_original_context"] = m.rope.original_context;
  return j;
}

ModelSpec spec_from_json(const nlohmann::json& json, const std::string& where, const Families& more) {
  int64_t layers = 0;
  std::string architecture = "llama";
  Reader r(json, where);
  r.read("architecture", architecture);
  ModelSpec m = spec_of(architecture, more, where);
  m.vocab = 256, m.context = 512;
  r.read("name", m.name);
  check(r.has("d_model") || !r.has("hidden_size"),
        "{}: it is a config.json of Hugging Face; dimensions have other names here (toy help model-keys.md)", where);
  check(r.has("d_model") && r.has("n_layers"),
        "{}: '{}' is missing; needed are at least d_model, n_layers, n_heads and d_ff (toy help model-keys.md)", where,
        r.has("d_model") ? "n_layers" : "d_model");
  r.read("d_model", m.d_model, true);
  r.read("n_layers", layers, true);
  check(layers >= 1 && layers <= kMaxLayers, "{}: n_layers is {}, expected 1 to {}", where, layers, kMaxLayers);
  m.layers = read_layers(r, m, layers, m.d_model);
  visit_fields_of_model(m, [&](const char* key, auto& value) { r.read(key, value); });
  if (m.positions == PositionKind::rope) read_rope_scaling(r, m, turned_of(first_turning(m)));
  r.done();
  if (m.name.empty()) m.name = where;
  m.validate();
  return m;
}

// Dimensions are always there, other keys where the model is not as its family's. A key of layers is there where it is
// the same in all that have it; "layers" has what does not follow.
ordered_json to_json(const ModelSpec& m) {
  const ModelSpec& defaults = family_of(m).defaults;
  ordered_json j{
      {"architecture", m.architecture}, {"name", m.name}, {"d_model", m.d_model}, {"n_layers", m.layers.size()}};
  constexpr std::array kAlways = {"n_heads", "n_kv",    "d_head",    "d_ff", "window",
                                  "vocab",   "context", "rope_base", "tied"};
  const auto always = [&](const std::string& key) {
    return std::find(kAlways.begin(), kAlways.end(), key) != kAlways.end() || key == eps_key(m);
  };
  const std::vector<ordered_json> fields = fields_of(m.layers),
                                  usual = fields_of(repeated(defaults.layers, m.layers.size()));
  // What follows from the keys so far for layers with these mixers.
  const auto follow = [&] {
    nlohmann::json so_far(j);
    for (const ordered_json& layer : fields) so_far["layers"].push_back({{"mixer", layer.at("mixer")}});
    Reader reader(so_far, m.name);
    auto layers = fields_of(read_layers(reader, defaults, int64_t(fields.size()), m.d_model));
    for (size_t i = 0; i < layers.size(); ++i) layers[i]["mixer"] = j.value("mixer", usual[i].at("mixer"));
    return layers;
  };
  LayerSpec first = m.layers.front();
  for (const LayerSpec& l : m.layers)
    if (first.window == 0) first.window = l.window;
  const ordered_json of_first = fields_of(first);
  for (const auto& [key, value] : of_first.items())
    if (always(key)) j[key] = value;
  const std::vector<ordered_json> plain = follow();
  for (const char* key : keys_of_layers()) {
    const ordered_json* value = nullptr;
    bool same = !always(key), differs = false;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!fields[i].contains(key)) continue;
      if (!value) value = &fields[i].at(key);
      same = same && fields[i].at(key) == *value, differs = differs || plain[i].at(key) != *value;
    }
    if (same && differs) j[key] = *value;
  }
  const ordered_json of_model = fields_of(m), others = fields_of(defaults);
  for (const auto& [key, value] : of_model.items())
    if (always(key) || !others.contains(key) || value != others.at(key)) j[key] = value;
  std::vector<ordered_json> layers = follow();
  for (size_t i = 0; i < fields.size(); ++i) {
    const ordered_json from = std::exchange(layers[i], ordered_json::object());
    for (const auto& [key, value] : fields[i].items())
      if (from.at(key) != value) layers[i][key] = value;
  }
  if (std::any_of(layers.begin(), layers.end(), [](const ordered_json& l) { return !l.empty(); })) j["layers"] = layers;
  return j;
}

}  // namespace toy
