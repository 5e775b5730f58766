// Eight elements at a time, in loads as wide as the type and the address allow. The values are those of weight_at().
#ifndef TOY_GPU_WEIGHTS_WIDE_H
#define TOY_GPU_WEIGHTS_WIDE_H
#include "weights.h"

DEVICE int is_aligned(GLOBAL const void* p, int to) { return ((size_t)p & (size_t)(to - 1)) == 0; }

// v_j = x_(j step), zero from `count` on.
DEVICE void floats8(GLOBAL const float* x, int64 step, int count, float* v) {
  if (step == 1 && count >= 8 && is_aligned(x, 16)) {
    const float4 p = *(GLOBAL const float4*)x, q = *(GLOBAL const float4*)(x + 4);
    v[0] = p.x, v[1] = p.y, v[2] = p.z, v[3] = p.w, v[4] = q.x, v[5] = q.y, v[6] = q.z, v[7] = q.w;
  } else {
    UNROLL for (int j = 0; j < 8; ++j) v[j] = j < count ? x[j * step] : 0.0f;
  }
}

// Of f16 or bf16: two elements of a word.
DEVICE void halves2(uint word, int type, float* v) {
  v[0] = type == WEIGHT_BF16 ? AS_FLOAT(word << 16) : half_to_float((ushort)(word & 0xffffu));
  v[1] = type == WEIGHT_BF16 ? AS_FLOAT(word & 0xffff0000u) : half_to_float((ushort)(word >> 16));
}

// Elements [column, column + 8) of a row, zero from `count` on. A multiple of 8 columns shares its block's scale.
DEVICE void weights8(GLOBAL const uchar* w, int type, int64 row, int64 width, int64 column, int count, float* v) {
  const int64 at = row * width + column;
  if (count >= 8 && (type == WEIGHT_F16 || type == WEIGHT_BF16) && is_aligned(w + at * 2, 16)) {
    const uint4 words = *(GLOBAL const uint4*)(w + at * 2);
    halves2(words.x, type, v), halves2(words.y, type, v + 2);
    halves2(words.z, type, v + 4), halves2(words.w, type, v + 6);
  } else if (count >= 8 && type == WEIGHT_Q8_0 && at % 8 == 0) {
    GLOBAL const ushort* const block = (GLOBAL const ushort*)(w + at / 32 * 34);
    const float scale = half_to_float(block[0]);
    UNROLL for (int j = 0; j < 4; ++j) {
      const uint pair = block[1 + at % 32 / 2 + j];
      v[2 * j] = scale * (float)(signed char)(pair & 255u), v[2 * j + 1] = scale * (float)(signed char)(pair >> 8);
    }
  } else if (count >= 8 && type == WEIGHT_Q4_K && at % 8 == 0) {
    GLOBAL const uchar* const block = w + at / 256 * 144;
    const int e = (int)(at % 256), part = e / 32;
    GLOBAL const uint* const levels = (GLOBAL const uint*)(block + 16 + e / 64 * 32 + e % 32);
    const float scale = half_to_float(((GLOBAL const ushort*)block)[0]) * (float)six_bits(block + 4, part, 0);
    const float less = half_to_float(((GLOBAL const ushort*)block)[1]) * (float)six_bits(block + 4, part, 1);
    UNROLL for (int j = 0; j < 8; ++j) v[j] =
        scale * (float)(levels[j / 4] >> (8 * (j % 4) + part % 2 * 4) & 15u) - less;
  } else {
    UNROLL for (int j = 0; j < 8; ++j) v[j] = j < count ? weight_at(w, type, row, width, column + j) : 0.0f;
  }
}

// Of a tensor of f32, `step` apart, or of bf16, side by side: elements at, at + step, ..., zero from `count` on.
DEVICE void operand8(GLOBAL const uchar* x, int type, int64 at, int64 step, int count, float* v) {
  if (type == WEIGHT_F32)
    floats8((GLOBAL const float*)x + at, step, count, v);
  else
    weights8(x, WEIGHT_BF16, 0, 0, at, count, v);
}
#endif
