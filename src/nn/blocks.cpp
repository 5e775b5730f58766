#include "toy/nn/blocks.h"

#include <cmath>

namespace toy::nn {
namespace {

// The last inputs of a sequence.
StateSpec tail_of(const CausalConv& conv, const char* name = "conv") {
  return {StateSpec::Kind::sequence, name, {conv.filter.dim(1) - 1, conv.filter.dim(0)}};
}

}  // namespace

Value Attention::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool paged = !state.slots.empty();
  auto [queries, gate] = queries_and_gate(x, ctx.batch);
  if (scalable) queries = (*scalable)(queries, ctx.batch);
  if (differential) queries = DifferentialAttention::queries(queries, k.heads);
  if (own_kv) {
    const Value mapped = k.map(x);
    Value keys = k.of(mapped, ctx.batch), values = v.of(v.map.weight ? v.map(x) : mapped, ctx.batch);
    if (differential) keys = DifferentialAttention::keys(keys), values = DifferentialAttention::values(values);
    if (paged) {
      const KvPages kv =
          kv_append({state.slots[0], state.slots[1]}, keys, values, sequence, position, state.page_table);
      state.slots = {kv.k, kv.v};
    } else {
      state.keys = keys, state.values = values;
    }
  }
  Value o =
      paged ? attention_paged(queries, {state.slots[0], state.slots[1]}, sequence, position, state.page_table, attrs)
            : attention(queries, state.keys, state.values, sequence, position, attrs);
  // One more term exp(sink) in the sum below.
  if (sinks) o = o * reshape(sigmoid(attention_lse(o) - sinks), {-1, q.heads, 1});
  if (differential) o = (*differential)(o, k.heads);
  if (gate) o = o * sigmoid(gate);
  return out(reshape(o, {-1, q.heads * q.width}));
}

std::pair<Value, Value> Attention::queries_and_gate(Value x, const Batch& batch) const {
  if (!gated) return {q(x, batch), {}};
  const Value both = reshape(q.map(x), {-1, q.heads, 2 * q.width});
  const Value first = reshape(slice(both, 2, 0, q.width), {-1, q.heads * q.width});
  return {q.of(first, batch), slice(both, 2, q.width, q.width)};
}

std::vector<StateSpec> Attention::states() const {
  if (!own_kv) return {};
  const int64_t times = differential ? 2 : 1;
  return {{StateSpec::Kind::keys, "k", {times * k.heads, k.width}, attrs.window},
          {StateSpec::Kind::values, "v", {times * v.heads, v.width}, attrs.window}};
}

Value ScalableSoftmax::operator()(Value queries, const Batch& batch) const {
  Value n = cast(batch.position, queries.type().dtype) + 1.0;
  if (window > 0) n = minimum(n, fill(*n.graph, {1}, double(window)));
  return queries * (reshape(log(n), {-1, 1, 1}) * reshape(s, {1, s.dim(0), 1}));
}

// Pairs of heads [N,K/2,G,2,P] become [N,K/2,4,G,P]: of the first, the first, the second, the second.
Value DifferentialAttention::queries(Value q, int64_t kv_heads) {
  const int64_t pairs = kv_heads / 2, heads = q.dim(1), width = q.dim(2), group = heads / kv_heads;
  const Value by_map = permute(reshape(q, {-1, pairs, group, 2, width}), {0, 1, 3, 2, 4});
  return reshape(repeat(reshape(by_map, {-1, kv_heads, 1, group * width}), 2, 2), {-1, 2 * heads, width});
}

Value DifferentialAttention::keys(Value k) {
  return reshape(repeat(reshape(k, {-1, k.dim(1), 1, k.dim(2)}), 2, 2), {-1, 2 * k.dim(1), k.dim(2)});
}

Value DifferentialAttention::values(Value v) {
  return reshape(repeat(reshape(v, {-1, v.dim(1) / 2, 1, 2 * v.dim(2)}), 2, 2), {-1, 2 * v.dim(1), v.dim(2)});
}

Value DifferentialAttention::operator()(Value o, int64_t kv_heads) const {
  const int64_t pairs = kv_heads / 2, heads = o.dim(1) / 2, width = o.dim(2), group = heads / kv_heads;
  const Value lambda = exp(sum(q1 * k1, 0)) - exp(sum(q2 * k2, 0)) + lambda_init;
  const Value maps = reshape(o, {-1, pairs, 2, 2 * group * width});
  const Value difference = slice(maps, 2, 0, 1) - lambda * slice(maps, 2, 1, 1);
  const Value by_pair = permute(reshape(difference, {-1, pairs, 2, group, width}), {0, 1, 3, 2, 4});
  return reshape(scale(norm(reshape(by_pair, {-1, heads / 2, 2 * width})), 1 - lambda_init), {-1, heads, width});
}

Value GatedDeltaNet::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool decoding = !state.slots.empty();
  Value rows = qkv(x);
  if (conv) rows = silu((*conv)(rows, decoding ? &state.slots.back() : nullptr, ctx.batch));
  const auto heads_of = [&](int64_t first, int64_t n) {
    return reshape(slice(rows, 1, first * width, n * width), {-1, n, width});
  };
  const Value q = scale(l2_norm(heads_of(0, keys), norm.eps), 1 / std::sqrt(double(width)));
  const Value k = l2_norm(heads_of(keys, keys), norm.eps), v = heads_of(2 * keys, heads);
  Value b, a;
  if (beta_alpha.weight) {
    const int64_t each = heads / keys;
    const Value both = reshape(beta_alpha(x), {-1, keys, 2 * each});
    b = reshape(slice(both, 2, 0, each), {-1, heads}), a = reshape(slice(both, 2, each, each), {-1, heads});
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
}

std::vector<StateSpec> GatedDeltaNet::states() const {
  std::vector<StateSpec> list{{StateSpec::Kind::sequence, "delta", {heads, width, width}}};
  if (conv) list.push_back(tail_of(*conv));
  return list;
}

Value GatedConv::operator()(Value x, LayerState& state, const Context& ctx) const {
  const Value rows = in(x);
  const int64_t width = x.dim(1);
  const auto part = [&](int64_t i) { return slice(rows, 1, i * width, width); };
  const Value mixed = conv(part(0) * part(2), state.slots.empty() ? nullptr : &state.slots[0], ctx.batch);
  return out(part(1) * mixed);
}

std::vector<StateSpec> GatedConv::states() const { return {tail_of(conv)}; }

Value LongConv::operator()(Value x, LayerState& state, const Context& ctx) const {
  const Value rows = in(x);
  const int64_t width = x.dim(1);
  const Value u = slice(rows, 1, width, width);
  const Value mixed = conv(u, state.slots.empty() ? nullptr : &state.slots[0], ctx.batch);
  return out(swiglu(slice(rows, 1, 0, width), mixed));
}

std::vector<StateSpec> LongConv::states() const { return {tail_of(conv)}; }

Value Mamba2::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool decoding = !state.slots.empty();
  const int64_t inner = heads * width, shared = groups * state_width, channels = inner + 2 * shared;
  const Value rows = in(x);
  Value u = slice(rows, 1, inner, channels);
  if (conv) u = (*conv)(u, decoding ? &state.slots.back() : nullptr, ctx.batch);
  u = silu(u);
  const Value values = reshape(slice(u, 1, 0, inner), {-1, heads, width});
  const auto of_groups = [&](int64_t first) { return reshape(slice(u, 1, first, shared), {-1, groups, state_width}); };
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
}

std::vector<StateSpec> Mamba2::states() const {
  std::vector<StateSpec> list{{StateSpec::Kind::sequence, "ssm", {heads, state_width, width}}};
  if (conv) list.push_back(tail_of(*conv));
  return list;
}

Value KimiDelta::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool decoding = !state.slots.empty();
  const auto heads_of = [&](Value rows) { return reshape(rows, {-1, heads, width}); };
  const auto mapped = [&](const Linear& map, const CausalConv& conv, size_t slot) {
    return heads_of(silu(conv(map(x), decoding ? &state.slots[slot] : nullptr, ctx.batch)));
  };
  const Value queries = scale(l2_norm(mapped(q, conv_q, 1), norm.eps), 1 / std::sqrt(double(width)));
  const Value keys = l2_norm(mapped(k, conv_k, 2), norm.eps), values = mapped(v, conv_v, 3);
  const Value steps = heads_of(softplus(decay_out(decay_in(x)) + dt_bias));
  const Value decay = -exp(reshape(a_log, {1, heads, 1})) * steps, b = rates(sigmoid(beta(x)));
  const DeltaRule r = decoding
                          ? gated_delta_rule_update(state.slots[0], queries, keys, values, decay, b, sequence, position)
                          : gated_delta_rule(queries, keys, values, decay, b, {}, sequence, position);
  if (decoding) state.slots[0] = r.s;
  const Value gate = sigmoid(heads_of(gate_out(gate_in(x))));
  return out(reshape(norm(r.o) * gate, {-1, heads * width}));
}

std::vector<StateSpec> KimiDelta::states() const {
  return {{StateSpec::Kind::sequence, "delta", {heads, width, width}},
          tail_of(conv_q, "conv_q"),
          tail_of(conv_k, "conv_k"),
          tail_of(conv_v, "conv_v")};
}

Value LatentAttention::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  Graph& g = *x.graph;
  // expert_linear with all heads as a row's experts maps each head by its own matrix.
  std::vector<double> numbers;
  for (int64_t h = 0; h < heads; ++h) numbers.push_back(double(h));
  const Value zero = scale(cast(position, DType::f32), 0);
  const Value all = cast(reshape(zero, {-1, 1}) + g.constant({DType::f32, {1, heads}, 0}, numbers), DType::i32);
  const int64_t own = key.dim(2), both = width + shared_width, values = value.dim(1);
  const Value queries = reshape(q(x), {-1, heads, own + shared_width});
  const Value to_latent = expert_linear(slice(queries, 2, 0, own), key, all);
  const Value rows = kv(x);
  Value wanted = to_latent, kept = norm(slice(rows, 1, 0, width));
  if (shared_width > 0) {
    wanted = concat(std::vector{wanted, slice(queries, 2, own, shared_width)}, 2);
    kept = concat(std::vector{kept, slice(rows, 1, width, shared_width)}, 1);
  }
  kept = reshape(kept, {-1, 1, both});
  Value o;
  if (state.slots.empty()) {
    o = attention(wanted, kept, kept, sequence, position, attrs);
  } else {
    const KvPages pages = kv_append({state.slots[0], state.slots[1]}, kept, kept, sequence, position, state.page_table);
    state.slots = {pages.k, pages.v};
    o = attention_paged(wanted, pages, sequence, position, state.page_table, attrs);
  }
  return out(reshape(expert_linear(slice(o, 2, 0, width), value, all), {-1, heads * values}));
}

std::vector<StateSpec> LatentAttention::states() const {
  const Shape one{1, width + shared_width};
  return {{StateSpec::Kind::keys, "k", one}, {StateSpec::Kind::values, "v", one}};
}

TopK Router::operator()(Value x) const {
  const Value outputs = map(x), scores = sigmoid ? toy::sigmoid(outputs) : softmax(outputs);
  TopK chosen = top_k(choice_bias ? scores + choice_bias : scores, used);
  Value& weights = chosen.values;
  if (choice_bias) {
    const int64_t experts = scores.dim(1);
    const Value is_chosen = cast(one_hot(chosen.ids, experts), scores.type().dtype);
    weights = reshape(sum(is_chosen * reshape(scores, {-1, 1, experts}), 2), {-1, used});
  }
  if (renormalized) {
    const Value all = sum(weights, 1);
    weights = weights / (sum_eps > 0 ? all + sum_eps : all);
  }
  weights = Scale{scale}(weights);
  return chosen;
}

Value Mixture::operator()(Value x) const {
  const auto [weight, experts] = router(x);
  const int64_t used = router.used;
  const Value inner = latent_down.weight ? latent_down(x) : x;
  const int64_t width = inner.dim(1);
  const Value row = reshape(inner, {-1, 1, width});
  const Value raised = up(row, experts);
  const Value hidden = gate.weight ? gated(f, gate(row, experts), raised) : sqr(relu(raised));
  const Value each = down(hidden, experts);  // [N,U,D]
  Value y = reshape(sum(each * reshape(weight, {-1, used, 1}), 1), {-1, width});
  if (latent_up.weight) y = latent_up(y);
  if (!shared.piece) return y;
  return y + (shared_gate ? sigmoid(linear(x, shared_gate)) * shared(x) : shared(x));
}

// x: [N,D] -> [N,D].
Value Block::operator()(Value x, LayerState& state, const Context& ctx, Value embedding) const {
  if (mixer) x = x + scale(ctx.dropout(mixer_out_norm((*mixer)(norm_scale(mixer_norm(x)), state, ctx)), "mixer"));
  if (ffn) x = x + scale(ctx.dropout(ffn_out_norm((*ffn)(norm_scale(ffn_norm(x)))), "ffn"));
  if (input) x = (*input)(x, embedding);
  return output_scale ? x * output_scale : x;
}

}  // namespace toy::nn
