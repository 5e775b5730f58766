#include "toy/models/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "models/families.h"
#include "toy/base/glob.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

constexpr std::string_view kWeight = ".weight", kA = ".lora_a", kB = ".lora_b", kM = ".lora_m";
constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";
using Magnitude = AdapterSpec::Magnitude;
constexpr const char* kAll = "all-linear";

// What PEFT calls the linear maps of a Llama.
const std::map<std::string, std::string, std::less<>> kOfPeft{
    {"q_proj", "attn_q"},      {"k_proj", "attn_k"},      {"v_proj", "attn_v"},
    {"o_proj", "attn_output"}, {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"},
    {"down_proj", "ffn_down"}, {"lm_head", "output"},     {"embed_tokens", "token_embd"},
};

// "blk.0.attn_q" and "attn_q" of "blk.0.attn_q.weight".
std::string without_weight(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}
std::string stem_of(const TensorSpec& t) {
  const std::string name = without_weight(t.name);
  return t.block >= 0 ? name.substr(name.find('.', name.find('.') + 1) + 1) : name;
}

// "attn_*=8:16": a pattern, maybe a rank, maybe an alpha.
struct Target {
  std::string pattern;
  std::optional<int64_t> rank = {};
  std::optional<double> alpha = {};
};

Target parse_target(const std::string& text) {
  const size_t at = std::min(text.find('='), text.size());
  Target target{.pattern = text.substr(0, at)};
  if (at == text.size()) return target;
  const char *p = text.data() + at + 1, *end = text.data() + text.size();
  const auto number = [&](auto value) {
    const auto [stop, error] = std::from_chars(p, end, value);
    p = error == std::errc() ? stop : end + 1;
    return value;
  };
  target.rank = number(int64_t(0));
  if (p < end && *p == ':') ++p, target.alpha = number(0.0);
  check(p == end, "targets: '{}' has no number where one belongs; use PATTERN=RANK or PATTERN=RANK:ALPHA", text);
  return target;
}

bool fits(const std::string& target, const TensorSpec& t) {
  if (target == kAll) return t.init != TensorSpec::Init::embedding;
  const auto peft = kOfPeft.find(target);
  const std::string& pattern = peft == kOfPeft.end() ? target : peft->second;
  return matches(pattern, t.name) || matches(pattern, without_weight(t.name)) || matches(pattern, stem_of(t));
}

std::vector<Target> parse_targets(const std::vector<std::string>& texts) {
  std::vector<Target> list;
  for (const std::string& text : texts) list.push_back(parse_target(text));
  return list;
}

// The output of a tied model, which has no tensor of its own; only its adapter does.
TensorSpec tied_output(const ModelSpec& spec) {
  TensorSpec t{TensorSpec::Init::embedding, kOutput, {spec.vocab, spec.d_model}};
  t.adaptable = true;
  return t;
}

// The last one that fits, or nothing.
const Target* target_of(const std::vector<Target>& targets, const TensorSpec& t) {
  const auto last = std::find_if(targets.rbegin(), targets.rend(), [&](const Target& g) { return fits(g.pattern, t); });
  return last == targets.rend() ? nullptr : &*last;
}

// The weight of experts or a map, or a part of a file's tensor?
void require_magnitudes(const TensorSpec& t) {
  check(t.shape.rank() == 2, "dora: '{}' has experts, for which there is none; leave it out of the targets", t.name);
  check(t.init != TensorSpec::Init::embedding, "dora: '{}' has none; leave it out of the targets", t.name);
  check(t.file_name.empty(), "dora: '{}' is a part of '{}' in files, where it cannot be stated; leave it out", t.name,
        t.file_name);
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
    check(kind == "lora" || kind == "dora", "{}: adapter.type is '{}'; only lora and dora are supported", path, kind);
    for (const gguf::TensorInfo& t : file_.tensors()) {
      const bool is_a = t.name.ends_with(kA), is_b = t.name.ends_with(kB), is_m = t.name.ends_with(kM);
      check(is_a || is_b || (is_m && kind == "dora"),
            "{}: tensor '{}' is no part of a LoRA adapter, whose names end in {} and {}", path, t.name, kA, kB);
      check(t.dtype && is_float(*t.dtype), "{}: tensor '{}' is {}; supported: F32, F16, BF16", path, t.name,
            t.type_name);
      const std::string weight = t.name.substr(0, t.name.size() - kA.size());
      (is_a ? pairs_[weight].a : is_b ? pairs_[weight].b : pairs_[weight].m) = &t;
    }
    for (const auto& [weight, pair] : pairs_)
      check(pair.a && pair.b, "{}: '{}' has only one of {} and {}", path, weight, kA, kB);
    check(!pairs_.empty(), "{}: there is no tensor in it", path);
  }

  struct Pair {
    const gguf::TensorInfo *a = nullptr, *b = nullptr, *m = nullptr;
    int64_t rank() const { return b->shape.back(0); }
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
    if (in_file == kEmbedding) a = {weight[0], pair.rank()}, b = {weight[1], pair.rank()};
    Shape m{weight[0]};
    for (const auto& [info, wanted] : {std::pair(pair.a, &a), std::pair(pair.b, &b), std::pair(pair.m, &m)})
      if (info)
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
  check(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }),
        "tensor '{}' of the adapter holds NaN or infinity, so the file is broken; train or download it again", t.name);
  return values;
}

// What a file says of the maps of a model. Calls f(part, pair, first row of b) for each weight in memory.
template <class F>
void for_each_map(const AdapterFile& file, const ModelSpec& spec, const F& f) {
  file.require_architecture(spec);
  std::vector<std::string> known;
  std::set<std::string> found;
  std::vector<FileTensor> tensors = file_tensors(spec);
  if (spec.tied) tensors.push_back({kOutput, tied_output(spec).shape, {tied_output(spec)}});
  for (const FileTensor& t : tensors) {
    known.push_back(t.name);
    if (!file.pairs().contains(t.name)) continue;
    found.insert(t.name);
    check(t.parts.front().adaptable,
          "{}: an adapter of '{}' is not supported; only linear maps and embeddings have one", file.path(), t.name);
    const AdapterFile::Pair& pair = file.require(t.name, t.shape);
    if (pair.m) require_magnitudes(t.parts.front());
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
  std::vector<TensorSpec> list = tensors_of(spec);
  if (spec.tied && spec.lens == 0) list.push_back(tied_output(spec));
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  const std::vector<Target> parsed = parse_targets(targets);
  for (const Target& target : parsed)
    if (std::none_of(list.begin(), list.end(), [&](const TensorSpec& t) { return fits(target.pattern, t); }))
      refuse_target(target.pattern, list);
  std::erase_if(list, [&](const TensorSpec& t) { return !target_of(parsed, t); });
  return list;
}

AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& o) {
  check(o.lr_ratio > 0 && std::isfinite(o.lr_ratio), "lora-plus is {}, expected a positive number", o.lr_ratio);
  check(!o.dora || o.dropout == 0, "lora-dropout is {}; DoRA is trained without, use 0", o.dropout);
  check(o.dropout >= 0 && o.dropout < 1, "lora-dropout is {}, expected 0 to below 1", o.dropout);
  AdapterSpec adapter{.maps = {}, .dropout = o.dropout};
  const std::vector<Target> targets = parse_targets(o.targets);
  for (const TensorSpec& t : lora_targets(spec, o.targets)) {
    const Target& target = *target_of(targets, t);
    const int64_t rank = target.rank.value_or(o.rank), most = std::min(t.shape.back(0), t.shape.back(1));
    const double alpha = target.alpha.value_or(o.alpha);
    check(rank >= 1, "rank is {}, expected at least 1", rank);
    check(alpha > 0 && std::isfinite(alpha), "alpha is {}, expected a positive number", alpha);
    check(rank <= most, "rank is {}, and '{}' is {}: use a rank of at most {}, or other targets", rank, t.name,
          t.shape.str(), most);
    if (o.dora) require_magnitudes(t);
    adapter.maps[t.name] = {rank, float(alpha / (o.rslora ? std::sqrt(double(rank)) : double(rank))),
                            o.dora ? Magnitude::trained : Magnitude::none};
  }
  return adapter;
}

std::string unknown_to_llama_cpp(const ModelSpec& spec, const AdapterSpec& adapter) {
  for (const auto& [name, map] : adapter.maps) {
    if (map.magnitude != Magnitude::none) return "llama.cpp has no DoRA";
    if (spec.tied && (name == kOutput || name == kEmbedding))
      return fmt::format("llama.cpp cannot change '{}' of a model whose output is its embeddings", name);
  }
  return "";
}

namespace {

// |w + s b a|^2 of each row, or |w|^2.
std::vector<double> squared_norms(const Model& model, const std::string& weight, const AdapterNames& names,
                                  const AdapterSpec::Map& map, bool with_change) {
  const std::vector<float> w = model.params->read(weight), a = model.params->read(names.a),
                           b = model.params->read(names.b);
  const size_t rank = size_t(map.rank), columns = a.size() / rank, rows = b.size() / rank;
  std::vector<double> norms(rows), row(columns);
  for (size_t o = 0; o < rows; ++o) {
    for (size_t i = 0; i < columns; ++i) row[i] = double(w[o * columns + i]);
    for (size_t r = 0; with_change && r < rank; ++r) {
      const double factor = double(map.scale) * double(b[o * rank + r]);
      for (size_t i = 0; i < columns; ++i) row[i] += factor * double(a[r * columns + i]);
    }
    for (const double v : row) norms[o] += v * v;
  }
  return norms;
}

}  // namespace

void add_norms(Model& model, size_t number) {
  for (const auto& [weight, map] : model.spec.adapters.at(number).maps) {
    if (map.magnitude != Magnitude::constant) continue;
    const AdapterNames names(weight, number);
    std::vector<float> norms;
    for (const double n : squared_norms(model, weight, names, map, true)) norms.push_back(float(std::sqrt(n)));
    model.params->write(names.n, norms);
  }
}

void add_adapter_weights(Model& model, uint64_t seed) {
  ThreadPool pool;
  const int last = int(model.spec.adapters.size()) - 1;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter != last) continue;
    model.params->add(t.name, {DType::f32, t.shape, 0});
    model.params->write(t.name, initial_values(t, seed, 1, pool));
  }
  for (const auto& [weight, map] : model.spec.adapters[size_t(last)].maps) {
    if (map.magnitude == Magnitude::none) continue;
    const AdapterNames names(weight, size_t(last));
    std::vector<float> norms, magnitudes;  // of one root, so that their quotient is 1
    for (const double n : squared_norms(model, weight, names, map, false)) {
      check(n > 0, "dora: row {} of '{}' is all zeros and has no direction; leave the map out of --targets",
            norms.size(), weight);
      norms.push_back(float(n));
      magnitudes.push_back(std::sqrt(norms.back()));
    }
    model.params->write(names.n, norms);
    model.params->write(names.m, magnitudes);
  }
}

void load_adapter(Model& model, const std::string& path, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", path, scale);
  const AdapterFile file(path);
  const size_t number = model.spec.adapters.size();
  AdapterSpec adapter;
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t) {
    adapter.maps[part.name] = {pair.rank(), file.scale_of(pair) * float(scale),
                               pair.m ? Magnitude::constant : Magnitude::none};
  });
  model.spec.adapters.push_back(std::move(adapter));
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.adapter == int(number)) model.params->add(t.name, {DType::f32, t.shape, 0});
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t row) {
    const AdapterNames names(part.name, number);
    model.params->write(names.a, values_of(*pair.a, 0, pair.a->shape[0]));
    model.params->write(names.b, values_of(*pair.b, row, part.name == kEmbedding ? part.shape[1] : part.shape[0]));
    if (pair.m) model.params->write(names.m, values_of(*pair.m, 0, part.shape[0]));
  });
  add_norms(model, number);
}

namespace {

// Embeddings and output of a tied model become two tensors, where one of them alone changes.
void untie(Model& model) {
  const auto changes = [&](const char* name) {
    return std::any_of(model.spec.adapters.begin(), model.spec.adapters.end(),
                       [&](const AdapterSpec& a) { return a.maps.contains(name); });
  };
  if (!model.spec.tied || (!changes(kEmbedding) && !changes(kOutput))) return;
  check(holds(model.spec, "tied"),
        "merge: a {} has one tensor for embeddings and output, and the adapter changes one of them alone",
        model.spec.architecture);
  model.params->add(kOutput, {DType::f32, {model.spec.vocab, model.spec.d_model}, 0});
  model.params->write(kOutput, model.params->read(kEmbedding));
  model.spec.tied = false;
}

// a [R,I] and b [O,R] of a map; also where the file has the embeddings' way.
struct Factors {
  std::vector<float> a, b;
  Factors(const Model& model, const std::string& weight, size_t number, int64_t rank) {
    const AdapterNames names(weight, number);
    a = model.params->read(names.a), b = model.params->read(names.b);
    if (weight != kEmbedding) return;
    std::swap(a, b);  // a: [D,R]
    std::vector<float> turned(a.size());
    const size_t r = size_t(rank), width = a.size() / r;
    for (size_t d = 0; d < width; ++d)
      for (size_t i = 0; i < r; ++i) turned[i * width + d] = a[d * r + i];
    a = std::move(turned);
  }
};

// Row by row, v = w + s b a becomes w + (m v / |v| - w).
void apply_magnitudes(std::span<double> change, std::span<const float> weight, std::span<const float> magnitude) {
  const size_t columns = weight.size() / magnitude.size();
  for (size_t o = 0; o < magnitude.size(); ++o) {
    const auto w = weight.subspan(o * columns, columns);
    const auto d = change.subspan(o * columns, columns);
    double norm = 0;
    for (size_t i = 0; i < columns; ++i) norm += (double(w[i]) + d[i]) * (double(w[i]) + d[i]);
    const double gain = double(magnitude[o]) / std::sqrt(norm);
    for (size_t i = 0; i < columns; ++i) d[i] = gain * (double(w[i]) + d[i]) - double(w[i]);
  }
}

}  // namespace

void merge_adapters(Model& model) {
  ThreadPool pool;
  untie(model);
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (!t.adaptable) continue;
    std::vector<float> values;
    std::vector<double> sums;
    for (size_t number = 0; number < model.spec.adapters.size(); ++number) {
      const auto map = model.spec.adapters[number].maps.find(t.name);
      if (map == model.spec.adapters[number].maps.end()) continue;
      check(model.params->type(t.name).dtype == DType::f32, "merge: '{}' is {}; only f32 weights can be changed",
            t.name, name_of(model.params->type(t.name).dtype));
      if (sums.empty()) {
        values = model.params->read(t.name);
        sums.assign(values.begin(), values.end());
      }
      const int64_t rows = t.shape.back(1), columns = t.shape.back(0), rank = map->second.rank;
      const Factors f(model, t.name, number, rank);
      const bool has_magnitudes = map->second.magnitude != Magnitude::none;
      std::vector<double> change(has_magnitudes ? values.size() : 0);
      std::vector<double>& to_all = has_magnitudes ? change : sums;
      const double scale = map->second.scale;
      pool.run([&](int thread) {
        const Range mine = part(t.shape.count() / columns, thread, pool.size());  // rows of all experts
        for (int64_t row = mine.begin; row < mine.end; ++row)
          for (int64_t r = 0; r < rank; ++r) {
            const double factor = scale * double(f.b[size_t(row * rank + r)]);
            const float* from = f.a.data() + (row / rows * rank + r) * columns;
            double* to = to_all.data() + row * columns;
            for (int64_t i = 0; i < columns; ++i) to[i] += factor * double(from[i]);
          }
      });
      if (!has_magnitudes) continue;
      apply_magnitudes(change, values, model.params->read(AdapterNames(t.name, number).m));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += change[i];
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
  const bool has_magnitudes = std::any_of(adapter.maps.begin(), adapter.maps.end(),
                                          [](const auto& map) { return map.second.magnitude != Magnitude::none; });
  w.set("adapter.type", std::string(has_magnitudes ? "dora" : "lora"));
  w.set("adapter.lora.alpha", alpha);
  std::deque<std::vector<float>> kept;  // until they are written
  std::vector<FileTensor> tensors = file_tensors(model.spec);
  if (model.spec.tied) tensors.push_back({kOutput, tied_output(model.spec).shape, {tied_output(model.spec)}});
  for (const FileTensor& t : tensors) {
    Fused fused;
    for (const TensorSpec& part : t.parts)
      if (const auto map = adapter.maps.find(part.name); map != adapter.maps.end()) fused.rank += map->second.rank;
    if (fused.rank == 0) continue;
    Shape a = t.shape, b = t.shape;
    a[t.shape.rank() - 2] = b[t.shape.rank() - 1] = fused.rank;
    if (t.name == kEmbedding) a = {t.shape[0], fused.rank}, b = {t.shape[1], fused.rank};
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
    check(int64_t(fused.a.size()) == a.count() && int64_t(fused.b.size()) == b.count(),
          "save: '{}' has no adapter of this kind", t.name);
    w.add(t.name + std::string(kA), View(kept.emplace_back(std::move(fused.a)).data(), DType::f32, a), stored);
    w.add(t.name + std::string(kB), View(kept.emplace_back(std::move(fused.b)).data(), DType::f32, b), stored);
    const AdapterNames names(t.name, number);
    if (!model.params->has(names.m)) continue;
    const std::vector<float>& m = kept.emplace_back(model.params->read(names.m));
    w.add(t.name + std::string(kM), View(const_cast<float*>(m.data()), DType::f32, {int64_t(m.size())}), DType::f32);
  }
  w.finish(path);
}

}  // namespace toy
