// One element of a weight. A row has `width` elements, in blocks where the type is quantized; every product below is
// exact in f32, so a value has the bits that the cpu's dequantize() computes.
#ifndef TOY_GPU_WEIGHTS_H
#define TOY_GPU_WEIGHTS_H
#include "dialect.h"

// Scale j of q4_k and q5_k, or (least) what is subtracted: 6 bits of 12 bytes.
DEVICE int six_bits(GLOBAL const uchar* s, int j, int least) {
  if (j < 4) return s[j + (least ? 4 : 0)] & 63;
  return least ? s[j + 4] >> 4 | s[j] >> 6 << 4 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
}

// Element e of a block of 256.
DEVICE float q4_k_at(GLOBAL const uchar* block, int e) {
  GLOBAL const ushort* d = (GLOBAL const ushort*)block;
  const int j = e / 32, low = block[16 + e / 64 * 32 + e % 32], level = j % 2 ? low >> 4 : low & 15;
  const float scale = half_to_float(d[0]) * (float)six_bits(block + 4, j, 0);
  return scale * (float)level - half_to_float(d[1]) * (float)six_bits(block + 4, j, 1);
}
DEVICE float q5_k_at(GLOBAL const uchar* block, int e) {
  GLOBAL const ushort* d = (GLOBAL const ushort*)block;
  const int j = e / 32, low = block[48 + e / 64 * 32 + e % 32], high = block[16 + e % 32] >> j & 1;
  const int level = (j % 2 ? low >> 4 : low & 15) + 16 * high;
  const float scale = half_to_float(d[0]) * (float)six_bits(block + 4, j, 0);
  return scale * (float)level - half_to_float(d[1]) * (float)six_bits(block + 4, j, 1);
}
DEVICE float q6_k_at(GLOBAL const uchar* block, int e) {
  const int quarter = e % 128 / 32, i = e % 32;
  const int low = block[e / 128 * 64 + quarter % 2 * 32 + i], high = block[128 + e / 128 * 32 + i] >> 2 * quarter & 3;
  const int level = (quarter < 2 ? low & 15 : low >> 4) + 16 * high - 32, scale = (signed char)block[192 + e / 16];
  return half_to_float(*(GLOBAL const ushort*)(block + 208)) * (float)scale * (float)level;
}
// Of a block of 32.
DEVICE float q8_0_at(GLOBAL const uchar* block, int e) {
  return half_to_float(*(GLOBAL const ushort*)block) * (float)(signed char)block[2 + e];
}
DEVICE float q4_0_at(GLOBAL const uchar* block, int e) {
  const int level = e < 16 ? block[2 + e] & 15 : block[2 + e - 16] >> 4;
  return half_to_float(*(GLOBAL const ushort*)block) * (float)(level - 8);
}

DEVICE float weight_at(GLOBAL const uchar* w, int type, int64 row, int64 width, int64 column) {
  const int64 at = row * width + column;
  if (type == WEIGHT_F32) return ((GLOBAL const float*)w)[at];
  if (type == WEIGHT_BF16) return bf16_to_float(((GLOBAL const ushort*)w)[at]);
  if (type == WEIGHT_F16) return half_to_float(((GLOBAL const ushort*)w)[at]);
  if (type == WEIGHT_Q8_0) return q8_0_at(w + at / 32 * 34, (int)(at % 32));
  if (type == WEIGHT_Q4_K) return q4_k_at(w + at / 256 * 144, (int)(at % 256));
  if (type == WEIGHT_Q6_K) return q6_k_at(w + at / 256 * 210, (int)(at % 256));
  if (type == WEIGHT_Q5_K) return q5_k_at(w + at / 256 * 176, (int)(at % 256));
  return q4_0_at(w + at / 32 * 18, (int)(at % 32));
}
#endif
