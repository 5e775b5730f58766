#include "toy/hf/peft.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hf/models.h"
#include "hf/plan.h"
#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/formats/safetensors.h"
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

std::string module_of(const MapPlace& place) {
  constexpr std::string_view kWeight = ".weight";
  return place.name.substr(0, place.name.size() - (place.name.ends_with(kWeight) ? kWeight.size() : 0));
}
// Names of a map's tensors in a folder.
struct PeftNames {
  std::string a, b, m;
  PeftNames(const std::string& module, bool lookup) {
    const std::string stem = std::string(kPrefix) + module;
    a = stem + (lookup ? ".lora_embedding_A" : ".lora_A.weight");
    b = stem + (lookup ? ".lora_embedding_B" : ".lora_B.weight");
    m = stem + ".lora_magnitude_vector";
  }
};

// Where a weight is in a folder. The two uses of a table are modules of their own, also where they share it.
MapPlace place_in_folder(const HfModel& of_class, ModelSpec spec, const TensorSpec& t) {
  spec.tied = false;
  return place_of_map(of_class, spec, t);
}

std::vector<float> transposed(const std::vector<float>& from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[size_t(c * rows + r)] = from[size_t(r * columns + c)];
  return to;
}

std::vector<float> floats_of(const View& v) {
  std::vector<float> values(size_t(v.count()));
  convert(v, View(values.data(), DType::f32, v.shape));
  return values;
}

// What a config says that decides numbers.
struct PeftConfig {
  double alpha = 0;
  bool rslora = false, dora = false;
  std::vector<std::pair<std::string, double>> alphas;  // of modules that end so

  double alpha_of(const std::string& module) const {
    for (const auto& [end, value] : alphas)
      if (module == end || module.ends_with("." + end)) return value;
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
    check(at("lora_alpha").is_number(), "{}: 'lora_alpha' is {}, expected a number", path, json_text(at("lora_alpha")));
    PeftConfig config{j.at("lora_alpha").get<double>(), at("use_rslora") == true, at("use_dora") == true, {}};
    const ordered_json patterns = at("alpha_pattern");
    check(patterns.is_null() || patterns.is_object(), "{}: 'alpha_pattern' is {}, expected an object", path,
          json_text(patterns));
    for (const auto& [pattern, value] : patterns.items()) {
      const std::string end = pattern.starts_with('^') ? pattern.substr(1) : pattern;
      check(value.is_number(), "{}: 'alpha_pattern' has {} for '{}', expected a number", path, json_text(value),
            pattern);
      check(end.find_first_of("*+?|()[]{}\\^$") == end.npos,
            "{}: the pattern '{}' in 'alpha_pattern' is a regular expression; only names of modules are supported",
            path, pattern);
      config.alphas.emplace_back(end, value.get<double>());
    }
    return config;
  }
};

}  // namespace

bool is_peft_folder(const std::string& path) { return fs::is_regular_file(fs::path(path) / kConfig); }

void load_peft(Model& model, const std::string& folder, double scale) {
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
    const MapPlace place = place_in_folder(of_class, spec, t);
    const std::string module = module_of(place);
    const PeftNames names(module, t.lookup);
    known.push_back(names.a);
    // With an adapter of embeddings PEFT also stores the tables themselves, as they were.
    if (t.init == TensorSpec::Init::embedding)
      for (const char* table : {".base_layer.weight", ".weight"}) used.insert(std::string(kPrefix) + module + table);
    const auto a = file.tensors().find(names.a), b = file.tensors().find(names.b), m = file.tensors().find(names.m);
    const auto none = file.tensors().end();
    if (a == none && b == none) continue;
    check(a != none && b != none, "{}: '{}' has only one of lora_A and lora_B", file.path(), module);
    check((m != none) == config.dora, "{}: '{}' has {} lora_magnitude_vector, but use_dora is {}", file.path(), module,
          config.dora ? "no" : "a", config.dora);
    const int64_t rank = a->second.shape.rank() == 2 ? a->second.shape[0] : 0;
    const Shape want_a{rank, t.lookup ? place.all_rows : t.shape[1]},
        want_b{t.lookup ? t.shape[1] : place.all_rows, rank};
    check(rank > 0 && a->second.shape == want_a && b->second.shape == want_b,
          "{}: '{}' has lora_A {} and lora_B {}; for this model they would be [r,{}] and [{},r]", file.path(), module,
          a->second.shape.str(), b->second.shape.str(), want_a[1], want_b[0]);
    used.insert({a->first, b->first});
    const double s = config.alpha_of(module) / (config.rslora ? std::sqrt(double(rank)) : double(rank)) * scale;
    adapter.maps[t.name] = {rank, float(s), config.dora ? AdapterSpec::Map::trained : AdapterSpec::Map::none};
    Values& v = values[t.name];
    const std::vector<float> all_a = floats_of(a->second), all_b = floats_of(b->second);
    if (t.lookup) {
      v.a = transposed(all_a, rank, place.all_rows), v.b = all_b;
      continue;
    }
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < t.shape[1]; ++i) v.a.push_back(all_a[size_t(r * t.shape[1] + place.columns[size_t(i)])]);
    for (const int64_t row : place.rows)
      v.b.insert(v.b.end(), all_b.begin() + row * rank, all_b.begin() + (row + 1) * rank);
    if (!config.dora) continue;
    check(m->second.shape.count() == place.all_rows && t.init != TensorSpec::Init::embedding,
          "{}: the magnitudes of '{}' are {}; expected [{}], of a linear map", file.path(), module,
          m->second.shape.str(), place.all_rows);
    used.insert(m->first);
    const std::vector<float> all_m = floats_of(m->second);
    for (const int64_t row : place.rows) v.m.push_back(all_m[size_t(row)]);
  }
  for (const auto& [name, view] : file.tensors())
    if (!used.contains(name)) {
      const std::string near = nearest(name, known);
      fail("{}: the tensor '{}' belongs to no linear map of this model{}", file.path(), name,
           near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
    }
  check(!adapter.maps.empty(), "{}: there is no tensor in it", file.path());
  add_loaded(model, std::move(adapter), file.path());
  for (const auto& [weight, v] : values) {
    const AdapterNames names(weight, number);
    model.params->write(names.a, v.a);
    model.params->write(names.b, v.b);
    if (!v.m.empty()) set_norms(model, weight, v.m);
  }
}

void save_peft(const Model& model, size_t number, const std::string& folder, const std::string& base) {
  const ModelSpec spec = without_adapters(model.spec);
  const HfModel& of_class = model_of(spec);
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "peft: the adapter changes nothing");
  const AdapterSpec::Map first = adapter.maps.begin()->second;
  const double alpha = double(first.scale) * double(first.rank);
  const bool dora = first.magnitude == AdapterSpec::Map::trained;
  ordered_json modules = ordered_json::array(), ranks = ordered_json::object(), alphas = ordered_json::object();
  std::deque<std::vector<float>> kept;  // until they are written
  safetensors::Writer writer;
  const auto add = [&](const std::string& name, std::vector<float> values, const Shape& shape) {
    writer.add(name, View(kept.emplace_back(std::move(values)).data(), DType::f32, shape));
  };
  for (const TensorSpec& t : adaptable_tensors(spec)) {
    const auto map = adapter.maps.find(t.name);
    if (map == adapter.maps.end()) continue;
    check(t.shape.rank() == 2, "peft: '{}' has experts, for which PEFT has no file of this kind", t.name);
    const MapPlace place = place_in_folder(of_class, spec, t);
    check(int64_t(place.rows.size()) == place.all_rows,
          "peft: '{}' is a part of '{}' in transformers, where an adapter of it alone cannot be stated", t.name,
          place.name);
    const int64_t rank = map->second.rank, columns = t.shape[1];
    const AdapterNames names(t.name, number);
    const std::string module = module_of(place);
    const PeftNames stored(module, t.lookup);
    modules.push_back(module);
    if (rank != first.rank) ranks[module] = rank;
    if (const double own = double(map->second.scale) * double(rank); own != alpha) alphas[module] = own;
    const std::vector<float> a = model.params->read(names.a), b = model.params->read(names.b);
    if (t.lookup) {
      add(stored.a, transposed(a, t.shape[0], rank), {rank, t.shape[0]});
      add(stored.b, b, {columns, rank});
      continue;
    }
    std::vector<float> to_a(a.size()), to_b(b.size());
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < columns; ++i)
        to_a[size_t(r * columns + place.columns[size_t(i)])] = a[size_t(r * columns + i)];
    for (size_t row = 0; row < place.rows.size(); ++row)
      std::copy_n(b.begin() + int64_t(row) * rank, rank, to_b.begin() + place.rows[row] * rank);
    add(stored.a, std::move(to_a), {rank, columns});
    add(stored.b, std::move(to_b), {place.all_rows, rank});
    check((map->second.magnitude == AdapterSpec::Map::trained) == dora, "peft: only some maps have norms of rows");
    if (!dora) continue;
    const std::vector<float> m = model.params->read(names.m);
    std::vector<float> to_m(m.size());
    for (size_t row = 0; row < place.rows.size(); ++row) to_m[size_t(place.rows[row])] = m[row];
    add(stored.m, std::move(to_m), {place.all_rows});
  }
  std::error_code error;
  fs::create_directories(folder, error);
  check(fs::is_directory(folder), "peft: cannot make the folder '{}': {}", folder, error.message());
  writer.finish(folder + "/" + kTensors);
  ordered_json config{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", base.empty() ? ordered_json(nullptr) : ordered_json(base)},
                      {"r", first.rank},
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
