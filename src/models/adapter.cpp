#include "toy/models/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "toy/base/glob.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/principal.h"

namespace toy {
namespace {

constexpr std::string_view kWeight = ".weight", kA = ".lora_a", kB = ".lora_b", kM = ".lora_magnitude";
constexpr const char *kAll = "all-linear", *kOutput = "output.weight", *kEmbedding = "token_embd.weight";

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

bool is_embedding(const TensorSpec& t) { return t.init == TensorSpec::Init::embedding; }

// "PATTERN=RANK:ALPHA"
struct Target {
  std::string text, pattern;
  std::optional<int64_t> rank;
  std::optional<double> alpha;

  static Target parse(const std::string& text) {
    const size_t equals = text.rfind('=');
    Target t{text, text.substr(0, equals), {}, {}};
    if (equals == text.npos) return t;
    const char *at = text.data() + equals + 1, *end = text.data() + text.size();
    const auto number = [&](auto& value) {
      const auto [behind, error] = std::from_chars(at, end, value.emplace());
      check(error == std::errc() && (behind == end || *behind == ':'),
            "targets: '{}' is no PATTERN=RANK or PATTERN=RANK:ALPHA", text);
      at = behind + (behind != end);
      return behind != end;
    };
    const bool has_alpha = number(t.rank);
    check(*t.rank >= 1, "targets: the rank in '{}' is {}, expected at least 1", text, *t.rank);
    if (has_alpha) check(!number(t.alpha), "targets: '{}' is no PATTERN=RANK or PATTERN=RANK:ALPHA", text);
    return t;
  }
  bool fits(const TensorSpec& t) const {
    if (pattern == kAll) return !is_embedding(t);
    const auto peft = kOfPeft.find(pattern);
    const std::string& p = peft == kOfPeft.end() ? pattern : peft->second;
    return matches(p, t.name) || matches(p, without_weight(t.name)) || matches(p, stem_of(t));
  }
};

std::vector<Target> parse_targets(const std::vector<std::string>& texts) {
  std::vector<Target> list;
  for (const std::string& text : texts) list.push_back(Target::parse(text));
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
  fail("targets: no linear map fits '{}'; there are {}, and {} for all but embedding and output{}", target,
       fmt::join(stems, ", "), kAll, near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
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
      const bool is_a = t.name.ends_with(kA), is_m = t.name.ends_with(kM);
      check(is_a || is_m || t.name.ends_with(kB),
            "{}: tensor '{}' is no part of a LoRA adapter, whose names end in {} and {}", path, t.name, kA, kB);
      check(t.dtype && is_float(*t.dtype), "{}: tensor '{}' is {}; supported: F32, F16, BF16", path, t.name,
            t.type_name);
      Pair& pair = pairs_[t.name.substr(0, t.name.size() - (is_m ? kM : kA).size())];
      (is_a ? pair.a : is_m ? pair.m : pair.b) = &t;
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

  // The pair of a tensor in the file, for weights of this shape.
  const Pair& require(const FileTensor& t) const {
    const Pair& pair = pairs_.at(t.name);
    TensorSpec whole = t.parts.front();
    whole.shape = t.shape;
    const AdapterShapes wanted(whole, pair.rank());
    const auto match = [&](const gguf::TensorInfo& info, const Shape& shape) {
      check(info.shape == shape, "{}: tensor '{}' is {}; for this model, whose '{}' is {}, it would be {}", path(),
            info.name, info.shape.str(), t.name, t.shape.str(), shape.str());
    };
    match(*pair.a, wanted.a), match(*pair.b, wanted.b);
    if (!pair.m) return pair;
    check(t.parts.size() == 1 && t.shape.rank() == 2 && !is_embedding(whole),
          "{}: '{}' has norms of rows (DoRA), which are supported for linear maps that are tensors of their own",
          path(), t.name);
    match(*pair.m, {t.shape[0]});
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

// file_tensors(), and the output of a model where that is the embedding.
std::vector<FileTensor> adaptable_file_tensors(const ModelSpec& spec) {
  std::vector<FileTensor> list = file_tensors(spec);
  if (spec.tied) {
    const TensorSpec output = adaptable_tensors(spec).back();
    list.push_back({output.name, output.shape, {output}});
  }
  return list;
}

// The name of the weight that an adapter of `name` changes.
std::string source_of(const ModelSpec& spec, const std::string& name) {
  return spec.tied && name == kOutput ? kEmbedding : name;
}

// What a map adds to its weight [O,I]: to[o,i] += s sum_r b[o,r] a[r,i].
void add_product(const Model& model, const TensorSpec& t, size_t number, ThreadPool& pool, std::vector<double>& to) {
  const AdapterSpec::Map& map = model.spec.adapters[number].maps.at(t.name);
  const AdapterNames names(t.name, number);
  const std::vector<float> a = model.params->read(names.a), b = model.params->read(names.b);
  const int64_t rows = t.shape.back(1), columns = t.shape.back(0), rank = map.rank;
  const double scale = map.scale;
  pool.run([&](int thread) {
    const Range mine = part(t.shape.count() / columns, thread, pool.size());  // rows of all experts
    for (int64_t row = mine.begin; row < mine.end; ++row)
      for (int64_t r = 0; r < rank; ++r) {
        double* sums = to.data() + row * columns;
        if (t.lookup) {  // a:[V,R] b:[D,R]
          const double factor = scale * double(a[size_t(row * rank + r)]);
          for (int64_t i = 0; i < columns; ++i) sums[i] += factor * double(b[size_t(i * rank + r)]);
          continue;
        }
        const double factor = scale * double(b[size_t(row * rank + r)]);
        const float* from = a.data() + (row / rows * rank + r) * columns;
        for (int64_t i = 0; i < columns; ++i) sums[i] += factor * double(from[i]);
      }
  });
}

std::vector<double> weight_of(const Model& model, const TensorSpec& t) {
  const std::vector<float> values = model.params->read(source_of(model.spec, t.name));
  return {values.begin(), values.end()};
}

std::vector<double> squares_of_rows(const std::vector<double>& w, int64_t columns) {
  std::vector<double> sums(w.size() / size_t(columns));
  for (size_t i = 0; i < w.size(); ++i) sums[i / size_t(columns)] += w[i] * w[i];
  return sums;
}

// What rows of the sum w + s b a are multiplied by; empty: by nothing.
std::vector<double> factors_of(const Model& model, const TensorSpec& t, size_t number, const std::vector<double>& sum) {
  const AdapterNames names(t.name, number);
  const auto magnitude = model.spec.adapters[number].maps.at(t.name).magnitude;
  if (magnitude == AdapterSpec::Map::none) return {};
  const std::vector<float> values = model.params->read(magnitude == AdapterSpec::Map::fixed ? names.factor : names.m);
  std::vector<double> factors(values.begin(), values.end());
  if (magnitude == AdapterSpec::Map::fixed) return factors;
  const std::vector<double> squares = squares_of_rows(sum, t.shape.back(0));
  for (size_t row = 0; row < factors.size(); ++row) factors[row] /= std::sqrt(squares[row]);
  return factors;
}

// The squares that norms are computed from.
void add_squares(Model& model, const TensorSpec& t, size_t number) {
  const std::vector<double> squares = squares_of_rows(weight_of(model, t), t.shape.back(0));
  model.params->write(AdapterNames(t.name, number).square, std::vector<float>(squares.begin(), squares.end()));
}

// What a file says of the maps of a model. Calls f(part, pair, first row of b) for each weight in memory.
template <class F>
void for_each_map(const AdapterFile& file, const ModelSpec& spec, const F& f) {
  file.require_architecture(spec);
  std::vector<std::string> known;
  std::set<std::string> found;
  for (const FileTensor& t : adaptable_file_tensors(spec)) {
    known.push_back(t.name);
    if (!file.pairs().contains(t.name)) continue;
    found.insert(t.name);
    check(t.parts.front().adaptable, "{}: an adapter of '{}' is not supported; only linear maps have one", file.path(),
          t.name);
    const AdapterFile::Pair& pair = file.require(t);
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

std::vector<TensorSpec> adaptable_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> list = tensors_of(spec);
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  if (spec.tied) {
    TensorSpec output{TensorSpec::Init::embedding, kOutput, {spec.vocab, spec.d_model}};
    output.adaptable = true;
    list.push_back(output);
  }
  return list;
}

std::vector<TensorSpec> lora_targets(const ModelSpec& spec, const std::vector<std::string>& texts) {
  check(!texts.empty(), "targets: there are none; use {}", kAll);
  const std::vector<Target> targets = parse_targets(texts);
  const std::vector<TensorSpec> all = adaptable_tensors(spec);
  for (const Target& target : targets)
    if (std::none_of(all.begin(), all.end(), [&](const TensorSpec& t) { return target.fits(t); }))
      refuse_target(target.pattern, all);
  std::vector<TensorSpec> list = all;
  std::erase_if(list, [&](const TensorSpec& t) {
    return std::none_of(targets.begin(), targets.end(), [&](const Target& target) { return target.fits(t); });
  });
  return list;
}

namespace {

// DoRA and PiSSA are made for one linear map that is a tensor of its own.
void require_plain(const TensorSpec& t, const char* option) {
  const bool plain = t.shape.rank() == 2 && t.file_name.empty() && !is_embedding(t);
  check(plain, "{}: '{}' {}, for which it is not supported; leave it out of the targets", option, t.name,
        t.shape.rank() > 2 ? "has experts"
        : is_embedding(t)  ? "is an embedding or the output"
                           : "is a part of another tensor in files");
}

}  // namespace

AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& o) {
  check(o.rank >= 1, "rank is {}, expected at least 1", o.rank);
  check(o.alpha > 0 && std::isfinite(o.alpha), "alpha is {}, expected a positive number", o.alpha);
  check(o.dropout >= 0 && o.dropout < 1, "lora-dropout is {}, expected 0 to below 1", o.dropout);
  check(o.b_lr > 0 && std::isfinite(o.b_lr), "lora-plus is {}, expected a positive number", o.b_lr);
  check(!o.dora || !o.pissa, "dora and pissa exclude each other; use one of them");
  AdapterSpec adapter{.maps = {}, .dropout = o.dropout};
  const std::vector<Target> targets = parse_targets(o.targets);
  for (const TensorSpec& t : lora_targets(spec, o.targets)) {
    int64_t rank = o.rank;
    double alpha = o.alpha;
    for (const Target& target : targets)
      if (target.fits(t)) rank = target.rank.value_or(o.rank), alpha = target.alpha.value_or(o.alpha);
    const int64_t most = std::min(t.shape.back(0), t.shape.back(1));
    check(rank <= most, "rank is {}, and '{}' is {}: use a rank of at most {}, or other targets", rank, t.name,
          t.shape.str(), most);
    check(alpha > 0 && std::isfinite(alpha), "targets: alpha of '{}' is {}, expected a positive number", t.name, alpha);
    if (o.dora) require_plain(t, "dora");
    if (o.pissa) require_plain(t, "pissa");
    const double scale = alpha / (o.rslora ? std::sqrt(double(rank)) : double(rank));
    adapter.maps[t.name] = {rank, float(scale), o.dora ? AdapterSpec::Map::trained : AdapterSpec::Map::none};
  }
  return adapter;
}

void add_adapter_weights(Model& model, uint64_t seed) {
  ThreadPool pool;
  const size_t last = model.spec.adapters.size() - 1;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter != int(last)) continue;
    model.params->add(t.name, {DType::f32, t.shape, 0});
    model.params->write(t.name, initial_values(t, seed, 1, pool));
  }
  for (const TensorSpec& t : adaptable_tensors(model.spec)) {
    const auto map = model.spec.adapters[last].maps.find(t.name);
    if (map == model.spec.adapters[last].maps.end() || map->second.magnitude != AdapterSpec::Map::trained) continue;
    add_squares(model, t, last);
    const AdapterNames names(t.name, last);
    std::vector<float> norms = model.params->read(names.square);
    for (float& v : norms) v = std::sqrt(v);
    model.params->write(names.m, norms);
  }
}

AdapterSpec principal_part(AdapterSpec adapter) {
  for (auto& [name, map] : adapter.maps) map.scale = -map.scale;
  adapter.dropout = 0;
  return adapter;
}

void add_principal_weights(Model& model, uint64_t seed) {
  ThreadPool pool;
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.adapter >= 0) model.params->add(t.name, {DType::f32, t.shape, 0});
  for (const TensorSpec& t : adaptable_tensors(model.spec)) {
    const auto map = model.spec.adapters[0].maps.find(t.name);
    if (map == model.spec.adapters[0].maps.end()) continue;
    const LowRank p = principal_of(model.params->read(source_of(model.spec, t.name)), t.shape[0], t.shape[1],
                                   map->second.rank, Philox(seed, t.name), pool);
    std::vector<float> a, b;
    const double share = 1 / std::sqrt(double(map->second.scale));
    for (const double v : p.a) a.push_back(float(share * v));
    for (const double v : p.b) b.push_back(float(share * v));
    for (const size_t number : {size_t(0), size_t(1)}) {
      const AdapterNames names(t.name, number);
      model.params->write(names.a, a), model.params->write(names.b, b);
    }
  }
}

void load_adapter(Model& model, const std::string& path, double scale) {
  check(std::isfinite(scale), "{}: its scale is {}, expected a number", path, scale);
  const AdapterFile file(path);
  const size_t number = model.spec.adapters.size();
  AdapterSpec adapter;
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t) {
    adapter.maps[part.name] = {pair.rank(), float(double(file.scale_of(pair)) * scale),
                               pair.m ? AdapterSpec::Map::trained : AdapterSpec::Map::none};
  });
  add_loaded(model, std::move(adapter), path);
  for_each_map(file, model.spec, [&](const TensorSpec& part, const AdapterFile::Pair& pair, int64_t row) {
    const AdapterNames names(part.name, number);
    model.params->write(names.a, values_of(*pair.a, 0, pair.a->shape[0]));
    model.params->write(names.b,
                        values_of(*pair.b, part.lookup ? 0 : row, part.lookup ? pair.b->shape[0] : part.shape[0]));
    if (pair.m) model.params->write(names.m, values_of(*pair.m, 0, part.shape[0])), add_squares(model, part, number);
  });
}

void add_loaded(Model& model, AdapterSpec adapter, const std::string& path) {
  const auto has_norms = [](const AdapterSpec& a) {
    return std::any_of(a.maps.begin(), a.maps.end(),
                       [](const auto& map) { return map.second.magnitude != AdapterSpec::Map::none; });
  };
  model.spec.adapters.push_back(std::move(adapter));
  const std::vector<AdapterSpec>& all = model.spec.adapters;
  check(all.size() == 1 || std::none_of(all.begin(), all.end(), has_norms),
        "{}: an adapter with norms of rows (DoRA) cannot be combined with another one; merge one of them first", path);
  for (const TensorSpec& t : tensors_of(model.spec))
    if (t.adapter == int(all.size()) - 1) model.params->add(t.name, {DType::f32, t.shape, 0});
}

void set_norms(Model& model, const std::string& weight, std::span<const float> norms) {
  for (const TensorSpec& t : adaptable_tensors(model.spec)) {
    if (t.name != weight) continue;
    const size_t last = model.spec.adapters.size() - 1;
    model.params->write(AdapterNames(weight, last).m, norms);
    add_squares(model, t, last);
  }
}

void fix_magnitudes(Model& model) {
  ThreadPool pool;
  for (const TensorSpec& t : adaptable_tensors(model.spec))
    for (size_t number = 0; number < model.spec.adapters.size(); ++number) {
      const auto map = model.spec.adapters[number].maps.find(t.name);
      if (map == model.spec.adapters[number].maps.end() || map->second.magnitude != AdapterSpec::Map::trained) continue;
      std::vector<double> sum = weight_of(model, t);
      add_product(model, t, number, pool, sum);
      const std::vector<double> factors = factors_of(model, t, number, sum);
      const std::string name = AdapterNames(t.name, number).factor;
      model.params->add(name, {DType::f32, {t.shape[0]}, 0});
      model.params->write(name, std::vector<float>(factors.begin(), factors.end()));
      map->second.magnitude = AdapterSpec::Map::fixed;
    }
}

namespace {

// Gives a model an output of its own where an adapter changes only one use of the table.
void untie(Model& model) {
  const auto changed = [&](const char* name) {
    return std::any_of(model.spec.adapters.begin(), model.spec.adapters.end(),
                       [&](const AdapterSpec& a) { return a.maps.contains(name); });
  };
  if (!model.spec.tied || !(changed(kOutput) || changed(kEmbedding))) return;
  model.spec.tied = false;
  model.spec.validate();
  const std::vector<float> table = model.params->read(kEmbedding);
  model.params->add(kOutput, {DType::f32, {model.spec.vocab, model.spec.d_model}, 0});
  model.params->write(kOutput, table);
}

}  // namespace

void merge_adapters(Model& model) {
  ThreadPool pool;
  untie(model);
  for (const TensorSpec& t : adaptable_tensors(model.spec)) {
    std::vector<double> sums;
    for (size_t number = 0; number < model.spec.adapters.size(); ++number) {
      if (!model.spec.adapters[number].maps.contains(t.name)) continue;
      check(model.params->type(t.name).dtype == DType::f32, "merge: '{}' is {}; only f32 weights can be changed",
            t.name, name_of(model.params->type(t.name).dtype));
      if (sums.empty()) sums = weight_of(model, t);
      add_product(model, t, number, pool, sums);
      const std::vector<double> factors = factors_of(model, t, number, sums);
      for (size_t i = 0; i < (factors.empty() ? 0 : sums.size()); ++i) sums[i] *= factors[i / size_t(t.shape.back(0))];
    }
    if (!sums.empty()) model.params->write(t.name, View(sums.data(), DType::f64, t.shape));
  }
  model.spec.adapters.clear();
}

namespace {

// Rows of [n,cx] and [n,cy] one behind the other.
std::vector<float> side_by_side(const std::vector<float>& x, const std::vector<float>& y, size_t rows) {
  std::vector<float> both;
  for (size_t r = 0; r < rows; ++r)
    for (const std::vector<float>* v : {&x, &y}) {
      const auto columns = std::ptrdiff_t(v->size() / rows);
      both.insert(both.end(), v->begin() + std::ptrdiff_t(r) * columns, v->begin() + std::ptrdiff_t(r + 1) * columns);
    }
  return both;
}

// A change of a weight; rank 0: none.
struct Low {
  int64_t rank = 0;
  double scale = 1;
  std::vector<float> a, b;

  // b of another scale, so that the change stays what it is.
  void rescale(double to) {
    const double factor = scale / to;
    if (factor != 1)
      for (float& v : b) v = float(double(v) * factor);
    scale = to;
  }
};

// What these adapters do to a weight, as one of the sum of their ranks.
Low low_of(const Model& model, const TensorSpec& t, std::span<const size_t> numbers) {
  Low all;
  for (const size_t number : numbers) {
    const auto map = model.spec.adapters.at(number).maps.find(t.name);
    if (map == model.spec.adapters[number].maps.end()) continue;
    const AdapterNames names(t.name, number);
    Low own{map->second.rank, double(map->second.scale), model.params->read(names.a), model.params->read(names.b)};
    if (all.rank == 0) {
      all = std::move(own);
      continue;
    }
    own.rescale(all.scale);
    const int64_t a_rows = t.lookup ? t.shape[0] : t.shape.rank() > 2 ? t.shape[0] : 1;
    all.a = side_by_side(all.a, own.a, size_t(a_rows));
    all.b = side_by_side(all.b, own.b, own.b.size() / size_t(own.rank));
    all.rank += own.rank;
  }
  return all;
}

void save_as_one(const Model& model, std::span<const size_t> numbers, const std::string& path, DType stored) {
  check(stored == DType::f32 || stored == DType::f16 || stored == DType::bf16,
        "save: an adapter cannot be stored as {}; expected f32, f16 or bf16", name_of(stored));
  std::optional<float> alpha;  // that of the first map
  gguf::Writer w(model.spec.architecture);
  w.set("general.type", std::string("adapter"));
  w.set("general.name", model.spec.name);
  w.set("adapter.type", std::string("lora"));
  std::deque<std::vector<float>> kept;  // until they are written
  const auto add = [&](const std::string& name, std::vector<float> values, const Shape& shape, DType type) {
    w.add(name, View(kept.emplace_back(std::move(values)).data(), DType::f32, shape), type);
  };
  for (const FileTensor& t : adaptable_file_tensors(model.spec)) {
    std::vector<Low> lows;
    int64_t rank = 0;  // of all parts: rows of their a follow each other, and b has blocks along its diagonal
    for (const TensorSpec& part : t.parts) rank += lows.emplace_back(low_of(model, part, numbers)).rank;
    if (rank == 0) continue;
    if (!alpha) alpha = float(lows.front().scale * double(lows.front().rank));
    TensorSpec whole = t.parts.front();
    whole.shape = t.shape;
    const auto [a, b] = AdapterShapes(whole, rank);
    for (Low& low : lows) low.rescale(double(*alpha) / double(rank));
    if (t.parts.size() > 1) {
      Low fused{rank, 1, {}, std::vector<float>(size_t(b.count()))};
      int64_t row = 0, column = 0;
      for (size_t i = 0; i < lows.size(); ++i) {
        const Low& low = lows[i];
        const int64_t rows = t.parts[i].shape[0];
        fused.a.insert(fused.a.end(), low.a.begin(), low.a.end());
        for (int64_t r = 0; low.rank > 0 && r < rows; ++r)
          std::copy_n(low.b.begin() + r * low.rank, low.rank, fused.b.begin() + (row + r) * rank + column);
        column += low.rank, row += rows;
      }
      lows.front() = std::move(fused);
    }
    check(int64_t(lows.front().a.size()) == a.count(), "save: '{}' has no adapter of this kind", t.name);
    add(t.name + std::string(kA), std::move(lows.front().a), a, stored);
    add(t.name + std::string(kB), std::move(lows.front().b), b, stored);
    const AdapterSpec& adapter = model.spec.adapters[numbers.front()];
    const auto map = adapter.maps.find(whole.name);
    if (map == adapter.maps.end() || map->second.magnitude == AdapterSpec::Map::none) continue;
    check(map->second.magnitude == AdapterSpec::Map::trained, "save: the norms of '{}' are fixed", t.name);
    add(t.name + std::string(kM), model.params->read(AdapterNames(whole.name, numbers.front()).m), {t.shape[0]},
        DType::f32);
  }
  check(alpha.has_value(), "save: the adapter changes nothing");
  w.set("adapter.lora.alpha", *alpha);
  w.finish(path);
}

}  // namespace

void save_adapter(const Model& model, size_t number, const std::string& path, DType stored) {
  save_as_one(model, std::array{number}, path, stored);
}

void save_adapters(const Model& model, const std::string& path, DType stored) {
  std::vector<size_t> numbers(model.spec.adapters.size());
  std::iota(numbers.begin(), numbers.end(), size_t(0));
  save_as_one(model, numbers, path, stored);
}

}  // namespace toy
