// Attention to one latent vector of each position.
#include <cmath>

#include "models/mixers/mixer.h"

namespace toy::nn {
namespace {

// Latent attention (DeepSeek-AI 2024) without positions. A position keeps [c p], a normed latent vector and a key that
// all heads share; head h has the key [key_h^T c, p] and the value value_h c. Queries and outputs are mapped instead
// of these: q.(key_h^T c) = (key_h q).c, so all heads attend to the same vectors. x:[N,D] -> [N,D].
Mixer make_latent(const ModelSpec& m, size_t layer, const Weights& w, RopeTables&) {
  const auto& sizes = std::get<LatentSizes>(m.layers[layer].mixer);
  const int64_t d = m.d_model, heads = m.layers[layer].heads, width = sizes.width, own = sizes.key,
                p = sizes.shared_key, values = sizes.value;
  const Linear q = make_linear(w, "attn_q", heads * (own + p), d);  // of each head, rows that meet c, that meet p
  const Linear kv = make_linear(w, "attn_kv_a_mqa", width + p, d);  // rows of c and p
  const RmsNorm norm = make_rms_norm(w, "attn_kv_a_norm", width, m.norm_eps);  // of c
  const Value key = w({Init::matrix, "attn_k_b.weight", {heads, width, own}});
  const Value value = w({Init::matrix, "attn_v_b.weight", {heads, values, width}});
  const Linear out = make_linear(w, "attn_output", d, heads * values);
  const AttentionAttrs attrs{.scale = 1 / std::sqrt(double(own + p))};
  const Shape one{1, width + p};
  const std::vector<StateSpec> states{{StateSpec::Kind::keys, "k", one}, {StateSpec::Kind::values, "v", one}};
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const auto& [sequence, position, turn] = ctx.batch;
    Graph& g = *x.graph;
    // expert_linear with all heads as a row's experts maps each head by its own matrix.
    std::vector<double> numbers;
    for (int64_t h = 0; h < heads; ++h) numbers.push_back(double(h));
    const Value zero = scale(cast(position, DType::f32), 0);
    const Value all = cast(reshape(zero, {-1, 1}) + g.constant({DType::f32, {1, heads}, 0}, numbers), DType::i32);
    const Value queries = reshape(q(x), {-1, heads, own + p});
    const Value to_latent = expert_linear(slice(queries, 2, 0, own), key, all);
    const Value rows = kv(x);
    Value wanted = to_latent, kept = norm(slice(rows, 1, 0, width));
    if (p > 0) {
      wanted = concat(std::vector{wanted, slice(queries, 2, own, p)}, 2);
      kept = concat(std::vector{kept, slice(rows, 1, width, p)}, 1);
    }
    kept = reshape(kept, {-1, 1, width + p});
    Value o;
    if (state.slots.empty()) {
      o = attention(wanted, kept, kept, sequence, position, attrs);
    } else {
      const bool turned = turns_keys(state);
      if (turned) wanted = hadamard(wanted), kept = hadamard(kept);
      const KvPages pages = kv_append({state.slots[0], state.slots[1]}, kept, kept, sequence, position,
                                      state.page_table, turned ? wanted : Value{});
      state.slots = {pages.k, pages.v};
      o = attention_paged(wanted, pages, sequence, position, state.page_table, attrs);
      if (turned) o = hadamard(o);
    }
    return out(reshape(expert_linear(slice(o, 2, 0, width), value, all), {-1, heads * values}));
  };
  return {states, call};
}

}  // namespace

MixerDef latent_mixer() {
  return {.word = "mla",
          .title = "latent attention",
          .fields = {{"n_heads", nullptr, "H", "heads", 1, kMaxHeads},
                     {"latent_width", size<&LatentSizes::width>, "Z", "latent width", 1, kMaxHeadWidth},
                     {"latent_key", size<&LatentSizes::key>, "K", "key width", 1, kMaxHeadWidth},
                     {"latent_shared_key", size<&LatentSizes::shared_key>, "S", "shared key width", 0, 0},
                     {"latent_value", size<&LatentSizes::value>, "V", "value width", 1, kMaxHeadWidth}},
          .part = ModelPart::attention,
          .fill =
              [](LayerSpec& l, int64_t) {
                auto& s = std::get<LatentSizes>(l.mixer);
                fill_with(s.width, std::min<int64_t>(4 * l.d_head, kMaxHeadWidth));
                fill_with(s.key, l.d_head), fill_with(s.value, l.d_head);
              },
          .check =
              [](const ModelSpec& m, size_t layer) {
                const auto& s = std::get<LatentSizes>(m.layers[layer].mixer);
                check_range(m, layer, "latent_shared_key", s.shared_key, 0, kMaxHeadWidth - s.width);
              },
          .flops =
              [](const ModelSpec&, const LayerSpec& l, double visible) {
                const auto& s = std::get<LatentSizes>(l.mixer);
                return 4.0 * double(l.heads * (s.width + s.shared_key)) * visible;
              },
          .no_adapters_in_llama_cpp = {"attn_q.*", "attn_kv_a_mqa.*"},
          .make = make_latent};
}

}  // namespace toy::nn
