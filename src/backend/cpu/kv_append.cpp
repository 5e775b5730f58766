// kv_append: the rows' keys and values go to their pages, in place.
//   in  kc:[pages,K,P,64] vc:[pages,K,64,P] k:[N,K,P] v:[N,K,P] seq:[N] pos:[N] table:[S,G]   out kc' vc'
// Keys are kept transposed: attention_paged reads a page as the right-hand side of an outer product.
#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_tasks.h"
#include "backend/cpu/kernels.h"

namespace toy::cpu {
namespace {

// The page of row i; -1, and the error is set, if there is none.
int64_t page_of(const KernelArgs& args, int64_t i, KernelError* error) {
  const View& table = args.in[6];
  const int64_t seq = args.in[4].as<const int32_t>()[i], pos = args.in[5].as<const int32_t>()[i];
  if (seq < 0 || seq >= table.shape[0]) {
    error->set("kv_append: row {} has sequence {}", i, seq);
    return -1;
  }
  if (pos < 0 || pos >= table.shape[1] * kKeyTile) {
    error->set("kv_append: row {} has position {}", i, pos);
    return -1;
  }
  const int64_t page = table.as<const int32_t>()[seq * table.shape[1] + pos / kKeyTile];
  if (page >= 0 && page < args.in[0].shape[0]) return page;
  error->set("kv_append: row {} goes to page {}", i, page);
  return -1;
}

// Rows [begin, end) go to consecutive slots of one page. A head at a time: its 64 P keys stay in the
// first-level cache.
void append(const KernelArgs& args, int64_t begin, int64_t end, int64_t page) {
  const int64_t heads = args.in[2].shape[1], width = args.in[2].shape[2];
  const int64_t slot = args.in[5].as<const int32_t>()[begin] % kKeyTile, count = end - begin;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t to = (page * heads + h) * width * kKeyTile;
    const float* k = args.in[2].as<const float>() + (begin * heads + h) * width;
    const float* v = args.in[3].as<const float>() + (begin * heads + h) * width;
    float* kc = args.out[0].as<float>() + to + slot;
    float* vc = args.out[1].as<float>() + to + slot * width;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t p = 0; p < width; ++p) kc[p * kKeyTile + i] = k[i * heads * width + p];
      std::memcpy(vc + i * width, v + i * heads * width, size_t(width) * sizeof(float));
    }
  }
}

void kv_append_run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const SequenceRows all(args.in[4], args.in[5]);
  const Range rows = ctx.share(args.in[2].shape[0]);
  for (int64_t begin = rows.begin, end; begin < rows.end; begin = end) {
    end = begin + 1;
    const int64_t page = page_of(args, begin, ctx.error);
    if (page < 0) continue;
    while (end < rows.end && all.follows(end) && all.pos[end] % kKeyTile != 0) ++end;
    append(args, begin, end, page);
  }
}

}  // namespace

KernelRecord kv_append_kernel() { return {.op = "kv_append", .in_place = {{0, 0}, {1, 1}}, .run = kv_append_run}; }

}  // namespace toy::cpu
