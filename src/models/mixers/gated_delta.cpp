// Gated DeltaNet.
#include <cmath>

#include "models/mixers/mixer.h"
#include "toy/base/error.h"

namespace toy::nn {
namespace {

// Gated DeltaNet (Yang et al. 2024): each value head has a state, a matrix that maps keys to values, which every row
// forgets a little, corrects and reads. K key heads, H value heads of width P. x:[N,D] -> [N,D].
Mixer make_delta_net(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const auto& sizes = std::get<DeltaNet>(m.layers[layer].mixer);
  const int64_t keys = sizes.key_heads, heads = sizes.value_heads, width = sizes.width;
  const int64_t d = m.d_model, inner = heads * width, channels = 2 * keys * width + inner;
  const bool packed = sizes.packed;
  const auto map = [&](const char* name, int64_t rows, bool is_there = true) -> Linear {
    return is_there ? make_linear(w, name, rows, d) : Linear{};
  };
  const Linear qkv = map("attn_qkv", channels);  // rows of q, k and v
  std::optional<CausalConv> conv;                // of them, then silu
  if (sizes.conv > 0) conv = make_conv(w, "ssm_conv1d", channels, sizes.conv);
  const Linear gate = map("attn_gate", inner);
  const Linear beta = map("ssm_beta", heads, !packed), alpha = map("ssm_alpha", heads, !packed);
  const Linear both = map("ssm_ba", 2 * heads, packed);  // for each key head the rows of beta, those of alpha
  const Value dt_bias = make_step_bias(w, heads), a_log = make_log_rates(w, {heads});
  const RmsNorm norm = make_rms_norm(w, "ssm_norm", width, m.norm_eps);
  const Linear out = make_linear(w, "ssm_out", d, inner);
  const DeltaRuleAttrs attrs{sizes.heads};
  const Scale rates{sizes.negative_eigenvalues ? 2.0 : 1.0};  // 2: a row may turn what a state has for its key around
  std::vector<StateSpec> states{{StateSpec::Kind::sequence, "delta", {heads, width, width}}};
  if (conv) states.push_back(tail_of(*conv));
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const auto& [sequence, position, turn] = ctx.batch;
    const bool decoding = !state.slots.empty();
    Value rows = qkv(x);
    if (conv) rows = silu((*conv)(rows, decoding ? &state.slots.back() : nullptr, ctx.batch));
    const auto heads_of = [&](int64_t first, int64_t n) {
      return reshape(slice(rows, 1, first * width, n * width), {-1, n, width});
    };
    const Value q = scale(l2_norm(heads_of(0, keys), norm.eps), 1 / std::sqrt(double(width)));
    const Value k = l2_norm(heads_of(keys, keys), norm.eps), v = heads_of(2 * keys, heads);
    Value b, a;
    if (packed) {
      const int64_t each = heads / keys;
      const Value by_key = reshape(both(x), {-1, keys, 2 * each});
      b = reshape(slice(by_key, 2, 0, each), {-1, heads}), a = reshape(slice(by_key, 2, each, each), {-1, heads});
    } else {
      b = beta(x), a = alpha(x);
    }
    const Value decay = -exp(a_log) * softplus(a + dt_bias), rate = rates(sigmoid(b));  // of the logarithm; [N,H]
    const DeltaRule r = decoding
                            ? gated_delta_rule_update(state.slots[0], q, k, v, decay, rate, sequence, position, attrs)
                            : gated_delta_rule(q, k, v, decay, rate, {}, sequence, position, attrs);
    if (decoding) state.slots[0] = r.s;
    const Value z = reshape(gate(x), {-1, heads, width});
    return out(reshape(swiglu(z, norm(r.o)), {-1, heads * width}));
  };
  return {states, call};
}

}  // namespace

MixerDef gated_delta_mixer() {
  return {.word = "gdn",
          .title = "Gated DeltaNet",
          .fields = {{"delta_key_heads", size<&DeltaNet::key_heads>, "K", "key heads", 1, kMaxHeads},
                     {"delta_value_heads", size<&DeltaNet::value_heads>, "H", "value heads", 1, kMaxHeads},
                     {"delta_width", size<&DeltaNet::width>, "P", "head width", 1, kMaxHeadWidth},
                     {"delta_heads", size<&DeltaNet::heads>},
                     {"delta_packed", size<&DeltaNet::packed>},
                     {"delta_negative_eigenvalues", size<&DeltaNet::negative_eigenvalues>},
                     {.key = "conv_width", .of = size<&DeltaNet::conv>, .most = kMaxShortConv}},
          .usual_conv = 4,
          .fill =
              [](LayerSpec& l, int64_t) {
                auto& s = std::get<DeltaNet>(l.mixer);
                fill_with(s.value_heads, l.heads), fill_with(s.width, l.d_head), fill_with(s.key_heads, s.value_heads);
              },
          .check =
              [](const ModelSpec& m, size_t layer) {
                const auto& d = std::get<DeltaNet>(m.layers[layer].mixer);
                check(d.value_heads % d.key_heads == 0,
                      "model {}: layer {}: {} value heads are not a multiple of {} key heads", m.name, layer,
                      d.value_heads, d.key_heads);
                check(!d.packed || d.heads == HeadMap::interleave,
                      "model {}: layer {}: delta_packed needs delta_heads interleave", m.name, layer);
              },
          .flops =
              [](const ModelSpec&, const LayerSpec& l, double) {
                const auto& s = std::get<DeltaNet>(l.mixer);
                return 7.0 * double(s.value_heads * s.width * s.width);
              },
          .make = make_delta_net};
}

}  // namespace toy::nn
