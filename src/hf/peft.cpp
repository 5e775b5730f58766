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
std::string a_of(const std::string& module) { return std::string(kPrefix) + module + ".lora_A.weight"; }
std::string b_of(const std::string& module) { return std::string(kPrefix) + module + ".lora_B.weight"; }

// What a config says that decides numbers.
struct PeftConfig {
  double alpha = 0;
  bool rslora = false;

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
    for (const char* flag : {"use_dora", "lora_bias", "use_qalora", "use_bdlora"})
      check(at(flag).is_null() || at(flag) == false, "{}: '{}' is {}; only plain LoRA is supported", path, flag,
            json_text(at(flag)));
    for (const char* list : {"modules_to_save", "alpha_pattern", "layer_replication", "trainable_token_indices"})
      check(at(list).is_null() || at(list).empty(), "{}: '{}' is {}, which is not supported", path, list,
            json_text(at(list)));
    check(at("bias").is_null() || at("bias") == "none", "{}: 'bias' is {}; only none is supported", path,
          json_text(at("bias")));
    check(at("lora_alpha").is_number(), "{}: 'lora_alpha' is {}, expected a number", path, json_text(at("lora_alpha")));
    return {j.at("lora_alpha").get<double>(), at("use_rslora") == true};
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
    std::vector<float> a, b;
  };
  AdapterSpec adapter;
  std::map<std::string, Values> values;  // by weight
  std::set<std::string, std::less<>> used;
  std::vector<std::string> known;
  for (const TensorSpec& t : tensors_of(spec)) {
    if (!t.adaptable || t.shape.rank() != 2) continue;
    const MapPlace place = place_of_map(of_class, spec, t);
    const std::string module = module_of(place);
    known.push_back(a_of(module));
    const auto a = file.tensors().find(a_of(module)), b = file.tensors().find(b_of(module));
    if (a == file.tensors().end() && b == file.tensors().end()) continue;
    check(a != file.tensors().end() && b != file.tensors().end(), "{}: '{}' has only one of lora_A and lora_B",
          file.path(), module);
    const int64_t rank = a->second.shape.rank() == 2 ? a->second.shape[0] : 0;
    const Shape want_a{rank, t.shape[1]}, want_b{place.all_rows, rank};
    check(rank > 0 && a->second.shape == want_a && b->second.shape == want_b,
          "{}: '{}' has lora_A {} and lora_B {}; for this model they would be [r,{}] and [{},r]", file.path(), module,
          a->second.shape.str(), b->second.shape.str(), t.shape[1], place.all_rows);
    used.insert({a->first, b->first});
    const double s = config.alpha / (config.rslora ? std::sqrt(double(rank)) : double(rank)) * scale;
    adapter.maps[t.name] = {rank, float(s)};
    Values& v = values[t.name];
    std::vector<float> all_a(size_t(a->second.count())), all_b(size_t(b->second.count()));
    convert(a->second, View(all_a.data(), DType::f32, a->second.shape));
    convert(b->second, View(all_b.data(), DType::f32, b->second.shape));
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
  }
}

void save_peft(const Model& model, size_t number, const std::string& folder, const std::string& base) {
  const ModelSpec spec = without_adapters(model.spec);
  const HfModel& of_class = model_of(spec);
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "peft: the adapter changes nothing");
  const AdapterSpec::Map first = adapter.maps.begin()->second;
  const double alpha = double(first.scale) * double(first.rank);
  ordered_json modules = ordered_json::array(), ranks = ordered_json::object();
  std::deque<std::vector<float>> kept;  // until they are written
  safetensors::Writer writer;
  for (const TensorSpec& t : tensors_of(spec)) {
    const auto map = adapter.maps.find(t.name);
    if (map == adapter.maps.end()) continue;
    check(t.shape.rank() == 2, "peft: '{}' has experts, for which PEFT has no file of this kind", t.name);
    const MapPlace place = place_of_map(of_class, spec, t);
    check(int64_t(place.rows.size()) == place.all_rows,
          "peft: '{}' is a part of '{}' in transformers, where an adapter of it alone cannot be stated", t.name,
          place.name);
    const int64_t rank = map->second.rank, columns = t.shape[1];
    const AdapterNames names(t.name, number);
    const std::vector<float> a = model.params->read(names.a), b = model.params->read(names.b);
    const double factor = double(map->second.scale) * double(rank) / alpha;  // 1 where all have the same alpha
    std::vector<float>&to_a = kept.emplace_back(a.size()), &to_b = kept.emplace_back(b.size());
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < columns; ++i)
        to_a[size_t(r * columns + place.columns[size_t(i)])] = a[size_t(r * columns + i)];
    for (size_t row = 0; row < place.rows.size(); ++row)
      for (int64_t r = 0; r < rank; ++r) {
        const float v = b[row * size_t(rank) + size_t(r)];
        to_b[size_t(place.rows[row] * rank + r)] = factor == 1 ? v : float(double(v) * factor);
      }
    const std::string module = module_of(place);
    modules.push_back(module);
    if (rank != first.rank) ranks[module] = rank;
    writer.add(a_of(module), View(to_a.data(), DType::f32, {rank, columns}));
    writer.add(b_of(module), View(to_b.data(), DType::f32, {place.all_rows, rank}));
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
                      {"bias", "none"},
                      {"use_rslora", false},
                      {"use_dora", false},
                      {"fan_in_fan_out", false},
                      {"inference_mode", true}};
  AtomicFile json(folder + "/" + kConfig);
  json.write(json_text(config, 2) + "\n");
  json.commit();
}

}  // namespace toy::hf
