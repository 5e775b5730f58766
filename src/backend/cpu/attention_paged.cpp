// attention_paged: the same over pages of a key-value cache; any mix of prefill pieces and decoded rows.
//   in  q:[N,H,P] kc:[pages,K,P,64] vc:[pages,K,64,P] seq:[N] pos:[N] table:[S,G]   out o:[N,H,P]
// A page is a key tile in the layout that the tile routine reads, so that decoding streams the cache once.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_paged.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

// Are the sequence, the positions and all pages that the task reads valid? Else says so.
bool paged_valid(const Task& task, const QueryRows& q, const KernelArgs& args, KernelError* error) {
  const View& table = args.in[5];
  const int64_t pages = args.in[1].shape[0], slots = table.shape[1], last = task.position + task.count - 1;
  if (task.seq < 0 || task.seq >= table.shape[0]) {
    error->set("attention_paged: row {} has sequence {}", task.row, task.seq);
    return false;
  }
  if (task.position < 0 || last >= slots * kKeyTile) {
    const int64_t bad =
        task.position < 0 ? task.row : task.row + std::max<int64_t>(0, slots * kKeyTile - task.position);
    error->set("attention_paged: row {} has position {}", bad, task.position + bad - task.row);
    return false;
  }
  const int32_t* page = table.as<const int32_t>() + task.seq * slots;
  for (int64_t t = q.first_visible(task.position) / kKeyTile; t <= last / kKeyTile; ++t)
    if (page[t] < 0 || page[t] >= pages) {
      error->set("attention_paged: row {} reads page {}", task.row, page[t]);
      return false;
    }
  return true;
}

void paged_task(const Task& task, const KernelArgs& args, AttendScratch& ws, KernelError* error) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const int64_t heads = args.in[0].shape[1], kv_heads = args.in[1].shape[1], p = args.in[0].shape[2];
  const int64_t group = heads / kv_heads;
  QueryRows q{task.count * group, group, p, task.position, 0, attrs.window, float(attrs.scale)};
  const int64_t from = (task.row * heads + task.head * group) * p;
  if (!paged_valid(task, q, args, error)) return;
  attend_begin(q, args.in[0].as<const float>() + from, heads * p, ws);

  const int32_t* page = args.in[5].as<const int32_t>() + task.seq * args.in[5].shape[1];
  const int64_t first = q.first_visible(task.position), last = task.position + task.count - 1;
  for (int64_t t = first / kKeyTile; t <= last / kKeyTile; ++t) {
    const int64_t offset = (page[t] * kv_heads + task.head) * p * kKeyTile;
    KeyTile tile{args.in[1].as<const float>() + offset, args.in[2].as<const float>() + offset, p, t * kKeyTile,
                 nullptr};
    if (ws.width != p) {  // whole vectors of v: only slots that are visible may be read
      const int64_t begin = std::max<int64_t>(0, first - tile.position),
                    end = std::min(kKeyTile, last + 1 - tile.position);
      pack_rows(tile.v + begin * p, p, end - begin, p, ws.v + begin * ws.width, ws.width);
      tile.v = ws.v;
      tile.ldv = ws.width;
    }
    tile.next = t < last / kKeyTile ? args.in[1].as<const float>() + (page[t + 1] * kv_heads + task.head) * p * kKeyTile
                                    : tile.kt;
    attend_tile(q, tile, ws);
  }
  attend_end(q, ws, args.out[0].as<float>() + from, heads * p, nullptr, 0);
}

void attention_paged_run(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t heads = args.in[0].shape[1], kv_heads = args.in[1].shape[1], p = args.in[0].shape[2];
  const int64_t group = heads / kv_heads, rows = max_chunk(group) * group;
  float* base = reinterpret_cast<float*>(args.workspace) + ctx.thread * AttendScratch::floats(rows, p);
  AttendScratch ws(base, rows, p);
  const int64_t chunk = choose_chunk(args.in[3], args.in[4], kv_heads, group, ctx.threads);
  TaskWalk walk(ctx, args.in[3], args.in[4], kv_heads, chunk, args.attrs.as<AttentionAttrs>().window);
  for (Task task; walk.next(task);) paged_task(task, args, ws, ctx.error);
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(attention_paged_run);

size_t paged_workspace(const KernelQuery& query) noexcept {
  const int64_t group = query.in[0].shape[1] / query.in[1].shape[1];
  const int64_t floats = AttendScratch::floats(max_chunk(group) * group, query.in[0].shape[2]);
  return size_t(floats * query.threads) * sizeof(float);
}

void run_paged(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(attention_paged_run)(ctx, args);
}

}  // namespace

KernelRecord attention_paged_kernel() {
  return {.op = "attention_paged", .workspace = paged_workspace, .run = run_paged};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
