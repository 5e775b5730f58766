// The kernel PRODUCT_NAME of product.k: a group computes TILE x TILE elements, an item (TILE / 16)^2, through tiles of
// DEPTH k in local memory. While it computes with one tile, the next is on its way to registers.
//
// Item i loads 8 elements of each operand (TILE * DEPTH = 8 * 256), side by side in memory where the operand has them
// so.
#define ITEM_SIDE (TILE / 16)
#define PITCH (TILE + 4)
KERNEL(PRODUCT_NAME, 256)
(GLOBAL const uchar* a, GLOBAL const uchar* b, GLOBAL const float* bias, GLOBAL const float* acc, GLOBAL float* c,
 int M, int N, int K, int64 a_m, int64 a_k, int64 b_k, int64 b_n, int a_type, int type, int rounded, Batch batch) {
  LOCAL float4 a_tile[DEPTH][PITCH / 4], b_tile[DEPTH][PITCH / 4];  // [k][row or column]
  LOCAL_PTR float *const as = (LOCAL_PTR float*)a_tile, *const bs = (LOCAL_PTR float*)b_tile;
  const int row0 = GROUP_Y * TILE, col0 = GROUP_X * TILE;
  const int r = LID / 16, s = LID % 16;  // rows 4r to 4r + 3 of every 64, columns likewise
  // What this item loads: along k, or along the other dimension.
  const int by_k = LID / (DEPTH / 8), by_other = LID % (TILE / 8) * 8;
  const int a_row = a_k == 1 ? by_k : by_other, a_at = a_k == 1 ? LID % (DEPTH / 8) * 8 : LID / (TILE / 8);
  const int b_col = b_k == 1 ? by_k : by_other, b_at = b_k == 1 ? LID % (DEPTH / 8) * 8 : LID / (TILE / 8);
  float part[ITEM_SIDE][ITEM_SIDE], total[ITEM_SIDE][ITEM_SIDE], x[8], y[8];
  UNROLL for (int i = 0; i < ITEM_SIDE; ++i) UNROLL for (int j = 0; j < ITEM_SIDE; ++j) part[i][j] = total[i][j] = 0.0f;
  if (a_type == WEIGHT_F32) a += begin_of(GROUP_Z, batch.shape, batch.a) * 4;
  if (type == WEIGHT_F32) b += begin_of(GROUP_Z, batch.shape, batch.b) * 4;
  for (int k0 = -DEPTH; k0 < K; k0 += DEPTH) {
    if (k0 + DEPTH < K) {
      const int ak = k0 + DEPTH + a_at, bk = k0 + DEPTH + b_at, am = row0 + a_row, bn = col0 + b_col;
      const int a_there = am < M && ak < K, b_there = bn < N && bk < K;
      operand8(a, a_type, am * a_m + ak * a_k, a_k == 1 ? 1 : a_m, !a_there ? 0 : a_k == 1 ? K - ak : M - am, x);
      operands8(b, type, b_k, b_n, bk, bn, !b_there ? 0 : b_k == 1 ? K - bk : N - bn, y);
      if (rounded) UNROLL for (int j = 0; j < 8; ++j) x[j] = as_bf16(x[j]), y[j] = as_bf16(y[j]);
    }
    if (k0 >= 0) {
      const int many = K - k0 < DEPTH ? K - k0 : DEPTH;
      for (int k = 0; k < many; ++k) {
        float p[ITEM_SIDE], q[ITEM_SIDE];
        UNROLL for (int i = 0; i < ITEM_SIDE / 4; ++i) {
          const float4 u = a_tile[k][i * 16 + r], v = b_tile[k][i * 16 + s];
          p[4 * i] = u.x, p[4 * i + 1] = u.y, p[4 * i + 2] = u.z, p[4 * i + 3] = u.w;
          q[4 * i] = v.x, q[4 * i + 1] = v.y, q[4 * i + 2] = v.z, q[4 * i + 3] = v.w;
        }
        UNROLL for (int i = 0; i < ITEM_SIDE; ++i) UNROLL for (int j = 0; j < ITEM_SIDE; ++j) part[i][j] =
            fma(p[i], q[j], part[i][j]);
      }
      if ((k0 + DEPTH) % BLOCK == 0 || k0 + DEPTH >= K)
        UNROLL for (int i = 0; i < ITEM_SIDE; ++i) UNROLL for (int j = 0; j < ITEM_SIDE; ++j) total[i][j] += part[i][j],
            part[i][j] = 0.0f;
      BARRIER();
    }
    if (k0 + DEPTH < K) {
      UNROLL for (int j = 0; j < 8; ++j) {
        as[a_k == 1 ? (a_at + j) * PITCH + a_row : a_at * PITCH + a_row + j] = x[j];
        bs[b_k == 1 ? (b_at + j) * PITCH + b_col : b_at * PITCH + b_col + j] = y[j];
      }
      BARRIER();
    }
  }
  UNROLL for (int i = 0; i < ITEM_SIDE; ++i) UNROLL for (int j = 0; j < ITEM_SIDE; ++j) {
    const int m = row0 + i / 4 * 64 + r * 4 + i % 4, n = col0 + j / 4 * 64 + s * 4 + j % 4;
    if (m < M && n < N) {
      const int64 at = ((int64)GROUP_Z * M + m) * N + n;
      float sum = total[i][j];
      if (bias) sum += bias[n];
      if (acc) sum += acc[at];
      c[at] = sum;
    }
  }
}
#undef ITEM_SIDE
#undef PITCH
#undef PRODUCT_NAME
#undef TILE
#undef DEPTH
