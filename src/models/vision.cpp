#include "toy/models/vision.h"

#include "toy/base/error.h"

namespace toy {

void require_vision(const ModelSpec& m) {
  check(m.vision.there(), "model {}: it reads text, and no pictures; train one that does with toy train vit", m.name);
}

void append_patches(const VisionSpec& v, std::span<const float> picture, std::vector<float>& rows) {
  rows.insert(rows.end(), size_t(v.tokens() * v.values()), 0.0f);
  const int64_t side = v.image / v.patch;
  for (int64_t down = 0; down < side; ++down)
    for (int64_t across = 0; across < side; ++across)
      for (int64_t c = 0; c < v.channels; ++c)
        for (int64_t y = down * v.patch; y < (down + 1) * v.patch; ++y)
          for (int64_t x = across * v.patch; x < (across + 1) * v.patch; ++x)
            rows.push_back((picture[size_t((y * v.image + x) * v.channels + c)] / 255.0f - v.mean[size_t(c)]) /
                           v.std[size_t(c)]);
}

VisionRows::VisionRows(int64_t images, int64_t rows) {
  for (int64_t i = 0; i < images; ++i)
    for (int64_t r = 0; r < rows; ++r) {
      sequence.push_back(int32_t(i));
      position.push_back(int32_t(r));
      until.push_back(int32_t(rows));
    }
}

VisionGraph build_vision(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t images,
                         Value random, double dropout) {
  require_vision(spec);
  VisionGraph v{.pixels = {}, .sequence = {}, .position = {}, .until = {}, .logits = {}, .rows = spec.vision.rows()};
  const int64_t n = images * v.rows;
  const TensorType ids{DType::i32, {n}, 0};
  v.pixels = g.input("pixels", {DType::f32, {n, spec.vision.values()}, 0});
  v.sequence = g.input("sequence", ids, images), v.position = g.input("position", ids, v.rows);
  v.until = g.input("until", ids, v.rows + 1);
  const nn::Context ctx{.batch = {.sequence = v.sequence, .position = v.position},
                        .dropout = {dropout > 0 ? random : Value{}, dropout},
                        .until = v.until};
  const Transformer model(spec, Weights(g, dtype_of), v.rows, random);
  const Value x = reshape(model(v.pixels, ctx), {images, v.rows, spec.d_model});
  const auto scope = g.scope("output");
  const auto flat = [&](Value pooled) { return reshape(pooled, {images, spec.d_model}); };
  const auto row = [&](int64_t r) { return flat(slice(x, 1, r, 1)); };
  v.logits = spec.vision.distilled ? model.head.logits_of_both(row(0), row(1))
                                   : model.head.logits(spec.vision.class_token ? row(0) : flat(mean(x, 1)));
  return v;
}

// With z less its largest, so that no exp overflows.
Value soft_cross_entropy(Value logits, Value shares) {
  const Value z = logits - stop_gradient(max(logits, 1));
  const Value by_class = sum(shares * z, 1);
  return reshape(log(sum(exp(z), 1)), {-1, 1}) - reshape(by_class, {-1, 1});
}

}  // namespace toy
