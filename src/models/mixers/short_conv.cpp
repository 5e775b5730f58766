// A short convolution between two gates.
#include "models/mixers/mixer.h"

namespace toy::nn {
namespace {

// A short convolution between two gates (Liquid AI 2025): out(c * conv(b * u)). x:[N,D] -> [N,D].
Mixer make_short_conv(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const int64_t d = m.d_model;
  const Linear in = make_linear(w, "shortconv.in_proj", 3 * d, d);  // rows of b, c and u
  const CausalConv conv = make_conv(w, "shortconv.conv", d, std::get<ShortConv>(m.layers[layer].mixer).width);
  const Linear out = make_linear(w, "shortconv.out_proj", d, d);
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const Value rows = in(x);
    const auto part = [&](int64_t i) { return slice(rows, 1, i * d, d); };
    const Value mixed = conv(part(0) * part(2), state.slots.empty() ? nullptr : &state.slots[0], ctx.batch);
    return out(part(1) * mixed);
  };
  return {{tail_of(conv)}, call};
}

}  // namespace

MixerDef short_conv_mixer() {
  return {.word = "conv",
          .title = "short convolution",
          .fields = {{"conv_width", size<&ShortConv::width>, "W", "positions", 1, kMaxShortConv}},
          .usual_conv = 3,
          .flops = [](const ModelSpec& m, const LayerSpec& l,
                      double) { return 2.0 * double(std::get<ShortConv>(l.mixer).width * m.d_model); },
          .make = make_short_conv};
}

}  // namespace toy::nn
