// What attention and its gradient share. Rows form runs: of one sequence, with positions that grow by one. A row sees
// the rows of its run at positions (pos - window, pos], window 0 meaning all.
#ifndef TOY_GPU_ATTENTION_H
#define TOY_GPU_ATTENTION_H
#include "dialect.h"
#define TILE 64  // positions, aligned, of keys or of queries that a tile of 16 rows meets together
#define ROWS 16
#define CHUNK 32  // elements of a head that lie in local memory together
#define CHUNKS (WIDEST_HEAD / CHUNK)

// Is row i of the run of row i - 1?
DEVICE int resumes(GLOBAL const int* seq, GLOBAL const int* pos, int i) {
  return seq[i] == seq[i - 1] && pos[i] == pos[i - 1] + 1;
}
// The last row of [row, end) that lies in the run of `row`.
DEVICE int run_within(GLOBAL const int* seq, GLOBAL const int* pos, int row, int end) {
  while (row + 1 < end && resumes(seq, pos, row + 1)) ++row;
  return row;
}
// The first row of its run: the items look at 256 rows at a time.
DEVICE int run_begin(GLOBAL const int* seq, GLOBAL const int* pos, int row, LOCAL_PTR float* parts,
                     LOCAL_PTR float* scratch) {
  for (; row > 0; row -= 256) {
    const int i = row - LID;
    const float begin = group_max(i > 0 && !resumes(seq, pos, i) ? (float)i : 0.0f, 256, parts, scratch);
    if (begin > 0.0f) return (int)begin;
  }
  return 0;
}
// The last row of its run among n.
DEVICE int run_end(GLOBAL const int* seq, GLOBAL const int* pos, int row, int n, LOCAL_PTR float* parts,
                   LOCAL_PTR float* scratch) {
  for (; row + 1 < n; row += 256) {
    const int i = row + 1 + LID;
    const float end = -group_max(i < n && !resumes(seq, pos, i) ? (float)-i : (float)-n, 256, parts, scratch);
    if (end < (float)n) return (int)end - 1;
  }
  return n - 1;
}

DEVICE float softcapped(float s, float softcap) { return softcap > 0.0f ? softcap * TANH(s / softcap) : s; }
// What softcapped() multiplies a gradient by, given its result.
DEVICE float softcap_slope(float s, float softcap) {
  return softcap > 0.0f ? fma(-(s / softcap), s / softcap, 1.0f) : 1.0f;
}

// One chunk of four dot products, each one chain of fma over the width of a head: row r of `a` with rows c, c + 16, ...
// of `b`, both in local memory with rows of CHUNK + 1.
DEVICE void dot_chunk(LOCAL_PTR const float* a, LOCAL_PTR const float* b, int r, int c, int many, float* dot) {
  for (int p = 0; p < many; ++p)
    UNROLL for (int e = 0; e < 4; ++e) dot[e] = fma(a[r * (CHUNK + 1) + p], b[(c + 16 * e) * (CHUNK + 1) + p], dot[e]);
}
#endif
