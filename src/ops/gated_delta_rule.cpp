// The gated delta rule: a linear recurrence whose state is a matrix for each head of a sequence (Yang et al. 2024,
// "Gated Delta Networks"; with a decay for each channel: Kimi Delta Attention, Moonshot AI 2025). One kernel walks over
// the tokens, its gradient over chunks of them; the decomposition is the recurrence itself, token by token. Without its
// delta it is gated linear attention (Yang et al. 2023) and the state space of Mamba-2 (ssm_scan.cpp).
#include "ops/defs.h"

namespace toy {
namespace {

// Where the operands of the op and of its forms are.
struct Operands {
  int q = 0, k = 1, v = 2, g = 3, beta = 4;
};
constexpr Operands kUpdate{1, 2, 3, 4, 5};

// Heads are shared evenly; g is [N,H], or [N,H,P] with a decay for each channel of a key.
void check_operands(const TypeQuery& q, const Operands& at) {
  const TensorType &k = *q.in[size_t(at.k)], &v = *q.in[size_t(at.v)], &g = *q.in[size_t(at.g)];
  const int64_t heads = v.shape[1], keys = k.shape[1];
  check(keys > 0 && heads > 0 && heads % keys == 0, "{}: H={} value heads are not a multiple of K={} key heads", q.op,
        heads, keys);
  const Shape scalar{v.shape[0], heads}, vector{v.shape[0], heads, k.shape[2]};
  check(g.shape == scalar || g.shape == vector, "{}: g is {}, expected {} or {}", q.op, g.shape.str(), scalar.str(),
        vector.str());
  check(g.rows == v.rows, "{}: N of g and of v have different run-time row counts", q.op);
  check(
      q.attrs.as<DeltaRuleAttrs>().heads == HeadMap::interleave || q.attrs.as<DeltaRuleAttrs>().heads == HeadMap::tile,
      "{}: heads is {}, expected interleave or tile", q.op, int(q.attrs.as<DeltaRuleAttrs>().heads));
}

// The states of `s0`, or none.
TensorType states_like(const TypeQuery& q, const Operands& at, const TensorType* s0) {
  const TensorType &k = *q.in[size_t(at.k)], &v = *q.in[size_t(at.v)];
  return s0 ? *s0 : TensorType{v.dtype, {0, v.shape[1], k.shape[2], v.shape[2]}, 0};
}

void infer(const TypeQuery& q, std::vector<TensorType>& out) {
  check_operands(q, {});
  out[1] = states_like(q, {}, q.in[5]);
}
void infer_grad(const TypeQuery& q, std::vector<TensorType>& out) {
  check_operands(q, {});
  out[3] = *q.in[3];
  out[5] = states_like(q, {}, q.in[5]);
}
void infer_update(const TypeQuery& q, std::vector<TensorType>&) { check_operands(q, kUpdate); }

// Of each element of a state: its decay, its update, and two sums that read it.
Cost cost_of(const CostQuery& q, const Operands& at, double flops) {
  const Shape &k = q.in[size_t(at.k)]->shape, &v = q.in[size_t(at.v)]->shape;
  Cost cost{.flops = flops * double(v.count()) * double(k[2]), .transcendentals = double(q.in[size_t(at.g)]->count())};
  for (const TensorType* t : q.in) cost.bytes += t ? double(t->bytes()) : 0;
  for (const TensorType& t : q.out) cost.bytes += double(t.bytes());
  return cost;
}
double flops(const CostQuery& q) { return q.attrs.as<DeltaRuleAttrs>().delta ? 7 : 5; }
Cost cost(const CostQuery& q) { return cost_of(q, {}, flops(q)); }
Cost cost_update(const CostQuery& q) { return cost_of(q, kUpdate, flops(q)); }
// The states twice and four products; with the delta three more.
Cost cost_grad(const CostQuery& q) { return cost_of(q, {}, q.attrs.as<DeltaRuleAttrs>().delta ? 18 : 12); }

// [K,P] to [H,P,1]: the key head of each value head.
Value to_heads(Value x, int64_t heads, HeadMap map) {
  const int64_t keys = x.dim(0), width = x.dim(1), each = heads / keys;
  const bool tile = map == HeadMap::tile;
  const Value one = reshape(x, tile ? Shape{1, keys, width} : Shape{keys, 1, width});
  return reshape(broadcast_to(one, tile ? Shape{each, keys, width} : Shape{keys, each, width}), {heads, width, 1});
}

// 1 where an integer, held in a float, is 0.
Value is_zero(Value x) { return greater(x.graph->scalar(0.5, x.type().dtype), abs(x)); }

// What row n starts from where it follows no other: the state of its sequence, zeros at position 0.
struct Starts {
  Value s0, seq, place, zeros;
  Value of(int64_t n) const {
    if (!s0) return zeros;
    const Value table = reshape(s0, {s0.dim(0), s0.dim(1) * s0.dim(2) * s0.dim(3)});
    const Value own = reshape(embedding(table, slice(seq, 0, n, 1)), zeros.shape());
    return where(is_zero(slice(place, 0, n, 1)), zeros, own);
  }
};

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value q = in[0], k = in[1], v = in[2], gate = in[3], beta = in[4], s0 = in[5], seq = in[6], pos = in[7];
  const int64_t rows = v.dim(0), heads = v.dim(1), keys = k.dim(1), width = k.dim(2), values = v.dim(2);
  check(v.type().rows == 0, "gated_delta_rule: the decomposition needs a fixed number of rows");
  const DType type = v.type().dtype;
  const HeadMap map = attrs.as<DeltaRuleAttrs>().heads;
  const auto row = [](Value x, int64_t n, const Shape& shape) { return reshape(slice(x, 0, n, 1), shape); };
  const Value zeros = cast(fill(g, {heads, width, values}, 0), type);
  const Value number = cast(seq, type), place = cast(pos, type);
  const Starts starts{s0, seq, place, zeros};
  Value state = zeros, states = s0;
  std::vector<Value> outputs;
  for (int64_t n = 0; n < rows; ++n) {
    Value before = starts.of(n);
    if (n > 0) {  // of one sequence, positions next to each other?
      const Value same = is_zero(slice(number, 0, n, 1) - slice(number, 0, n - 1, 1));
      const Value next = is_zero(slice(place, 0, n, 1) - slice(place, 0, n - 1, 1) - 1.0);
      before = where(same, where(next, state, before), before);
    }
    const Value decay = exp(row(gate, n, {heads, gate.shape().rank() == 3 ? width : 1, 1}));
    const Value decayed = before * decay, key = to_heads(row(k, n, {keys, width}), heads, map);
    Value error = row(v, n, {heads, 1, values});
    if (attrs.as<DeltaRuleAttrs>().delta) error = error - sum(decayed * key, 1);
    state = decayed + key * (error * row(beta, n, {heads, 1, 1}));
    outputs.push_back(reshape(sum(state * to_heads(row(q, n, {keys, width}), heads, map), 1), {1, heads, values}));
    if (states) {
      const Value own = greater(one_hot(slice(seq, 0, n, 1), s0.dim(0)), fill(g, {}, 0));
      states = where(reshape(own, {s0.dim(0), 1, 1, 1}), state, states);
    }
  }
  const Value none = cast(fill(g, {0, heads, width, values}, 0), type);
  return {outputs.empty() ? cast(fill(g, v.shape(), 0), type) : concat(outputs, 0), states ? states : none};
}

}  // namespace

const OpDef& gated_delta_rule_def() {
  static const OpDef def{.signature =
                             "gated_delta_rule(q:[N,K,P], k:[N,K,P], v:[N,H,V], g:[...], beta:[N,H], s0?:[S,H,P,V], "
                             "seq:i32[N], pos:i32[N]) -> o:[N,H,V], s?:[...]",
                         .infer = infer,
                         .vjp = vjp_by<gated_delta_rule_def, gated_delta_rule_grad_def>,
                         .cost = cost,
                         .decompose = decompose};
  return def;
}

const OpDef& gated_delta_rule_grad_def() {
  static const OpDef def{
      .signature =
          "gated_delta_rule_grad(q:[N,K,P], k:[N,K,P], v:[N,H,V], g:[...], beta:[N,H], s0?:[S,H,P,V], do?:[N,H,V], "
          "ds?:[S,H,P,V], seq:i32[N], pos:i32[N]) -> dq:[N,K,P], dk:[N,K,P], dv:[N,H,V], dg:[...], dbeta:[N,H], "
          "ds0?:[...]",
      .infer = infer_grad,
      .cost = cost_grad,
      .decompose = derivative_of<gated_delta_rule_def, gated_delta_rule_grad_def>};
  return def;
}

const OpDef& gated_delta_rule_update_def() {
  static const OpDef def{.signature =
                             "gated_delta_rule_update(s!:[S,H,P,V], q:[N,K,P], k:[N,K,P], v:[N,H,V], g:[...], "
                             "beta:[N,H], seq:i32[N], pos:i32[N]) -> s!:[S,H,P,V], o:[N,H,V]",
                         .infer = infer_update,
                         .cost = cost_update};
  return def;
}

DeltaRule gated_delta_rule(Value q, Value k, Value v, Value g, Value beta, Value s, Value seq, Value pos,
                           DeltaRuleAttrs attrs) {
  const Value first = apply(gated_delta_rule_def(), {q, k, v, g, beta, s, seq, pos}, attrs);
  return {first, output(first, 1)};
}

DeltaRule gated_delta_rule_update(Value s, Value q, Value k, Value v, Value g, Value beta, Value seq, Value pos,
                                  DeltaRuleAttrs attrs) {
  const Value first = apply(gated_delta_rule_update_def(), {s, q, k, v, g, beta, seq, pos}, attrs);
  return {output(first, 1), first};
}

}  // namespace toy
