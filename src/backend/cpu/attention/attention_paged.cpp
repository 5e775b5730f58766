// attention_paged: the same over pages of a key-value cache; any mix of prefill pieces and decoded rows.
//   in  q:[N,H,P] kc:[pages,K,P,64] vc:[pages,K,64,P] seq:[N] pos:[N] table:[S,G]   out o:[N,H,P] lse?:[N,H]
// A page is a key tile in the layout that the tile routine reads, in f32, f16 or q8_0, so that decoding streams the
// cache once.
#define TOY_TARGET_FILE "backend/cpu/attention/attention_paged.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/attention/attention_parts.h"
#include "backend/cpu/attention/kv_tiles-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

// Are the sequence, the positions and all pages that the task reads valid? Else says so.
bool paged_valid(const Task& task, const QueryRows& q, const KernelArgs& args, const ExecContext& ctx) {
  const View& table = args.in[5];
  const int64_t pages = args.in[1].shape[0], slots = table.shape[1], last = task.position + task.count - 1;
  if (task.seq < 0 || task.seq >= table.shape[0]) {
    ctx.report(KernelFault::sequence, task.row, task.seq);
    return false;
  }
  if (task.position < 0 || last >= slots * kKeyTile) {
    const int64_t bad =
        task.position < 0 ? task.row : task.row + std::max<int64_t>(0, slots * kKeyTile - task.position);
    ctx.report(KernelFault::position, bad, task.position + bad - task.row);
    return false;
  }
  const int32_t* page = table.as<const int32_t>() + task.seq * slots;
  for (int64_t t = q.first_visible(task.position) / kKeyTile; t <= last / kKeyTile; ++t)
    if (page[t] < 0 || page[t] >= pages) {
      ctx.report(KernelFault::page, task.row, page[t]);
      return false;
    }
  return true;
}

// All keys of the task, or of its one chunk, from the pages.
template <class T>
void attend_task(const Task& task, const QueryRows& q, const KernelArgs& args, AttendScratch& ws) {
  const int32_t* page = args.in[5].as<const int32_t>() + task.seq * args.in[5].shape[1];
  int64_t first = q.first_visible(task.position), last = task.position + task.count - 1;
  if (task.key_chunk >= 0) {
    first = std::max(first, task.key_chunk * kKeyChunk);
    last = std::min(last, (task.key_chunk + 1) * kKeyChunk - 1);
  }
  attend_pages<T>(args.in[1], args.in[2], page, task.head, first, last, q, ws);
}

// nullptr: not requested.
float* lse_of(const KernelArgs& args) { return args.out.size() > 1 ? args.out[1].as<float>() : nullptr; }

// Rows whose chunks were shared out: the parts join in the order of the chunks, as attend_keys() would have it.
void join_parts(const ExecContext& ctx, const KernelArgs& args, const Parts& parts) {
  const HeadSizes h(args.in[0].shape, args.in[1].shape);
  const int64_t window = args.attrs.as<AttentionAttrs>().window, width = round_up16(h.p);
  float* o = reinterpret_cast<float*>(args.workspace) + ctx.thread * h.scratch_floats();  // attended to: free again
  for_each_lone_row(args.in[3], args.in[4], parts.positions, [&](int64_t row, int64_t index) HWY_ATTR {
    const int64_t pos = args.in[4].as<const int32_t>()[row];
    const int64_t first = window > 0 ? std::max<int64_t>(0, pos - window + 1) : 0;
    const Range mine = ctx.share(h.heads);
    for (int64_t head = mine.begin; head < mine.end; ++head) {
      float l = 0, m = -kInfinity;
      for (int64_t c = first / kKeyChunk; c <= pos / kKeyChunk; ++c) {
        const float* part = parts.at(index, head, c);
        join_chunk(part, part[width], part[width + 1], width, o, l, m);
      }
      write_row(o, l, width, args.out[0].as<float>() + (row * h.heads + head) * h.p, h.p);
      if (float* lse = lse_of(args)) lse[row * h.heads + head] = m + std::log(l);
    }
  });
}

template <class T>
void run_on(const ExecContext& ctx, const KernelArgs& args) {
  const HeadSizes h(args.in[0].shape, args.in[1].shape);
  const int64_t stride = h.heads * h.p;
  float* behind_scratch = reinterpret_cast<float*>(args.workspace) + ctx.threads * h.scratch_floats();
  const Parts parts(h, args.in[5].shape[1], ctx.threads, behind_scratch);
  const bool split = parts.wanted(args.in[3], args.in[4]);
  attend_all(ctx, args, split ? parts.positions : 0,
             [&](const Task& task, const QueryRows& q, AttendScratch& ws) HWY_ATTR {
               const int64_t at = (task.row * h.heads + task.head * h.group) * h.p;
               if (!paged_valid(task, q, args, ctx)) return;
               attend_begin(q, args.in[0].as<const float>() + at, stride, ws);
               attend_task<T>(task, q, args, ws);
               float* lse = lse_of(args);
               if (lse) lse += task.row * h.heads + task.head * h.group;
               if (task.key_chunk < 0) return attend_end(q, ws, args.out[0].as<float>() + at, stride, lse, h.heads);
               for (int64_t g = 0; g < h.group; ++g) {
                 float* part = parts.at(task.split, task.head * h.group + g, task.key_chunk);
                 std::memcpy(part, ws.total_o + g * ws.width, size_t(ws.width) * sizeof(float));
                 part[ws.width] = ws.total_l[g], part[ws.width + 1] = ws.total_m[g];
               }
             });
  if (!split) return;
  ctx.barrier();
  join_parts(ctx, args, parts);
}

void attention_paged_run(const ExecContext& ctx, const KernelArgs& args) {
  with_cache_type(args.in[1].dtype, [&](auto type) { run_on<decltype(type)>(ctx, args); });
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(attention_paged_run);

size_t paged_workspace(const KernelQuery& query) noexcept {
  const HeadSizes h(query.in[0].shape, query.in[1].shape);
  return attend_workspace(query) + size_t(Parts::floats(h, query.in[5].shape[1], query.threads)) * sizeof(float);
}

bool accepts(const KernelQuery& q) noexcept { return q.in[0].dtype == DType::f32 && is_cache_type(q.in[1].dtype); }

}  // namespace

KernelRecord attention_paged_kernel() {
  return {.op = "attention_paged",
          .accepts = accepts,
          .workspace = paged_workspace,
          .code = best_of<HWY_DISPATCH_TABLE(attention_paged_run)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
