// Kimi Delta Attention.
#include <cmath>

#include "models/mixers/mixer.h"

namespace toy::nn {
namespace {

// Kimi Delta Attention (Kimi Team 2025): Gated DeltaNet with a decay of each element of a key. H heads of width P.
// x:[N,D] -> [N,D].
Mixer make_kimi_delta(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const auto& sizes = std::get<KimiDelta>(m.layers[layer].mixer);
  const int64_t d = m.d_model, heads = sizes.heads, width = sizes.width, inner = heads * width;
  const auto map = [&](const char* name) { return make_linear(w, name, inner, d); };
  const auto conv = [&](const char* name) -> CausalConv {
    TensorSpec filter{Init::matrix, name, {1, inner, 1, sizes.conv}};
    filter.narrow = false;
    return {reshape(w(filter), {inner, sizes.conv})};
  };
  const Linear q = map("attn_q"), k = map("attn_k"), v = map("attn_v");
  const CausalConv conv_q = conv("ssm_conv1d_q.weight"), conv_k = conv("ssm_conv1d_k.weight"),
                   conv_v = conv("ssm_conv1d_v.weight");
  const Linear decay_in = make_linear(w, "ssm_f_a", width, d);  // the decay from x through a narrow map
  const Linear decay_out = make_linear(w, "ssm_f_b", inner, width);
  const Linear beta = make_linear(w, "ssm_beta", heads, d);
  const Value a_log = make_log_rates(w, {1, 1, heads, 1}), dt_bias = make_step_bias(w, inner);
  const Linear gate_in = make_linear(w, "ssm_g_a", width, d);  // the same of the gate
  const Linear gate_out = make_linear(w, "ssm_g_b", inner, width);
  const RmsNorm norm = make_rms_norm(w, "ssm_norm", width, m.norm_eps);
  const Linear out = make_linear(w, "attn_output", d, inner);
  const Scale rates{sizes.negative_eigenvalues ? 2.0 : 1.0};  // as in Gated DeltaNet
  const std::vector<StateSpec> states{{StateSpec::Kind::sequence, "delta", {heads, width, width}},
                                      tail_of(conv_q, "conv_q"),
                                      tail_of(conv_k, "conv_k"),
                                      tail_of(conv_v, "conv_v")};
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const auto& [sequence, position, turn] = ctx.batch;
    const bool decoding = !state.slots.empty();
    const auto heads_of = [&](Value rows) { return reshape(rows, {-1, heads, width}); };
    const auto mapped = [&](const Linear& of, const CausalConv& filter, size_t slot) {
      return heads_of(silu(filter(of(x), decoding ? &state.slots[slot] : nullptr, ctx.batch)));
    };
    const Value queries = scale(l2_norm(mapped(q, conv_q, 1), norm.eps), 1 / std::sqrt(double(width)));
    const Value keys = l2_norm(mapped(k, conv_k, 2), norm.eps), values = mapped(v, conv_v, 3);
    const Value steps = heads_of(softplus(decay_out(decay_in(x)) + dt_bias));
    const Value decay = -exp(reshape(a_log, {1, heads, 1})) * steps, b = rates(sigmoid(beta(x)));
    const DeltaRule r =
        decoding ? gated_delta_rule_update(state.slots[0], queries, keys, values, decay, b, sequence, position)
                 : gated_delta_rule(queries, keys, values, decay, b, {}, sequence, position);
    if (decoding) state.slots[0] = r.s;
    const Value gate = sigmoid(heads_of(gate_out(gate_in(x))));
    return out(reshape(norm(r.o) * gate, {-1, inner}));
  };
  return {states, call};
}

}  // namespace

MixerDef kimi_delta_mixer() {
  return {.word = "kda",
          .title = "Kimi Delta",
          .fields = {{"delta_value_heads", size<&KimiDelta::heads>, "H", "heads", 1, kMaxHeads},
                     {"delta_width", size<&KimiDelta::width>, "P", "head width", 1, kMaxHeadWidth},
                     {"delta_negative_eigenvalues", size<&KimiDelta::negative_eigenvalues>},
                     {.key = "conv_width", .of = size<&KimiDelta::conv>, .least = 1, .most = kMaxShortConv}},
          .usual_conv = 4,
          .fill =
              [](LayerSpec& l, int64_t) {
                auto& s = std::get<KimiDelta>(l.mixer);
                fill_with(s.heads, l.heads), fill_with(s.width, l.d_head);
              },
          .flops =
              [](const ModelSpec&, const LayerSpec& l, double) {
                const auto& s = std::get<KimiDelta>(l.mixer);
                return 7.0 * double(s.heads * s.width * s.width);
              },
          .no_adapters_in_llama_cpp = {"attn_*", "ssm_*"},
          .make = make_kimi_delta};
}

}  // namespace toy::nn
