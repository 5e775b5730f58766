#include "toy/hf/peft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "hf/layout.h"
#include "hf/models.h"
#include "hf/peft_config.h"
#include "models/adapters/adapter_parts.h"
#include "toy/base/atomic_file.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/formats/mapped_file.h"
#include "toy/formats/safetensors.h"
#include "toy/models/adapter.h"
#include "toy/tensor/convert.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *kTensors = "adapter_model.safetensors", *kChatFile = "chat_template.jinja";
constexpr std::string_view kPrefix = "base_model.model.";

ModelSpec without_adapters(ModelSpec spec) {
  spec.adapters.clear(), spec.roles = {};
  return spec;
}

std::string module_of(const HfModel& of_class, const std::string& tensor) {
  std::string name = without_weight(tensor);
  for (const Renamed& r : of_class.renamed)
    if (const size_t at = name.find(r.in_folder); at != name.npos) name.replace(at, r.in_folder.size(), r.loaded);
  return name;
}
using Magnitude = AdapterSpec::Magnitude;

// Names of an adapter's tensors.
struct PeftNames {
  std::string a, b, m;
  explicit PeftNames(const std::string& module, bool embedding = false) {
    const std::string stem = std::string(kPrefix) + module;
    a = stem + (embedding ? ".lora_embedding_A" : ".lora_A.weight");
    b = stem + (embedding ? ".lora_embedding_B" : ".lora_B.weight");
    m = stem + ".lora_magnitude_vector";
  }
};

// Weights that may have an adapter, with the output of a tied model.
std::vector<TensorSpec> adaptable_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> list = tensors_of(spec);
  if (spec.tied) list.push_back(tied_output(spec));
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  return list;
}

// Where transformers has a weight: in a module, or as one of its parameters, which PEFT wraps otherwise.
struct Home {
  std::string module;
  std::string parameter;  // or ""
  Layout place;           // of each expert

  // What patterns of ranks and alphas are matched with.
  std::string target() const { return parameter.empty() ? module : module + "." + parameter; }
  bool is_of_experts() const { return !parameter.empty() && parameter != "weight"; }
  // PEFT wraps the parameters of a module one around the other. The last one is outermost.
  bool is_last() const { return parameter == "down_proj"; }
};

// Where a class has its weights.
class Homes {
 public:
  Homes(const HfModel& of_class, const ModelSpec& spec) : class_(of_class), spec_(spec), layouts_(of_class, spec) {}

  // Embeddings and output have rows and columns as they are.
  Home of(const TensorSpec& t) const {
    if (t.shape.rank() == 3) return of_experts(t);
    Home home{"", "", {.name = "lm_head.weight", .all_rows = t.shape[0]}};
    if (t.name == kOutput && spec_.tied)
      home.place.rows = numbers(0, t.shape[0]), home.place.columns = numbers(0, t.shape[1]);
    else
      home.place = layouts_.of(t);
    home.module = module_of(class_, home.place.name);
    for (const std::string_view piece : class_.parameters_in_peft)
      if (home.module.find(piece) != home.module.npos) home.parameter = "weight";
    return home;
  }

 private:
  // The class has the experts of a layer in one parameter, gate and up one after the other or in turns.
  Home of_experts(const TensorSpec& t) const {
    constexpr std::string_view kExperts = ".experts";
    const std::string name = hf_name(class_, t.name);
    std::string module = module_of(class_, name);
    const size_t at = module.find(kExperts);
    module = module.substr(0, at == module.npos ? module.rfind('.') : at) + std::string(kExperts);
    const bool is_down = t.name.ends_with("ffn_down_exps.weight"), is_up = t.name.ends_with("ffn_up_exps.weight");
    const bool is_half = !is_down && has_gate(spec_.layers[size_t(t.block)].ffn);
    const int64_t rows = t.shape[1], second = is_half && is_up;
    const bool in_turns = class_.transposed_experts && is_half;
    return {module,
            is_down   ? "down_proj"
            : is_half ? "gate_up_proj"
                      : "up_proj",
            {.name = name,
             .matrices = t.shape[0],
             .all_rows = is_half ? 2 * rows : rows,
             .rows = numbers(in_turns ? second : second * rows, rows, in_turns ? 2 : 1),
             .columns = numbers(0, t.shape[2])}};
  }

  const HfModel& class_;
  const ModelSpec& spec_;
  Layouts layouts_;
};

std::vector<float> transposed(const std::vector<float>& m, int64_t rows, int64_t columns) {
  std::vector<float> t(m.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) t[size_t(c * rows + r)] = m[size_t(r * columns + c)];
  return t;
}

// An adapter's file, and which of its tensors belong to a weight.
class PeftFile {
 public:
  // [E,R,I], [E,O,R] and [O]; of embeddings a is [V,R].
  struct Values {
    std::vector<float> a, b, m = {};
    int64_t rank = 0;
    double scale = 0;
  };

  explicit PeftFile(const std::string& folder)
      : config_(PeftConfig::read(folder)), file_(safetensors::File::open(folder + "/" + kTensors)) {
    for (const auto& [name, bytes] : file_.bytes())
      fail("{}: tensor '{}' is {}; adapters of F32, F16 or BF16 are supported", path(), name, bytes.type);
  }

  // What it has of a weight [O,I], with the class's order of rows and columns.
  std::optional<Values> find(const Home& home, const TensorSpec& t) {
    const bool embedding = t.name == kEmbedding;
    known_.push_back(PeftNames(home.module, embedding).a);
    const PeftNames names(holder_of(home), embedding);
    if (!has(names.a) && !has(names.b)) return {};
    used_.insert(std::string(kPrefix) + home.module + ".base_layer.weight");  // the base, once more
    const int64_t all = home.place.all_rows, columns = t.shape.back(0);
    Values v =
        pair(names, home.module, home.place.matrices, embedding ? Shape{columns, t.shape[0]} : Shape{all, columns});
    config_.require_rank(path(), home.target(), v.rank);
    v.scale = config_.scale_of(home.target(), v.rank);
    if (embedding) v.a = transposed(v.a, v.rank, t.shape[0]);
    // Columns of b are all experts' first ones, then their second ones.
    if (home.place.matrices > 1) v.b = transposed(v.b, all * v.rank, home.place.matrices);
    const bool has_magnitudes = config_.dora && has(names.m);
    check(has_magnitudes == config_.dora && (!config_.dora || !embedding),
          "{}: '{}' should have magnitudes, as 'use_dora' is true; only linear maps can", file_.path(), home.module);
    if (!has_magnitudes) return v;
    const View& m = take(names.m);
    check(m.shape == Shape({all}), "{}: tensor '{}' is {}, expected [{}]", file_.path(), names.m, m.shape.str(), all);
    v.m = floats(m, home.module);
    return v;
  }

  // The same of experts that are modules of their own, as before transformers 5. `module` has `*` for their number.
  std::optional<Values> find_each(const std::string& module, const TensorSpec& t) {
    const auto of_expert = [&](int64_t e) {
      std::string name = module;
      return name.replace(name.find('*'), 1, std::to_string(e));
    };
    int64_t count = 0;
    for (int64_t e = 0; e < t.shape[0]; ++e) count += has(PeftNames(of_expert(e)).a);
    if (count == 0) return {};
    check(!config_.dora, "{}: '{}' has DoRA, which experts cannot have", path(), of_expert(0));
    Values v;
    for (int64_t e = 0; e < t.shape[0]; ++e) {
      const Values one = pair(PeftNames(of_expert(e)), of_expert(e), 1, {t.shape[1], t.shape[2]});
      config_.require_rank(path(), of_expert(e), one.rank);
      const double scale = config_.scale_of(of_expert(e), one.rank);
      if (e == 0) v.rank = one.rank, v.scale = scale;
      check(one.rank == v.rank && scale == v.scale, "{}: '{}' has another rank or alpha than the first expert",
            file_.path(), of_expert(e));
      v.a.insert(v.a.end(), one.a.begin(), one.a.end()), v.b.insert(v.b.end(), one.b.begin(), one.b.end());
    }
    return v;
  }

  void refuse_unused() const {
    for (const auto& [name, view] : file_.tensors())
      if (!used_.contains(name)) {
        check(std::find(known_.begin(), known_.end(), name) == known_.end(),
              "{}: 'target_parameters' of its config does not say which one the tensor '{}' belongs to", path(), name);
        const std::string near = nearest(name, known_);
        const std::string why = fmt::format("the tensor '{}' belongs to no linear map of this one{}", name,
                                            near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
        if (name.find(".lora_") != name.npos) throw OtherBase(path(), why, config_.base);
        fail("{}: {}", path(), why);
      }
  }
  const std::string& path() const { return file_.path(); }

 private:
  bool has(const std::string& name) const { return file_.tensors().contains(name); }
  const View& take(const std::string& name) { return file_.tensors().find(*used_.insert(name).first)->second; }

  // The module, or the one within it that holds a parameter; "" for none.
  std::string holder_of(const Home& home) const {
    const std::string inner = home.module + ".base_layer";
    if (!home.is_of_experts()) return home.module;
    if (has(PeftNames(inner).a)) return home.is_last() ? home.module : inner;
    return config_.has_parameter(home.target()) ? home.module : "";
  }

  // Both, a [E R,I] and b [O,R E] of `shape` [O,I], as they are.
  Values pair(const PeftNames& names, const std::string& module, int64_t experts, const Shape& shape) {
    for (const std::string& name : {names.a, names.b}) check(has(name), "{}: there is no tensor '{}'", path(), name);
    const View &a = take(names.a), &b = take(names.b);
    const int64_t ranks = a.shape.rank() == 2 ? a.shape[0] : 0;
    if (ranks <= 0 || ranks % experts != 0 || a.shape != Shape({ranks, shape[1]}) ||
        b.shape != Shape({shape[0], ranks}))
      throw OtherBase(path(),
                      fmt::format("'{}' has lora_A {} and lora_B {}; for this one they would be [r,{}] and [{},r]{}",
                                  module, a.shape.str(), b.shape.str(), shape[1], shape[0],
                                  experts > 1 ? fmt::format(", with r a multiple of {} experts", experts) : ""),
                      config_.base);
    return {.a = floats(a, module), .b = floats(b, module), .rank = ranks / experts};
  }

  std::vector<float> floats(const View& v, const std::string& module) const {
    std::vector<float> values(size_t(v.count()));
    convert(v, View(values.data(), DType::f32, v.shape));
    check(std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }),
          "{}: '{}' holds NaN or infinity, so the file is broken; train or download it again", path(), module);
    return values;
  }

  PeftConfig config_;
  safetensors::File file_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> known_;
};

// From the class's order of rows and columns to that of the weight.
void reorder(PeftFile::Values& v, const Layout& place) {
  PeftFile::Values from = std::move(v);
  v = {.rank = from.rank, .scale = from.scale};
  const int64_t columns = int64_t(place.columns->size());
  for (int64_t r = 0; r < place.matrices * from.rank; ++r)
    for (const int64_t column : *place.columns) v.a.push_back(from.a[size_t(r * columns + column)]);
  for (int64_t e = 0; e < place.matrices; ++e)
    for (const int64_t row : *place.rows) {
      const auto at = from.b.begin() + (e * place.all_rows + row) * from.rank;
      v.b.insert(v.b.end(), at, at + from.rank);
    }
  if (!from.m.empty())
    for (const int64_t row : *place.rows) v.m.push_back(from.m[size_t(row)]);
}

}  // namespace

bool is_peft_folder(const std::string& path) { return fs::is_regular_file(fs::path(path) / kPeftConfig); }

void load_peft(Model& model, const std::string& folder, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", folder, scale);
  PeftFile file(folder);
  const ModelSpec spec = without_adapters(model.spec);
  const Homes homes(model_of(spec), spec);
  const size_t number = model.spec.adapters.size();
  AdapterSpec adapter;
  std::map<std::string, PeftFile::Values> values;  // by weight
  for (const TensorSpec& t : adaptable_tensors(spec)) {
    const Home home = homes.of(t);
    std::optional<PeftFile::Values> v = file.find(home, t);
    if (v && t.name != kEmbedding) reorder(*v, home.place);
    const std::string in_folder = without_weight(home.place.name);
    if (!v && in_folder.find('*') != in_folder.npos) v = file.find_each(in_folder, t);
    if (!v) continue;
    if (scale == 0) v->m.clear();  // magnitudes alone would change the model
    const float both = float(v->scale) * float(scale);
    check(std::isfinite(both), "{}: its scale of '{}' is {}; give a smaller one", folder, t.name, both);
    adapter.maps[t.name] = {v->rank, both, v->m.empty() ? Magnitude::none : Magnitude::constant};
    values[t.name] = std::move(*v);
  }
  file.refuse_unused();
  check(!adapter.maps.empty(), "{}: there is no tensor in it", file.path());
  if (const std::string path = folder + "/" + kChatFile; fs::is_regular_file(path)) {
    const MappedFile text = MappedFile::open(path);
    adapter.chat_template.assign(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size());
  }
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
  Home home;
  AdapterFactors factors;
};

// The weights of each module or parameter of transformers, which may hold the rows of several.
std::vector<std::vector<Adapted>> adapted_modules(const Model& model, size_t number) {
  const ModelSpec spec = without_adapters(model.spec);
  const HfModel& of_class = model_of(spec);
  const Homes homes(of_class, spec);
  std::vector<std::vector<Adapted>> list;
  for (const TensorSpec& t : adaptable_tensors(spec)) {
    const auto& maps = model.spec.adapters.at(number).maps;
    const auto map = maps.find(t.name);
    if (map == maps.end()) continue;
    const Home home = homes.of(t);
    const std::string target = home.target();
    for (const std::string_view piece : of_class.not_in_peft)
      check(target.find(piece) == target.npos, "PEFT has no adapter of '{}' ({}); leave it out of the targets", t.name,
            target);
    if (map->second.magnitude != Magnitude::none) {
      check(int64_t(home.place.rows->size()) == home.place.all_rows,
            "'{}' is a part of '{}' in transformers, where its magnitudes cannot be stated", t.name, target);
      check(home.parameter.empty(), "PEFT has no DoRA of '{}' ({}); leave it out of the targets", t.name, target);
    }
    auto at = std::find_if(list.begin(), list.end(), [&](const auto& m) { return m[0].home.target() == target; });
    if (at == list.end()) at = list.insert(at, std::vector<Adapted>());
    at->push_back({t, map->second, home, factors_of(model, t.name, number)});
  }
  return list;
}

// Those of a module's weights as one: rows of `a` follow each other, and b has a block for each, times its scale by
// that of the first. Of E experts a is [E R,I] and b [O,R E].
AdapterFactors fused(const std::vector<Adapted>& parts) {
  AdapterFactors f;
  const int64_t experts = parts[0].home.place.matrices, columns = parts[0].weight.shape.back(0);
  for (const Adapted& part : parts) f.rank += part.factors.rank;
  f.a.resize(size_t(experts * f.rank * columns));
  f.b.resize(size_t(parts[0].home.place.all_rows * f.rank * experts));
  int64_t first = 0;
  for (const auto& [weight, map, home, from] : parts) {
    const Layout& place = home.place;
    const auto rows = int64_t(place.rows->size());
    const double factor = double(map.scale) / double(parts[0].map.scale);
    for (int64_t e = 0; e < experts; ++e)
      for (int64_t r = 0; r < from.rank; ++r) {
        for (int64_t i = 0; i < columns; ++i)
          f.a[size_t((e * f.rank + first + r) * columns + (*place.columns)[size_t(i)])] =
              from.a[size_t((e * from.rank + r) * columns + i)];
        for (int64_t row = 0; row < rows; ++row)
          f.b[size_t(((*place.rows)[size_t(row)] * f.rank + first + r) * experts + e)] =
              float(factor * double(from.b[size_t((e * rows + row) * from.rank + r)]));
      }
    first += from.rank;
  }
  return f;
}

}  // namespace

void save_peft(const Model& model, size_t number, const std::string& folder, const std::string& base) {
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "peft: the adapter changes nothing");
  check(!adapter.head, "the head of a classifier is not written there; merge the adapter and convert the model");
  const auto all = adapted_modules(model, number);
  std::set<std::string> targets;
  for (const auto& parts : all) targets.insert(parts[0].home.target());
  std::optional<int64_t> first_rank;
  double alpha = 0;
  ordered_json modules = ordered_json::array(), parameters = ordered_json::array();
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  std::deque<std::vector<float>> kept;  // until they are written
  safetensors::Writer writer;
  const auto add = [&](const std::string& name, std::vector<float> values, const Shape& shape) {
    writer.add(name, View(kept.emplace_back(std::move(values)).data(), DType::f32, shape));
  };
  const bool dora = all[0][0].map.magnitude != Magnitude::none;
  for (const auto& parts : all) {
    const auto& [weight, map, home, factors] = parts[0];
    const std::string target = home.target();
    const bool embedding = weight.name == kEmbedding;
    AdapterFactors f = embedding ? factors : fused(parts);
    const double own_alpha = double(map.scale) * double(f.rank);
    if (!first_rank) first_rank = f.rank, alpha = own_alpha;
    const bool inner = home.is_of_experts() && !home.is_last() && targets.contains(home.module + ".down_proj");
    const PeftNames in_file(home.module + (inner ? ".base_layer" : ""), embedding);
    (home.parameter.empty() ? modules : parameters).push_back(target);
    if (f.rank != *first_rank) ranks[target] = f.rank;
    if (own_alpha != alpha) alphas[target] = own_alpha;
    check((map.magnitude != Magnitude::none) == dora, "only some of the maps have magnitudes");
    if (embedding) {
      add(in_file.a, transposed(f.a, weight.shape[0], f.rank), {f.rank, weight.shape[0]});
      add(in_file.b, std::move(f.b), {weight.shape[1], f.rank});
      continue;
    }
    add(in_file.a, std::move(f.a), {home.place.matrices * f.rank, weight.shape.back(0)});
    add(in_file.b, std::move(f.b), {home.place.all_rows, f.rank * home.place.matrices});
    if (!dora) continue;
    const std::vector<float> m = model.params->read(AdapterNames(weight.name, number).m);
    std::vector<float> to_m(m.size());
    for (size_t row = 0; row < m.size(); ++row) to_m[size_t((*home.place.rows)[row])] = m[row];
    add(in_file.m, std::move(to_m), {home.place.all_rows});
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
                      {"lora_dropout", parameters.empty() ? adapter.dropout : 0},  // PEFT has none for these
                      {"target_modules", modules},
                      {"rank_pattern", ranks},
                      {"alpha_pattern", alphas},
                      {"bias", "none"},
                      {"use_rslora", false},
                      {"use_dora", dora},
                      {"fan_in_fan_out", false},
                      {"inference_mode", true}};
  if (!parameters.empty()) config["target_parameters"] = parameters;
  const std::string chat = folder + "/" + kChatFile;
  if (adapter.chat_template.empty()) {
    fs::remove(chat, error);  // of an earlier adapter
  } else {
    AtomicFile text(chat);
    text.write(adapter.chat_template);
    text.commit();
  }
  AtomicFile json(folder + "/" + kPeftConfig);
  json.write(json_text(config, 2) + "\n");
  json.commit();
}

}  // namespace toy::hf
