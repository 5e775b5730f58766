#include "toy/models/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "toy/base/glob.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

constexpr std::string_view kWeight = ".weight", kA = ".lora_a", kB = ".lora_b";
constexpr const char* kAll = "all-linear";

// What PEFT calls the linear maps of a Llama.
const std::map<std::string, std::string, std::less<>> kOfPeft{
    {"q_proj", "attn_q"},      {"k_proj", "attn_k"},  {"v_proj", "attn_v"},      {"o_proj", "attn_output"},
    {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"},
};

// "blk.0.attn_q" and "attn_q" of "blk.0.attn_q.weight".
std::string without_weight(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}
std::string stem_of(const TensorSpec& t) {
  const std::string name = without_weight(t.name);
  return t.block >= 0 ? name.substr(name.find('.', name.find('.') + 1) + 1) : name;
}

bool fits(const std::string& target, const TensorSpec& t) {
  if (target == kAll) return true;
  const auto peft = kOfPeft.find(target);
  const std::string& pattern = peft == kOfPeft.end() ? target : peft->second;
  return matches(pattern, t.name) || matches(pattern, without_weight(t.name)) || matches(pattern, stem_of(t));
}

std::vector<TensorSpec> adaptable_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> list = tensors_of(spec);
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  return list;
}

[[noreturn]] void refuse_target(const std::string& target, const std::vector<TensorSpec>& all) {
  std::vector<std::string> stems, names{kAll};
  for (const TensorSpec& t : all) {
    if (std::find(stems.begin(), stems.end(), stem_of(t)) == stems.end()) stems.push_back(stem_of(t));
    names.push_back(t.name);
  }
  names.insert(names.end(), stems.begin(), stems.end());
  const std::string near = nearest(target, names);
  fail("targets: no linear map fits '{}'; there are {}, and {} for all of them{}", target, fmt::join(stems, ", "), kAll,
       near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
}

// One adapter in a file.
class AdapterFile {
 public:
  explicit AdapterFile(const std::string& path) : file_(gguf::File::open(path)) {
    const std::string type = file_.get_string("general.type", "model");
    check(type == "adapter", "{}: general.type is '{}', expected adapter; a model cannot be added to another one", path,
          type);
    const std::string kind = file_.get_string("adapter.type", "");
    check(kind == "lora", "{}: adapter.type is '{}'; only lora is supported", path, kind);
    for (const gguf::TensorInfo& t : file_.tensors()) {
      const bool is_a = t.name.ends_with(kA), is_b = t.name.ends_with(kB);
      check(is_a || is_b, "{}: tensor '{}' is no part of a LoRA adapter, whose names end in {} and {}", path, t.name,
            kA, kB);
      check(t.dtype && is_float(*t.dtype), "{}: tensor '{}' is {}; supported: F32, F16, BF16", path, t.name,
            t.type_name);
      const std::string weight = t.name.substr(0, t.name.size() - kA.size());
      (is_a ? pairs_[weight].a : pairs_[weight].b) = &t;
    }
    for (const auto& [weight, pair] : pairs_)
      check(pair.a && pair.b, "{}: '{}' has only one of {} and {}", path, weight, kA, kB);
    check(!pairs_.empty(), "{}: there is no tensor in it", path);
  }

  struct Pair {
    const gguf::TensorInfo *a = nullptr, *b = nullptr;
    int64_t rank() const { return a->shape.back(1); }
  };
  const std::map<std::string, Pair>& pairs() const { return pairs_; }
  const std::string& path() const { return file_.path(); }

  void require_architecture(const ModelSpec& spec) const {
    const std::string there = file_.get_string("general.architecture");
    check(there == spec.architecture, "{}: it is an adapter of a {}, this model is a {}", path(), there,
          spec.architecture);
  }

  // s of a map: alpha / rank, or 1 where the file has no alpha.
  float scale_of(const Pair& pair) const {
    const float alpha = file_.get_f32("adapter.lora.alpha", 0);
    check(std::isfinite(alpha), "{}: adapter.lora.alpha is {}, expected a number", path(), alpha);
    return alpha == 0 ? 1.0f : alpha / float(pair.rank());
  }

  // The pair of a tensor in the file, which holds `part` from row `first` of `rows`.
  const Pair& require(const std::string& in_file, const Shape& weight) const {
    const Pair& pair = pairs_.at(in_file);
    Shape a = weight, b = weight;
    a[weight.rank() - 2] = b[weight.rank() - 1] = pair.b->shape.back(0);
    for (const auto& [info, wanted] : {std::pair(pair.a, &a), std::pair(pair.b, &b)})
      check(info->shape == *wanted, "{}: tensor '{}' is {}; for this model, whose '{}' is {}, it would be {}", path(),
            info->name, info->shape.str(), in_file, weight.str(), wanted->str());
    return pair;
  }

 private:
  gguf::File file_;
  std::map<std::string, Pair> pairs_;
};

std::vector<float> values_of(const gguf::TensorInfo& t, int64_t first_row, int64_t rows) {
  Shape shape = t.shape;
  shape[0] = rows;
  const size_t row_bytes = t.bytes / size_t(t.shape[0]);
  std::vector<float> values(size_t(shape.count()));
  convert(View(const_cast<std::byte*>(t.data) + size_t(first_row) * row_bytes, *t.dtype, shape),
          View(values.data(), DType::f32, shape));
  return values;
}

// What a file says of the maps of a model. Calls f(part, pair, first row of b) for each weight in memory.
template <class F>
void for_each_map(const AdapterFile& file, const ModelSpec& spec, const F& f) {
  file.require_architecture(spec);
  std::vector<std::string> known;
  std::set<std::string> found;
  for (const FileTensor& t : file_tensors(spec)) {
    known.push_back(t.name);
    if (!file.pairs().contains(t.name)) continue;
    found.insert(t.name);
    check(t.parts.front().adaptable, "{}: an adapter of '{}' is not supported; only linear maps have one", file.path(),
          t.name);
    const AdapterFile::Pair& pair = file.require(t.name, t.shape);
    int64_t row = 0;
    for (const TensorSpec& part : t.parts) {
      f(part, pair, row);
      row += part.shape[0];
    }
  }
  for (const auto& [weight, pair] : file.pairs())
    if (!found.contains(weight)) {
      const std::string near = nearest(weight, known);
      fail("{}: it changes '{}', which this model does not have{}", file.path(), weight,
           near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
    }
}

}  // namespace

std::vector<TensorSpec> lora_targets(const ModelSpec& spec, const std::vector<std::string>& targets) {
  check(!targets.empty(), "targets: there are none; use {}", kAll);
  const std::vector<TensorSpec> all = adaptable_tensors(spec);
  for (const std::string& target : targets)
    if (std::none_of(all.begin(), all.end(), [&](const TensorSpec& t) { return fits(target, t); }))
      refuse_target(target, all);
  std::vector<TensorSpec> list = all;
  std::erase_if(list, [&](const TensorSpec& t) {
    return std::none_of(targets.begin(), targets.end(), [&](const std::string& target) { return fits(target, t); });
  });
  return list;
}

AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& o) {
  check(o.rank >= 1, "rank is {}, expected at least 1", o.rank);
  check(o.alpha > 0 && std::isfinite(o.alpha), "alpha is {}, expected a positive number", o.alpha);
  check(o.dropout >= 0 && o.dropout < 1, "lora-dropout is {}, expected 0 to below 1", o.dropout);
  AdapterSpec adapter{.maps = {}, .dropout = o.dropout};
  const double scale = o.alpha / (o.rslora ? std::sqrt(double(o.rank)) : double(o.rank));
  for (const TensorSpec& t : lora_targets(spec, o.targets)) {
    const int64_t most = std::min(t.shape.back(0), t.shape.back(1));
    check(o.rank <= most, "rank is {}, and '{}' is {}: use a rank of at most {}, or other targets", o.rank, t.name,
          t.shape.str(), most);
    adapter.maps[t.name] = {o.rank, float(scale)};
  }
  return adapter;
}

void add_adapter_weights(Model& model, uint64_t seed) {
  ThreadPool pool;
  const int last = int(model.spec.adapters.size()) - 1;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter != last) continue;
    model.params->add(t.name, {DType::f32, t.shape, 0});
    model.params->write(t.name, initial_values(t, seed, 1, pool));
  }
}

void load_adapter(Model& model, const std::string& path, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", path, scale);
  const AdapterFile file(path);
  const size_t number = model.spec.adapters.size();
  AdapterSpec adapter;
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t) {
    adapter.maps[part.name] = {pair.rank(), float(double(file.scale_of(pair)) * scale)};
  });
  model.spec.adapters.push_back(std::move(adapter));
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.adapter == int(number)) model.params->add(t.name, {DType::f32, t.shape, 0});
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t row) {
    const AdapterNames names(part.name, number);
    model.params->write(names.a, values_of(*pair.a, 0, pair.a->shape[0]));
    model.params->write(names.b, values_of(*pair.b, row, part.shape[0]));
  });
}

void merge_adapters(Model& model) {
  ThreadPool pool;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (!t.adaptable) continue;
    std::vector<double> sums;
    for (size_t number = 0; number < model.spec.adapters.size(); ++number) {
      const auto map = model.spec.adapters[number].maps.find(t.name);
      if (map == model.spec.adapters[number].maps.end()) continue;
      check(model.params->type(t.name).dtype == DType::f32, "merge: '{}' is {}; only f32 weights can be changed",
            t.name, name_of(model.params->type(t.name).dtype));
      if (sums.empty()) {
        const std::vector<float> values = model.params->read(t.name);
        sums.assign(values.begin(), values.end());
      }
      const AdapterNames names(t.name, number);
      const std::vector<float> a = model.params->read(names.a), b = model.params->read(names.b);
      const int64_t rows = t.shape.back(1), columns = t.shape.back(0), rank = map->second.rank;
      const double scale = map->second.scale;
      pool.run([&](int thread) {
        const Range mine = part(t.shape.count() / columns, thread, pool.size());  // rows of all experts
        for (int64_t row = mine.begin; row < mine.end; ++row)
          for (int64_t r = 0; r < rank; ++r) {
            const double factor = scale * double(b[size_t(row * rank + r)]);
            const float* from = a.data() + (row / rows * rank + r) * columns;
            double* to = sums.data() + row * columns;
            for (int64_t i = 0; i < columns; ++i) to[i] += factor * double(from[i]);
          }
      });
    }
    if (!sums.empty()) model.params->write(t.name, View(sums.data(), DType::f64, t.shape));
  }
  model.spec.adapters.clear();
}

namespace {

// The two tensors of a file for a weight whose parts have pairs of their own: rows of `a` follow each other, and b has
// blocks along its diagonal.
struct Fused {
  std::vector<float> a, b;
  int64_t rank = 0;
};

}  // namespace

void save_adapter(const Model& model, size_t number, const std::string& path, DType stored) {
  check(stored == DType::f32 || stored == DType::f16 || stored == DType::bf16,
        "save: an adapter cannot be stored as {}; expected f32, f16 or bf16", name_of(stored));
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "save: the adapter changes nothing");
  const AdapterSpec::Map& first = adapter.maps.begin()->second;
  const float alpha = float(double(first.scale) * double(first.rank));
  gguf::Writer w(model.spec.architecture);
  w.set("general.type", std::string("adapter"));
  w.set("general.name", model.spec.name);
  w.set("adapter.type", std::string("lora"));
  w.set("adapter.lora.alpha", alpha);
  std::deque<std::vector<float>> kept;  // until they are written
  for (const FileTensor& t : file_tensors(model.spec)) {
    Fused fused;
    for (const TensorSpec& part : t.parts)
      if (const auto map = adapter.maps.find(part.name); map != adapter.maps.end()) fused.rank += map->second.rank;
    if (fused.rank == 0) continue;
    const int64_t columns = t.shape.back(0);
    Shape a = t.shape, b = t.shape;
    a[t.shape.rank() - 2] = b[t.shape.rank() - 1] = fused.rank;
    if (t.parts.size() > 1) fused.b.assign(size_t(b.count()), 0);
    int64_t row = 0, column = 0;
    for (const TensorSpec& part : t.parts) {
      const auto map = adapter.maps.find(part.name);
      if (map != adapter.maps.end()) {
        const AdapterNames names(part.name, number);
        const int64_t rank = map->second.rank;
        const std::vector<float> of_a = model.params->read(names.a);
        std::vector<float> of_b = model.params->read(names.b);
        const double factor = double(map->second.scale) * double(fused.rank) / double(alpha);
        if (factor != 1)
          for (float& v : of_b) v = float(double(v) * factor);
        fused.a.insert(fused.a.end(), of_a.begin(), of_a.end());
        if (t.parts.size() == 1) fused.b = std::move(of_b);
        for (int64_t r = 0; t.parts.size() > 1 && r < part.shape[0]; ++r)
          std::copy_n(of_b.begin() + r * rank, rank, fused.b.begin() + (row + r) * fused.rank + column);
        column += rank;
      }
      row += part.shape[0];
    }
    check(int64_t(fused.a.size()) == a.count() && columns == a.back(0), "save: '{}' has no adapter of this kind",
          t.name);
    w.add(t.name + std::string(kA), View(kept.emplace_back(std::move(fused.a)).data(), DType::f32, a), stored);
    w.add(t.name + std::string(kB), View(kept.emplace_back(std::move(fused.b)).data(), DType::f32, b), stored);
  }
  w.finish(path);
}

}  // namespace toy
