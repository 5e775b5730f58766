// A paged cache of keys and values (Kwon et al. 2023), and attention against it. A page holds 64 positions, aligned:
// the key tile of the attention kernels, so that results do not depend on how a sequence was cut into calls.
//
// Keys and values are rounded to the type of the pages when they are appended: to f16, or to q8_0 in blocks of 32 along
// the width of a head. Of q8_0, an error of a key that meets the queries of its own row is one that meets most queries,
// so levels are chosen that leave this product as it was (round_key_q8_0()). Attention sees only rounded ones, also
// those of its own call. The order of the bytes of a q8_0 page is the device's own.
#include "ops/defs.h"

namespace toy {
namespace {

// `kc` and `vc`: operands of the pages.
void check_pages(const TypeQuery& q, int kc, int vc) {
  const DType type = q.in[size_t(kc)]->dtype;
  check(type == q.in[size_t(vc)]->dtype, "{}: pages of keys are {}, of values {}; expected one type", q.op,
        name_of(type), name_of(q.in[size_t(vc)]->dtype));
  check(type == DType::f32 || type == DType::f16 || type == DType::q8_0, "{}: pages are {}, expected f32, f16 or q8_0",
        q.op, name_of(type));
}

void infer_append(const TypeQuery& q, std::vector<TensorType>&) {
  check_pages(q, 0, 1);
  check(q.attrs.as<KvAppendAttrs>().type == q.in[0]->dtype, "kv_append: rounds to {}, but pages are {}",
        name_of(q.attrs.as<KvAppendAttrs>().type), name_of(q.in[0]->dtype));
  if (!q.in[7]) return;
  const int64_t heads = q.in[7]->shape[1], kv_heads = q.in[2]->shape[1];
  check(q.in[0]->dtype == DType::q8_0, "kv_append: q is for pages of q8_0, these are {}", name_of(q.in[0]->dtype));
  check(heads > 0 && heads % kv_heads == 0, "kv_append: H={} query heads are not a multiple of K={} kv heads", heads,
        kv_heads);
}

void infer_attention(const TypeQuery& q, std::vector<TensorType>&) {
  check_pages(q, 1, 2);
  check_heads(q);
  check_attention(q.op, q.attrs.as<AttentionAttrs>());
  check(!q.attrs.as<AttentionAttrs>().alibi, "{}: alibi is for attention among the rows of a batch", q.op);
}

}  // namespace

const OpDef& kv_append_def() {
  static const OpDef def{
      .signature =
          "kv_append(kc!:weight[A,K,P,64], vc!:weight[A,K,64,P], k:[N,K,P], v:[N,K,P], seq:i32[N], pos:i32[N], "
          "table:i32[S,G], q?:[N,H,P]) -> kc!:weight[A,K,P,64], vc!:weight[A,K,64,P]",
      .infer = infer_append,
      .cost = [](const CostQuery& q) {
        const DTypeInfo& to = info_of(q.in[0]->dtype);
        const double written = 2 * double(q.in[2]->count()) * to.bytes / to.block;
        const double queries = q.in[7] ? double(q.in[7]->bytes()) : 0;
        return Cost{.bytes = double(q.in[2]->bytes() + q.in[3]->bytes()) + queries + written};
      }};
  return def;
}

const OpDef& attention_paged_def() {
  static const OpDef def{
      .signature =
          "attention_paged(q:[N,H,P], kc:weight[A,K,P,64], vc:weight[A,K,64,P], seq:i32[N], pos:i32[N], "
          "table:i32[S,G]) -> o:[N,H,P], lse?:[N,H]",
      .infer = infer_attention,
      .cost = [](const CostQuery& q) {  // every row against a full context: an upper bound
        const double rows = double(q.in[0]->shape[0]), context = double(q.in[5]->shape[1]) * kPagePositions;
        const double width = double(q.in[0]->shape[1] * q.in[0]->shape[2]);
        return Cost{.flops = 4 * rows * context * width,
                    .bytes = double(q.in[1]->bytes() + q.in[2]->bytes()),
                    .transcendentals = rows * context * double(q.in[0]->shape[1])};
      }};
  return def;
}

KvPages kv_append(KvPages pages, Value k, Value v, Value seq, Value pos, Value table, Value q) {
  const Value first = apply(kv_append_def(), {pages.k, pages.v, k, v, seq, pos, table, q},
                            KvAppendAttrs{pages.k ? pages.k.type().dtype : DType::f32});
  return {first, output(first, 1)};
}

Value attention_paged(Value q, KvPages pages, Value seq, Value pos, Value table, AttentionAttrs attrs) {
  return apply(attention_paged_def(), {q, pages.k, pages.v, seq, pos, table}, attrs);
}

}  // namespace toy
