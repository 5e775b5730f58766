// A paged cache of keys and values (Kwon et al. 2023), and attention against it. A page holds 64 positions, aligned:
// the key tile of the attention kernels, so that results do not depend on how a sequence was cut into calls.
#include "ops/defs.h"

namespace toy {
namespace {

void infer_append(const TypeQuery& q, std::vector<TensorType>&) {
  check(q.in[0]->shape[3] == kPagePositions && q.in[1]->shape[2] == kPagePositions,
        "kv_append: pages hold {} positions, got {} and {}", kPagePositions, q.in[0]->str(), q.in[1]->str());
}

void infer_attention(const TypeQuery& q, std::vector<TensorType>&) {
  check_heads(q);
  check_attention(q.op, q.attrs.as<AttentionAttrs>());
}

}  // namespace

const OpDef& kv_append_def() {
  static const OpDef def{.signature =
                             "kv_append(kc!:[A,K,P,64], vc!:[A,K,64,P], k:[N,K,P], v:[N,K,P], seq:i32[N], pos:i32[N], "
                             "table:i32[S,G]) -> kc!:[A,K,P,64], vc!:[A,K,64,P]",
                         .infer = infer_append,
                         .cost = [](const CostQuery& q) { return Cost{.bytes = 4.0 * double(q.in[2]->bytes())}; }};
  return def;
}

const OpDef& attention_paged_def() {
  static const OpDef def{.signature =
                             "attention_paged(q:[N,H,P], kc:[A,K,P,64], vc:[A,K,64,P], seq:i32[N], pos:i32[N], "
                             "table:i32[S,G]) -> o:[N,H,P]",
                         .infer = infer_attention,
                         .cost = [](const CostQuery& q) {  // every row against a full context: an upper bound
                           const double rows = double(q.in[0]->shape[0]),
                                        context = double(q.in[5]->shape[1]) * kPagePositions;
                           const double width = double(q.in[0]->shape[1] * q.in[0]->shape[2]);
                           return Cost{.flops = 4 * rows * context * width,
                                       .bytes = double(q.in[1]->bytes() + q.in[2]->bytes()),
                                       .transcendentals = rows * context * double(q.in[0]->shape[1])};
                         }};
  return def;
}

KvPages kv_append(KvPages pages, Value k, Value v, Value seq, Value pos, Value table) {
  const Value first = apply(kv_append_def(), {pages.k, pages.v, k, v, seq, pos, table});
  return {first, output(first, 1)};
}

Value attention_paged(Value q, KvPages pages, Value seq, Value pos, Value table, AttentionAttrs attrs) {
  return apply(attention_paged_def(), {q, pages.k, pages.v, seq, pos, table}, attrs);
}

}  // namespace toy
