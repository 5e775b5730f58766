// Mamba-2.
#include "models/mixers/mixer.h"
#include "toy/base/error.h"

namespace toy::nn {
namespace {

// Mamba-2 (Dao and Gu 2024): each head has a state, a matrix that every row forgets a little, adds x b^T to and reads
// with c; groups of heads share b and c. H heads of width P, G groups. x:[N,D] -> [N,D].
Mixer make_mamba2(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const auto& sizes = std::get<MambaSizes>(m.layers[layer].mixer);
  const int64_t heads = sizes.heads, width = sizes.width, columns = sizes.state, groups = sizes.groups;
  const int64_t d = m.d_model, inner = heads * width, shared = groups * columns, channels = inner + 2 * shared;
  const auto ones = [](const Weights& part, const char* name, const Shape& shape) {
    TensorSpec t{Init::ones, name, shape};
    t.narrow = false;
    return part(t);
  };
  const Linear in = make_linear(w, "ssm_in", inner + channels + heads, d);  // rows of z, x, b, c and the step
  std::optional<CausalConv> conv;                                           // of x, b and c, then silu
  if (sizes.conv > 0) conv = make_conv(w, "ssm_conv1d", channels, sizes.conv, true);
  const Value dt_bias = make_step_bias(w, heads);  // of the step, before its softplus
  const Value a_log = make_log_rates(w, {heads, 1});
  const Value skip = ones(w, "ssm_d", {heads, 1});  // times x is added to what is read
  // Gains of an rms norm of each group, after the gate.
  const Value norm = ones(w.of(ModelPart::norm), "ssm_norm.weight", {groups, inner / groups});
  const Linear out = make_linear(w, "ssm_out", d, inner);
  std::vector<StateSpec> states{{StateSpec::Kind::sequence, "ssm", {heads, columns, width}}};
  if (conv) states.push_back(tail_of(*conv));
  const auto call = [=, eps = m.norm_eps](Value x, LayerState& state, const Context& ctx) {
    const auto& [sequence, position, turn] = ctx.batch;
    const bool decoding = !state.slots.empty();
    const Value rows = in(x);
    Value u = slice(rows, 1, inner, channels);
    if (conv) u = (*conv)(u, decoding ? &state.slots.back() : nullptr, ctx.batch);
    u = silu(u);
    const Value values = reshape(slice(u, 1, 0, inner), {-1, heads, width});
    const auto of_groups = [&](int64_t first) { return reshape(slice(u, 1, first, shared), {-1, groups, columns}); };
    const Value b = of_groups(inner), c = of_groups(inner + shared);
    const Value dt = softplus(slice(rows, 1, inner + channels, heads) + dt_bias), a = -exp(reshape(a_log, {heads}));
    const DeltaRule r = decoding ? ssm_scan_update(state.slots[0], values, dt, a, b, c, sequence, position)
                                 : ssm_scan(values, dt, a, b, c, {}, sequence, position);
    if (decoding) state.slots[0] = r.s;
    const Value y = r.o + reshape(skip, {1, heads, 1}) * values;
    const Value gated = swiglu(slice(rows, 1, 0, inner), reshape(y, {-1, inner}));
    const int64_t each = inner / groups;
    if (groups == 1) return out(rms_norm(gated, reshape(norm, {inner}), eps));
    const Value normed = rms_norm(reshape(gated, {-1, groups, each}), fill(*x.graph, {each}, 1), eps);
    return out(reshape(normed * reshape(norm, {1, groups, each}), {-1, inner}));
  };
  return {states, call};
}

}  // namespace

MixerDef mamba2_mixer() {
  return {.word = "mamba2",
          .title = "Mamba-2",
          .fields = {{"mamba2_heads", size<&MambaSizes::heads>, "H", "heads", 1, kMaxHeads},
                     {"mamba2_width", size<&MambaSizes::width>, "P", "head width", 1, kMaxHeadWidth},
                     {"mamba2_state", size<&MambaSizes::state>, "S", "columns of a state", 1, kMaxHeadWidth},
                     {"mamba2_groups", size<&MambaSizes::groups>, "G", "groups", 1, kMaxHeads},
                     {.key = "conv_width", .of = size<&MambaSizes::conv>, .most = kMaxShortConv}},
          .usual_conv = 4,
          .may_be_alone = true,
          .fill =
              [](LayerSpec& l, int64_t d_model) {
                auto& s = std::get<MambaSizes>(l.mixer);
                fill_with(s.width, l.d_head), fill_with(s.state, 64), fill_with(s.groups, 1);
                if (s.width > 0) fill_with(s.heads, (2 * d_model + s.width - 1) / s.width);
              },
          .check =
              [](const ModelSpec& m, size_t layer) {
                const auto& s = std::get<MambaSizes>(m.layers[layer].mixer);
                check(s.heads % s.groups == 0,
                      "model {}: layer {}: mamba2_heads {} is not a multiple of mamba2_groups {}", m.name, layer,
                      s.heads, s.groups);
              },
          .flops =
              [](const ModelSpec&, const LayerSpec& l, double) {
                const auto& s = std::get<MambaSizes>(l.mixer);
                return 5.0 * double(s.heads * s.width * s.state);
              },
          .make = make_mamba2};
}

}  // namespace toy::nn
