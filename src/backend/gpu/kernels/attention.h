// What attention and its gradient share. A row sees the rows of its run at positions (pos - window, pos], window 0
// meaning all.
#ifndef TOY_GPU_ATTENTION_H
#define TOY_GPU_ATTENTION_H
#include "runs.h"
#define TILE 64  // positions, aligned, of keys or of queries that a tile of 16 rows meets together
#define ROWS 16
#define CHUNK 32  // elements of a head that lie in local memory together
#define CHUNKS (COLUMNS_OF_A_HEAD / CHUNK)
#define FIRST_COLUMN (GROUP_Z * COLUMNS_OF_A_HEAD)  // of a head's results that this group computes

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
