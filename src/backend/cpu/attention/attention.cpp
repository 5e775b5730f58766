// attention: to the row itself or to `until`, optionally windowed, over the rows of a batch; grouped queries (Ainslie
// et al. 2023).
//   in  q:[N,H,P] k:[N,K,P] v:[N,K,P] seq:[N] pos:[N] until?:[N]   out o:[N,H,P] lse?:[N,H]
// A task is a chunk of a run's positions with all query heads of one kv head. It packs each key tile that it
// needs once (transposed, as the cache holds it) and runs all its rows against it.
#define TOY_TARGET_FILE "backend/cpu/attention/attention.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/attention/attention_tile-inl.h"
#include "backend/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

void attention_run(const ExecContext& ctx, const KernelArgs& args) {
  const HeadSizes h(args.in[0].shape, args.in[1].shape);
  const int32_t* until = optional_ids(args, 5);
  attend_all(ctx, args, 0, [&](const Task& task, QueryRows q, AttendScratch& ws) HWY_ATTR {
    q.first = task.first, q.run_end = task.first + task.run;
    if (until) q.until = until + task.row;
    q.first_head = task.head * h.group, q.heads = h.heads;
    if (args.attrs.as<AttentionAttrs>().alibi) q.first_slope = float(alibi_slope(q.first_head, q.heads));
    const int64_t head = task.head * h.group, to = (task.row * h.heads + head) * h.p, stride = h.heads * h.p;
    attend_begin(q, args.in[0].as<const float>() + to, stride, ws);
    const int64_t first = q.first_visible(task.position), last = q.last_visible();
    const auto packed_tile = [&](int64_t at) HWY_ATTR {
      const int64_t begin = std::max(at, first), end = std::min(at + kKeyTile, last + 1), slot = begin - at;
      const int64_t from = ((task.first_row + begin - task.first) * h.kv_heads + task.head) * h.p;
      const int64_t ld = h.kv_heads * h.p;
      pack_transposed(args.in[1].as<const float>() + from, ld, end - begin, h.p, ws.kt + slot);
      pack_rows(args.in[2].as<const float>() + from, ld, end - begin, h.p, ws.v + slot * ws.width, ws.width);
      return FloatTile{{ws.kt, kKeyTile}, {ws.v, ws.width}, at, nullptr};
    };
    attend_keys(q, first, last, packed_tile, ws);
    float* lse = args.out[1].data ? args.out[1].as<float>() + task.row * h.heads + head : nullptr;
    attend_end(q, ws, args.out[0].as<float>() + to, stride, lse, h.heads);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(attention_run);

}  // namespace

KernelRecord attention_kernel() {
  return {.op = "attention", .workspace = attend_workspace, .code = best_of<HWY_DISPATCH_TABLE(attention_run)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
