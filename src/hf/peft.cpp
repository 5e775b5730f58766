#include "toy/hf/peft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "hf/models.h"
#include "hf/plan.h"
#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/formats/safetensors.h"
#include "toy/models/adapter.h"
#include "toy/tensor/convert.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *kConfig = "adapter_config.json", *kTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

ModelSpec without_adapters(ModelSpec spec) {
  spec.adapters.clear(), spec.roles = {};
  return spec;
}

std::string module_of(const HfModel& of_class, const MapPlace& place) {
  constexpr std::string_view kWeight = ".weight";
  std::string name = place.name.substr(0, place.name.size() - (place.name.ends_with(kWeight) ? kWeight.size() : 0));
  for (const Renamed& r : of_class.renamed)
    if (const size_t at = name.find(r.in_folder); at != name.npos) name.replace(at, r.in_folder.size(), r.loaded);
  return name;
}
constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";
using Magnitude = AdapterSpec::Magnitude;

// Names of an adapter's tensors.
struct PeftNames {
  std::string a, b, m;
  PeftNames(const std::string& module, bool embedding) {
    const std::string stem = std::string(kPrefix) + module;
    a = stem + (embedding ? ".lora_embedding_A" : ".lora_A.weight");
    b = stem + (embedding ? ".lora_embedding_B" : ".lora_B.weight");
    m = stem + ".lora_magnitude_vector";
  }
};

// Weights that may have an adapter, with the output of a tied model.
std::vector<TensorSpec> adaptable_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> list = tensors_of(spec);
  if (spec.tied) {
    list.push_back({TensorSpec::Init::embedding, kOutput, {spec.vocab, spec.d_model}});
    list.back().adaptable = true;
  }
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  return list;
}

// Embeddings and output have rows and columns as they are.
MapPlace place_of(const HfModel& of_class, const ModelSpec& spec, const TensorSpec& t) {
  if (t.name != kOutput || !spec.tied) return place_of_map(of_class, spec, t);
  MapPlace place{"lm_head.weight", {}, {}, t.shape[0]};
  for (int64_t i = 0; i < t.shape[0]; ++i) place.rows.push_back(i);
  for (int64_t i = 0; i < t.shape[1]; ++i) place.columns.push_back(i);
  return place;
}

std::vector<float> transposed(const std::vector<float>& m, int64_t rows, int64_t columns) {
  std::vector<float> t(m.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) t[size_t(c * rows + r)] = m[size_t(r * columns + c)];
  return t;
}

// What a config says that decides numbers.
struct PeftConfig {
  double alpha = 0;
  bool rslora = false, dora = false;
  std::vector<std::pair<std::string, double>> alphas = {};  // of modules of this name, or that end in a dot and it

  double alpha_of(const std::string& module) const {
    for (const auto& [name, value] : alphas)
      if (module == name || module.ends_with("." + name)) return value;
    return alpha;
  }

  static PeftConfig read(const std::string& folder) {
    const std::string path = folder + "/" + kConfig;
    std::ifstream in(path, std::ios::binary);
    check(bool(in), "{}: cannot be read", path);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const ordered_json j = parse_json<ordered_json>(text);
    check(j.is_object(), "{}: it is no JSON object", path);
    const auto at = [&](const char* key) { return j.contains(key) ? j.at(key) : ordered_json(nullptr); };
    const ordered_json type = at("peft_type");
    check(type == "LORA", "{}: 'peft_type' is {}; only LORA is supported", path, json_text(type));
    for (const char* flag : {"lora_bias", "use_qalora", "use_bdlora"})
      check(at(flag).is_null() || at(flag) == false, "{}: '{}' is {}; only LoRA and DoRA are supported", path, flag,
            json_text(at(flag)));
    for (const char* list : {"modules_to_save", "layer_replication", "trainable_token_indices"})
      check(at(list).is_null() || at(list).empty(), "{}: '{}' is {}, which is not supported", path, list,
            json_text(at(list)));
    check(at("bias").is_null() || at("bias") == "none", "{}: 'bias' is {}; only none is supported", path,
          json_text(at("bias")));
    for (const char* flag : {"use_rslora", "use_dora"})
      check(at(flag).is_null() || at(flag).is_boolean(), "{}: '{}' is {}, expected true or false", path, flag,
            json_text(at(flag)));
    check(at("lora_alpha").is_number(), "{}: 'lora_alpha' is {}, expected a number", path, json_text(at("lora_alpha")));
    PeftConfig config{j.at("lora_alpha").get<double>(), at("use_rslora") == true, at("use_dora") == true};
    const ordered_json alphas = at("alpha_pattern");
    check(alphas.is_null() || alphas.is_object(), "{}: 'alpha_pattern' is {}, expected an object", path,
          json_text(alphas));
    for (const auto& [name, value] : alphas.items()) {
      check(value.is_number(), "{}: 'alpha_pattern' has {} for '{}', expected a number", path, json_text(value), name);
      check(
          std::all_of(name.begin(), name.end(), [](char c) { return std::isalnum(c & 0xff) || c == '_' || c == '.'; }),
          "{}: 'alpha_pattern' has '{}'; only names of modules are supported, not other patterns", path, name);
      config.alphas.emplace_back(name, value.get<double>());
    }
    return config;
  }
};

}  // namespace

bool is_peft_folder(const std::string& path) { return fs::is_regular_file(fs::path(path) / kConfig); }

void load_peft(Model& model, const std::string& folder, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", folder, scale);
  const PeftConfig config = PeftConfig::read(folder);
  const safetensors::File file = safetensors::File::open(folder + "/" + kTensors);
  const ModelSpec spec = without_adapters(model.spec);
  const HfModel& of_class = model_of(spec);
  const size_t number = model.spec.adapters.size();
  struct Values {
    std::vector<float> a, b, m;
  };
  AdapterSpec adapter;
  std::map<std::string, Values> values;  // by weight
  std::set<std::string, std::less<>> used;
  std::vector<std::string> known;
  for (const TensorSpec& t : adaptable_tensors(spec)) {
    if (t.shape.rank() != 2) continue;
    const bool embedding = t.name == kEmbedding;
    const MapPlace place = place_of(of_class, spec, t);
    const std::string module = module_of(of_class, place);
    const PeftNames in_file(module, embedding);
    known.push_back(in_file.a);
    const auto a = file.tensors().find(in_file.a), b = file.tensors().find(in_file.b),
               m = file.tensors().find(in_file.m);
    if (a == file.tensors().end() && b == file.tensors().end()) continue;
    check(a != file.tensors().end() && b != file.tensors().end(), "{}: '{}' has only one of lora_A and lora_B",
          file.path(), module);
    const int64_t rank = a->second.shape.rank() == 2 ? a->second.shape[0] : 0;
    Shape want_a{rank, t.shape[1]}, want_b{place.all_rows, rank};
    if (embedding) want_a[1] = t.shape[0], want_b[0] = t.shape[1];
    check(rank > 0 && a->second.shape == want_a && b->second.shape == want_b,
          "{}: '{}' has lora_A {} and lora_B {}; for this model they would be [r,{}] and [{},r]", file.path(), module,
          a->second.shape.str(), b->second.shape.str(), want_a[1], want_b[0]);
    used.insert({a->first, b->first, std::string(kPrefix) + module + ".base_layer.weight"});  // the base, once more
    const bool has_magnitudes = config.dora && m != file.tensors().end();
    check(has_magnitudes == config.dora && (!config.dora || !embedding),
          "{}: '{}' should have magnitudes, as 'use_dora' is true; only linear maps can", file.path(), module);
    if (has_magnitudes) {
      check(m->second.shape == Shape({place.all_rows}), "{}: tensor '{}' is {}, expected [{}]", file.path(), m->first,
            m->second.shape.str(), place.all_rows);
      used.insert(m->first);
    }
    const double s = config.alpha_of(module) / (config.rslora ? std::sqrt(double(rank)) : double(rank));
    adapter.maps[t.name] = {rank, float(s) * float(scale), has_magnitudes ? Magnitude::constant : Magnitude::none};
    Values& v = values[t.name];
    std::vector<float> all_a(size_t(a->second.count())), all_b(size_t(b->second.count()));
    convert(a->second, View(all_a.data(), DType::f32, a->second.shape));
    convert(b->second, View(all_b.data(), DType::f32, b->second.shape));
    for (const auto* part : {&all_a, &all_b})
      check(std::all_of(part->begin(), part->end(), [](float x) { return std::isfinite(x); }),
            "{}: '{}' holds NaN or infinity, so the file is broken; train or download it again", file.path(), module);
    if (embedding) {
      v.a = transposed(all_a, rank, t.shape[0]), v.b = std::move(all_b);
      continue;
    }
    if (has_magnitudes) {
      std::vector<float> all_m(size_t(place.all_rows));
      convert(m->second, View(all_m.data(), DType::f32, m->second.shape));
      for (const int64_t row : place.rows) v.m.push_back(all_m[size_t(row)]);
    }
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < t.shape[1]; ++i) v.a.push_back(all_a[size_t(r * t.shape[1] + place.columns[size_t(i)])]);
    for (const int64_t row : place.rows)
      v.b.insert(v.b.end(), all_b.begin() + row * rank, all_b.begin() + (row + 1) * rank);
  }
  for (const auto& [name, view] : file.tensors())
    if (!used.contains(name)) {
      const std::string near = nearest(name, known);
      fail("{}: the tensor '{}' belongs to no linear map of this model{}", file.path(), name,
           near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
    }
  check(!adapter.maps.empty(), "{}: there is no tensor in it", file.path());
  model.spec.adapters.push_back(std::move(adapter));
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.adapter == int(number)) model.params->add(t.name, {DType::f32, t.shape, 0});
  for (const auto& [weight, v] : values) {
    const AdapterNames names(weight, number);
    model.params->write(names.a, v.a);
    model.params->write(names.b, v.b);
    if (!v.m.empty()) model.params->write(names.m, v.m);
  }
  add_norms(model, number);
}

namespace {

// A weight with an adapter, and where transformers has it.
struct Adapted {
  TensorSpec weight;
  AdapterSpec::Map map;
  MapPlace place;
  AdapterFactors factors;
};

// The weights of each module of transformers, which may hold the rows of several.
std::vector<std::pair<std::string, std::vector<Adapted>>> adapted_modules(const Model& model, size_t number) {
  const ModelSpec spec = without_adapters(model.spec);
  const HfModel& of_class = model_of(spec);
  std::vector<std::pair<std::string, std::vector<Adapted>>> list;
  for (const TensorSpec& t : adaptable_tensors(spec)) {
    const auto& maps = model.spec.adapters.at(number).maps;
    const auto map = maps.find(t.name);
    if (map == maps.end()) continue;
    check(t.shape.rank() == 2, "'{}' has experts, whose adapters are written as GGUF only", t.name);
    const MapPlace place = place_of(of_class, spec, t);
    const std::string module = module_of(of_class, place);
    for (const std::string_view piece : of_class.not_in_peft)
      check(module.find(piece) == module.npos, "PEFT has no adapter of '{}' ({}); leave it out of the targets", t.name,
            module);
    check(map->second.magnitude == Magnitude::none || int64_t(place.rows.size()) == place.all_rows,
          "'{}' is a part of '{}' in transformers, where its magnitudes cannot be stated", t.name, module);
    auto at = std::find_if(list.begin(), list.end(), [&](const auto& m) { return m.first == module; });
    if (at == list.end()) at = list.insert(at, {module, {}});
    at->second.push_back({t, map->second, place, factors_of(model, t.name, number)});
  }
  return list;
}

// Those of a module's weights as one: rows of `a` follow each other, and b has a block for each, times its scale by
// that of the first.
AdapterFactors fused(const std::vector<Adapted>& parts) {
  AdapterFactors f;
  for (const Adapted& part : parts) f.rank += part.factors.rank;
  f.b.resize(size_t(parts[0].place.all_rows * f.rank));
  int64_t first = 0;
  for (const auto& [weight, map, place, from] : parts) {
    const int64_t rank = from.rank, columns = weight.shape[1];
    f.a.resize(f.a.size() + from.a.size());
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < columns; ++i)
        f.a[size_t((first + r) * columns + place.columns[size_t(i)])] = from.a[size_t(r * columns + i)];
    const double factor = double(map.scale) / double(parts[0].map.scale);
    for (size_t row = 0; row < place.rows.size(); ++row)
      for (int64_t r = 0; r < rank; ++r)
        f.b[size_t(place.rows[row] * f.rank + first + r)] =
            float(factor * double(from.b[row * size_t(rank) + size_t(r)]));
    first += rank;
  }
  return f;
}

}  // namespace

void save_peft(const Model& model, size_t number, const std::string& folder, const std::string& base) {
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "peft: the adapter changes nothing");
  const auto all = adapted_modules(model, number);
  std::optional<int64_t> first_rank;
  double alpha = 0;
  ordered_json modules = ordered_json::array(), ranks = ordered_json::object(), alphas = ordered_json::object();
  std::deque<std::vector<float>> kept;  // until they are written
  safetensors::Writer writer;
  const auto add = [&](const std::string& name, std::vector<float> values, const Shape& shape) {
    writer.add(name, View(kept.emplace_back(std::move(values)).data(), DType::f32, shape));
  };
  const bool dora = all[0].second[0].map.magnitude != Magnitude::none;
  for (const auto& [module, parts] : all) {
    const auto& [weight, map, place, factors] = parts[0];
    const bool embedding = weight.name == kEmbedding;
    AdapterFactors f = embedding ? factors : fused(parts);
    const double own_alpha = double(map.scale) * double(f.rank);
    if (!first_rank) first_rank = f.rank, alpha = own_alpha;
    const PeftNames in_file(module, embedding);
    modules.push_back(module);
    if (f.rank != *first_rank) ranks[module] = f.rank;
    if (own_alpha != alpha) alphas[module] = own_alpha;
    check((map.magnitude != Magnitude::none) == dora, "only some of the maps have magnitudes");
    if (embedding) {
      add(in_file.a, transposed(f.a, weight.shape[0], f.rank), {f.rank, weight.shape[0]});
      add(in_file.b, std::move(f.b), {weight.shape[1], f.rank});
      continue;
    }
    add(in_file.a, std::move(f.a), {f.rank, weight.shape[1]});
    add(in_file.b, std::move(f.b), {place.all_rows, f.rank});
    if (!dora) continue;
    const std::vector<float> m = model.params->read(AdapterNames(weight.name, number).m);
    std::vector<float> to_m(m.size());
    for (size_t row = 0; row < m.size(); ++row) to_m[size_t(place.rows[row])] = m[row];
    add(in_file.m, std::move(to_m), {place.all_rows});
  }
  std::error_code error;
  fs::create_directories(folder, error);
  check(fs::is_directory(folder), "peft: cannot make the folder '{}': {}", folder, error.message());
  writer.finish(folder + "/" + kTensors);
  ordered_json config{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", base.empty() ? ordered_json(nullptr) : ordered_json(base)},
                      {"r", *first_rank},
                      {"lora_alpha", alpha},
                      {"lora_dropout", adapter.dropout},
                      {"target_modules", modules},
                      {"rank_pattern", ranks},
                      {"alpha_pattern", alphas},
                      {"bias", "none"},
                      {"use_rslora", false},
                      {"use_dora", dora},
                      {"fan_in_fan_out", false},
                      {"inference_mode", true}};
  AtomicFile json(folder + "/" + kConfig);
  json.write(json_text(config, 2) + "\n");
  json.commit();
}

}  // namespace toy::hf
