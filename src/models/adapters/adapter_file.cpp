#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "models/adapters/adapter_parts.h"
#include "toy/base/checksum.h"
#include "toy/base/glob.h"
#include "toy/base/nearest.h"
#include "toy/models/score_head.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b", kM = ".lora_m";
constexpr const char* kBaseNorms = "toy.adapter.base_norms";  // norms_of() the model that it was trained with
using Magnitude = AdapterSpec::Magnitude;

// A checksum of a model's norms and biases, which stay f32 however a file is quantized: by these it is known again.
std::string norms_of(const Model& model) {
  Xxh64 sum;
  ModelSpec base = model.spec;
  base.adapters.clear();
  for (const TensorSpec& t : tensors_of(base))
    if (t.shape.rank() == 1 && !is_of_score_head(t.name)) {
      const std::vector<float> values = model.params->read(t.name);
      sum.update(std::as_bytes(std::span(values)));
    }
  return checksum_text(sum.digest());
}

// One adapter in a file.
class AdapterFile {
 public:
  explicit AdapterFile(const std::string& path) : file_(gguf::File::open(path)) {
    const std::string type = file_.get_string("general.type", "model");
    check(type == "adapter",
          "{}: it is {}, no adapter; --lora takes a run of toy train lora, a folder of PEFT, or the GGUF of an adapter",
          path, type == "model" ? "a model" : fmt::format("of the type '{}'", type));
    const std::string kind = file_.get_string("adapter.type", "");
    check(kind == "lora" || kind == "dora", "{}: adapter.type is '{}'; only lora and dora are supported", path, kind);
    for (const gguf::TensorInfo& t : file_.tensors()) {
      const bool is_a = t.name.ends_with(kA), is_b = t.name.ends_with(kB), is_m = t.name.ends_with(kM);
      if (is_of_score_head(t.name) && !is_a && !is_b && !is_m) {
        head_.push_back(&t);
        continue;
      }
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
  bool has_head() const { return !head_.empty(); }
  // The head that is in the file. It has all its tensors and no others.
  ScoreHead head(const ModelSpec& spec) const {
    const auto key = [&](const char* name) { return fmt::format("{}.{}", spec.architecture, name); };
    check(!spec.score.there(), "{}: it brings a head (cls.output), and the model has one already", path());
    const bool mean = file_.get_u32(key(kClassPooling), 0) == pooling_number("mean");
    return score_head(spec, file_.get_strings(key(kClassLabels)), {.pooling = mean ? "mean" : "cls"});
  }
  const std::vector<const gguf::TensorInfo*>& of_head() const { return head_; }
  std::string chat_template() const { return file_.get_string(kChatTemplate, ""); }
  std::string base_norms() const { return file_.get_string(kBaseNorms, ""); }

  void require_architecture(const ModelSpec& spec) const {
    const std::string there = file_.get_string("general.architecture");
    if (there != spec.architecture)
      throw OtherBase(path(), fmt::format("its architecture is {}, and this one's {}", there, spec.architecture));
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
      if (info && info->shape != *wanted)
        throw OtherBase(path(), fmt::format("'{}' is {}, and for this one it would be {}", info->name,
                                            info->shape.str(), wanted->str()));
    return pair;
  }

 private:
  gguf::File file_;
  std::map<std::string, Pair> pairs_;
  std::vector<const gguf::TensorInfo*> head_;
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

// The tensors of the head of `spec`, with their values.
std::vector<std::pair<TensorSpec, std::vector<float>>> head_tensors(const ModelSpec& spec, const AdapterFile& file) {
  std::map<std::string, const gguf::TensorInfo*> there;
  for (const gguf::TensorInfo* t : file.of_head()) there[t->name] = t;
  std::vector<std::pair<TensorSpec, std::vector<float>>> list;
  for (const TensorSpec& t : tensors_of(spec)) {
    if (t.adapter >= 0 || !is_of_score_head(t.name)) continue;
    const auto it = there.find(t.name);
    check(it != there.end() && it->second->shape == t.shape, "{}: the tensor '{}' of its head is {}, expected {}",
          file.path(), t.name, it == there.end() ? "missing" : it->second->shape.str(), t.shape.str());
    list.emplace_back(t, values_of(*it->second, 0, t.shape[0]));
    there.erase(it);
  }
  check(there.empty(), "{}: tensor '{}' is no part of such a head", file.path(),
        there.empty() ? "" : there.begin()->first);
  return list;
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
      throw OtherBase(file.path(), fmt::format("it changes '{}', which this one does not have{}", weight,
                                               near.empty() ? "" : fmt::format("; the nearest is '{}'", near)));
    }
}

}  // namespace

void load_adapter(Model& model, const std::string& path, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", path, scale);
  const AdapterFile file(path);
  const size_t number = model.spec.adapters.size();
  AdapterSpec adapter;
  adapter.head = file.has_head();
  ModelSpec alone = model.spec;  // without the tensors of others: with them, many adapters would take quadratic time
  for (AdapterSpec& other : alone.adapters) other.maps.clear();
  std::vector<std::pair<TensorSpec, std::vector<float>>> head;
  if (adapter.head) {
    file.require_architecture(model.spec);
    alone.score = file.head(model.spec);
    alone.validate();
    head = head_tensors(alone, file);
  }
  for_each_map(file, alone, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t) {
    const bool is_on = scale != 0;  // magnitudes alone would change the model
    adapter.maps[part.name] = {pair.rank(), file.scale_of(pair) * float(scale),
                               pair.m && is_on ? Magnitude::constant : Magnitude::none};
  });
  for (const auto& [name, map] : adapter.maps)
    check(std::isfinite(map.scale), "{}: its scale of '{}' is {}; give a smaller one", path, name, map.scale);
  adapter.chat_template = file.chat_template();
  if (const std::string norms = file.base_norms(); !norms.empty() && norms != norms_of(model))
    model.warnings.push_back(
        fmt::format("{}: the adapter was trained with another model; what it adds may be wrong for this one", path));
  // All of it fits: until here nothing of the model has changed.
  model.spec.score = alone.score;
  for (const auto& [t, values] : head) {
    model.params->add(t.name, {DType::f32, t.shape, 0});
    model.params->write(t.name, values);
  }
  alone.adapters.push_back(adapter);
  model.spec.adapters.push_back(std::move(adapter));
  for (const TensorSpec& t : tensors_of(alone))
    if (t.adapter == int(number)) model.params->add(t.name, {DType::f32, t.shape, 0});
  for_each_map(file, alone, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t row) {
    const AdapterNames names(part.name, number);
    model.params->write(names.a, values_of(*pair.a, 0, pair.a->shape[0]));
    model.params->write(names.b, values_of(*pair.b, row, part.name == kEmbedding ? part.shape[1] : part.shape[0]));
    if (pair.m && scale != 0) model.params->write(names.m, values_of(*pair.m, 0, part.shape[0]));
  });
  add_norms(model, number);
}

namespace {

// The two tensors of a file for a weight whose parts have pairs of their own: rows of `a` follow each other, and b has
// blocks along its diagonal.
struct Fused {
  std::vector<float> a, b;
  int64_t rank = 0;
};

int64_t rank_in_file(const AdapterSpec::Map& map) { return map.principal ? 2 * map.rank : map.rank; }

}  // namespace

void save_adapter(const Model& model, size_t number, const std::string& path, DType stored) {
  check(stored == DType::f32 || stored == DType::f16 || stored == DType::bf16,
        "save: an adapter cannot be stored as {}; expected f32, f16 or bf16", name_of(stored));
  const AdapterSpec& adapter = model.spec.adapters.at(number);
  check(!adapter.maps.empty(), "save: the adapter changes nothing");
  const AdapterSpec::Map& first = adapter.maps.begin()->second;
  const float alpha = float(double(first.scale) * double(rank_in_file(first)));
  gguf::Writer w(model.spec.architecture);
  w.set("general.type", std::string("adapter"));
  w.set("general.name", model.spec.name);
  const bool has_magnitudes = std::any_of(adapter.maps.begin(), adapter.maps.end(),
                                          [](const auto& map) { return map.second.magnitude != Magnitude::none; });
  w.set("adapter.type", std::string(has_magnitudes ? "dora" : "lora"));
  w.set("adapter.lora.alpha", alpha);
  w.set(kBaseNorms, norms_of(model));
  if (!adapter.chat_template.empty()) w.set(kChatTemplate, adapter.chat_template);
  std::deque<std::vector<float>> kept;  // until they are written
  std::vector<FileTensor> tensors = file_tensors(model.spec);
  if (adapter.head) {
    const auto key = [&](const char* name) { return fmt::format("{}.{}", model.spec.architecture, name); };
    w.set(key(kClassLabels), gguf::Array(model.spec.score.names));
    if (model.spec.score.mean) w.set(key(kClassPooling), pooling_number("mean"));
    for (const FileTensor& t : tensors)
      if (is_of_score_head(t.name))
        w.add(t.name, View(kept.emplace_back(model.params->read(t.name)).data(), DType::f32, t.shape), DType::f32);
  }
  if (model.spec.tied) tensors.push_back({kOutput, tied_output(model.spec).shape, {tied_output(model.spec)}});
  for (const FileTensor& t : tensors) {
    Fused fused;
    for (const TensorSpec& part : t.parts)
      if (const auto map = adapter.maps.find(part.name); map != adapter.maps.end())
        fused.rank += rank_in_file(map->second);
    if (fused.rank == 0) continue;
    Shape a = t.shape, b = t.shape;
    a[t.shape.rank() - 2] = b[t.shape.rank() - 1] = fused.rank;
    if (t.name == kEmbedding) a = {t.shape[0], fused.rank}, b = {t.shape[1], fused.rank};
    if (t.parts.size() > 1) fused.b.assign(size_t(b.count()), 0);
    int64_t row = 0, column = 0;
    for (const TensorSpec& part : t.parts) {
      const auto map = adapter.maps.find(part.name);
      if (map != adapter.maps.end()) {
        auto [of_a, of_b, rank] = factors_of(model, part.name, number);
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
