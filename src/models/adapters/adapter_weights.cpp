#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/adapters/adapter_parts.h"
#include "models/families/families.h"
#include "toy/base/threads.h"
#include "toy/tensor/projection.h"

namespace toy {
namespace {

using Magnitude = AdapterSpec::Magnitude;

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
    for (const double n : squared_norms(model, weight, names, map, true)) {
      check(n > 0, "dora: row {} of '{}' is all zeros with this adapter and has no direction; it cannot be used",
            norms.size(), weight);
      norms.push_back(float(std::sqrt(n)));
    }
    model.params->write(names.n, norms);
  }
}

namespace {

// Each of `rows` rows of x, and behind it that of y.
std::vector<float> side_by_side(const std::vector<float>& x, const std::vector<float>& y, size_t rows) {
  std::vector<float> both;
  for (size_t row = 0; row < rows; ++row)
    for (const std::vector<float>* of : {&x, &y}) {
      const auto n = std::ptrdiff_t(of->size() / rows), at = std::ptrdiff_t(row) * n;
      both.insert(both.end(), of->begin() + at, of->begin() + at + n);
    }
  return both;
}

// s b a of a map becomes the principal part of its weight, and so does what is subtracted. Where a singular value is 0,
// of a weight of zeros all of them, `a` keeps its random row and b is 0: of two zeros neither would ever learn.
void begin_as_principal_parts(Model& model, size_t number, uint64_t seed, ThreadPool& pool) {
  for (const TensorSpec& t : tensors_of(model.spec)) {
    const auto map = model.spec.adapters[number].maps.find(t.name);
    if (map == model.spec.adapters[number].maps.end() || !map->second.principal) continue;
    const AdapterNames names(t.name, number);
    const int64_t rows = t.shape.back(1), columns = t.shape.back(0);
    const std::vector<float> w = model.params->read(t.name);
    std::vector<float> a = model.params->read(names.a), b;
    for (int64_t i = 0; i < t.shape.count() / (rows * columns); ++i) {  // of each expert
      const auto matrix = std::span(w).subspan(size_t(i * rows * columns), size_t(rows * columns));
      const LowRank part =
          best_low_rank(matrix, columns, map->second.rank, double(map->second.scale), Philox(seed, t.name), pool);
      auto to = a.begin() + i * int64_t(part.a.size());
      for (auto from = part.a.begin(); from < part.a.end(); from += columns, to += columns)
        if (std::any_of(from, from + columns, [](float v) { return v != 0; })) std::copy_n(from, columns, to);
      b.insert(b.end(), part.b.begin(), part.b.end());
    }
    model.params->write(names.a, a), model.params->write(names.a0, a);
    model.params->write(names.b, b), model.params->write(names.b0, b);
  }
}

}  // namespace

void add_adapter_weights(Model& model, uint64_t seed) {
  ThreadPool pool(model.params->device().host_threads());
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
      check(std::isfinite(n), "dora: row {} of '{}' holds what is no number", norms.size(), weight);
      check(float(n) > 0, "dora: row {} of '{}' is all zeros and has no direction; leave the map out of --targets",
            norms.size(), weight);
      norms.push_back(float(n));
      magnitudes.push_back(std::sqrt(norms.back()));
    }
    model.params->write(names.n, norms);
    model.params->write(names.m, magnitudes);
  }
  begin_as_principal_parts(model, size_t(last), seed, pool);
}

AdapterFactors factors_of(const Model& model, const std::string& weight, size_t number) {
  const AdapterSpec::Map& map = model.spec.adapters.at(number).maps.at(weight);
  const AdapterNames names(weight, number);
  AdapterFactors f{model.params->read(names.a), model.params->read(names.b), map.rank};
  if (!map.principal) return f;
  std::vector<float> a0 = model.params->read(names.a0), b0 = model.params->read(names.b0);
  for (float& v : b0) v = -v;
  const Shape shape = model.params->type(names.a).shape;
  const size_t experts = shape.rank() > 2 ? size_t(shape[0]) : 1;
  return {side_by_side(f.a, a0, experts), side_by_side(f.b, b0, f.b.size() / size_t(map.rank)), 2 * map.rank};
}

namespace {

// Embeddings and output of a tied model become two tensors, where one of them alone changes.
void untie(Model& model) {
  const auto changes = [&](const char* name) {
    return std::any_of(model.spec.adapters.begin(), model.spec.adapters.end(),
                       [&](const AdapterSpec& a) { return a.maps.contains(name); });
  };
  if (!model.spec.tied || (!changes(kEmbedding) && !changes(kOutput))) return;
  for (const AdapterSpec& a : model.spec.adapters)
    check(can_be_merged(model.spec, a),
          "merge: files of {} have one tensor for embeddings and output, and the adapter changes one of them; use it "
          "with --lora",
          model.spec.architecture);
  model.params->add(kOutput, {DType::f32, {model.spec.vocab, model.spec.d_model}, 0});
  model.params->write(kOutput, model.params->read(kEmbedding));
  model.spec.tied = false;
}

// a [R,I] and b [O,R] of a map; also where the file has the embeddings' way.
AdapterFactors as_of_a_map(const Model& model, const std::string& weight, size_t number) {
  AdapterFactors f = factors_of(model, weight, number);
  if (weight != kEmbedding) return f;
  std::swap(f.a, f.b);  // a: [D,R]
  std::vector<float> turned(f.a.size());
  const size_t r = size_t(f.rank), width = f.a.size() / r;
  for (size_t d = 0; d < width; ++d)
    for (size_t i = 0; i < r; ++i) turned[i * width + d] = f.a[d * r + i];
  f.a = std::move(turned);
  return f;
}

// Row by row, what earlier adapters left of w and this one's change s b a, times m / |w + s b a|.
void apply_magnitudes(std::span<double> sums, std::span<const double> change, std::span<const float> weight,
                      std::span<const float> magnitude) {
  const size_t columns = weight.size() / magnitude.size();
  for (size_t o = 0; o < magnitude.size(); ++o) {
    const auto w = weight.subspan(o * columns, columns);
    const auto d = change.subspan(o * columns, columns);
    const auto sum = sums.subspan(o * columns, columns);
    double norm = 0;
    for (size_t i = 0; i < columns; ++i) norm += (double(w[i]) + d[i]) * (double(w[i]) + d[i]);
    const double gain = double(magnitude[o]) / std::sqrt(norm);
    for (size_t i = 0; i < columns; ++i) sum[i] = gain * (sum[i] + d[i]);
  }
}

}  // namespace

void merge_adapters(Model& model) {
  ThreadPool pool(model.params->device().host_threads());
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
      const AdapterFactors f = as_of_a_map(model, t.name, number);
      const int64_t rows = t.shape.back(1), columns = t.shape.back(0), rank = f.rank;
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
      if (has_magnitudes) apply_magnitudes(sums, change, values, model.params->read(AdapterNames(t.name, number).m));
    }
    for (const double v : sums)
      check(std::isfinite(float(v)), "merge: '{}' would hold {}; give the adapter a smaller scale", t.name, v);
    if (!sums.empty()) model.params->write(t.name, View(sums.data(), DType::f64, t.shape));
  }
  for (const AdapterSpec& a : model.spec.adapters)
    if (!a.chat_template.empty()) model.metadata.insert_or_assign(kChatTemplate, gguf::Value(a.chat_template));
  model.spec.adapters.clear();
}

}  // namespace toy
