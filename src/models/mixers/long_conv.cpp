// A convolution as long as the context may be, and a gate.
#include <cmath>

#include "models/mixers/mixer.h"

namespace toy::nn {
namespace {

// The factor of a filter's column: it fades towards older rows, within 1 row in the first channel and a quarter of the
// filter in the last one. The squares of a channel's factors add up to 1, as in Init::matrix.
double fading(const Shape& filter, int64_t i) {
  const int64_t width = filter[1], age = width - 1 - i % width;
  const double rows =
      std::pow(std::max(1.0, double(width) / 4), double(i / width) / double(std::max<int64_t>(1, filter[0] - 1)));
  const double r = std::exp(-1 / rows);
  return std::sqrt((1 - r * r) / (1 - std::pow(r, 2 * double(width)))) * std::pow(r, double(age));
}

// A convolution with filters as long as the context may be, and a gate: out(silu(gate) * conv(u)), after Hyena (Poli
// et al. 2023), whose filters follow from a network. Here they are weights. x:[N,D] -> [N,D].
Mixer make_long_conv(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const int64_t d = m.d_model;
  TensorSpec filter{Init::own, "ssm_conv1d.weight", {d, std::get<LongConv>(m.layers[layer].mixer).width}};
  filter.narrow = false;
  filter.own = [](const Shape& shape, const Philox& random, int64_t i, double scale) {
    return scale * fading(shape, i) * random.normal(uint64_t(i));
  };
  const Linear in = make_linear(w, "ssm_in", 2 * d, d);  // rows of the gate and u
  const CausalConv conv{w(filter)};
  const Linear out = make_linear(w, "ssm_out", d, d);
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const Value rows = in(x), u = slice(rows, 1, d, d);
    const Value mixed = conv(u, state.slots.empty() ? nullptr : &state.slots[0], ctx.batch);
    return out(swiglu(slice(rows, 1, 0, d), mixed));
  };
  return {{tail_of(conv)}, call};
}

}  // namespace

MixerDef long_conv_mixer() {
  constexpr int64_t kMost = 65536;
  return {.word = "longconv",
          .title = "long convolution",
          .fields = {{"conv_width", size<&LongConv::width>, "W", "positions", 1, kMost}},
          .usual_conv = 1024,
          .flops = [](const ModelSpec& m, const LayerSpec& l,
                      double) { return 2.0 * double(std::get<LongConv>(l.mixer).width * m.d_model); },
          .make = make_long_conv};
}

}  // namespace toy::nn
