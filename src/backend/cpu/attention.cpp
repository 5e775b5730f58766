// attention: causal, optionally windowed, over the rows of a batch; grouped queries (Ainslie et al. 2023).
//   in  q:[N,H,P] k:[N,K,P] v:[N,K,P] seq:[N] pos:[N]   out o:[N,H,P] lse?:[N,H]
// A task is a chunk of a run's positions with all query heads of one kv head. It packs each key tile that it
// needs once (transposed, as the cache holds it) and runs all its rows against it.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

void attention_task(const Task& task, const KernelArgs& args, AttendScratch& ws) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const int64_t heads = args.in[0].shape[1], kv_heads = args.in[1].shape[1], p = args.in[0].shape[2];
  const int64_t group = heads / kv_heads;
  QueryRows q{task.count * group, group, p, task.position, task.first, attrs.window, float(attrs.scale)};
  const int64_t head = task.head * group;  // first query head
  attend_begin(q, args.in[0].as<const float>() + (task.row * heads + head) * p, heads * p, ws);

  const int64_t last = task.position + task.count - 1;
  for (int64_t at = q.first_visible(task.position) / kKeyTile * kKeyTile; at <= last; at += kKeyTile) {
    const int64_t begin = std::max(at, q.first_visible(task.position)), end = std::min(at + kKeyTile, last + 1);
    const int64_t from = ((task.first_row + begin - task.first) * kv_heads + task.head) * p, slot = begin - at;
    pack_transposed(args.in[1].as<const float>() + from, kv_heads * p, end - begin, p, ws.kt + slot);
    pack_rows(args.in[2].as<const float>() + from, kv_heads * p, end - begin, p, ws.v + slot * ws.width, ws.width);
    attend_tile(q, KeyTile{ws.kt, ws.v, ws.width, at, nullptr}, ws);
  }
  float* lse = args.out[1].data ? args.out[1].as<float>() + task.row * heads + head : nullptr;
  attend_end(q, ws, args.out[0].as<float>() + (task.row * heads + head) * p, heads * p, lse, heads);
}

void attention_run(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t heads = args.in[0].shape[1], kv_heads = args.in[1].shape[1], p = args.in[0].shape[2];
  const int64_t group = heads / kv_heads, rows = max_chunk(group) * group;
  float* base = reinterpret_cast<float*>(args.workspace) + ctx.thread * AttendScratch::floats(rows, p);
  AttendScratch ws(base, rows, p);
  const int64_t chunk = choose_chunk(args.in[3], args.in[4], kv_heads, group, ctx.threads);
  TaskWalk walk(ctx, args.in[3], args.in[4], kv_heads, chunk, args.attrs.as<AttentionAttrs>().window);
  for (Task task; walk.next(task);) attention_task(task, args, ws);
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(attention_run);

size_t attention_workspace(const KernelQuery& query) noexcept {
  const int64_t group = query.in[0].shape[1] / query.in[1].shape[1];
  const int64_t floats = AttendScratch::floats(max_chunk(group) * group, query.in[0].shape[2]);
  return size_t(floats * query.threads) * sizeof(float);
}

void run_attention(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(attention_run)(ctx, args);
}

}  // namespace

KernelRecord attention_kernel() { return {.op = "attention", .workspace = attention_workspace, .run = run_attention}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE
