// One element of a weight. A row has `width` elements, in blocks where the type is quantized. How values lie in a block
// is what tensor/quant_formats.h says: d scale[run] level - dmin min[run]; every product is exact in f32, so a value
// has the bits that the cpu's dequantize() computes.
#ifndef TOY_GPU_WEIGHTS_H
#define TOY_GPU_WEIGHTS_H
#include "dialect.h"

// Field e of `bits` bits from byte `at` of a block on: of every `stride` bytes the lowest are fields 0, 1, ..., stride
// - 1, the next ones the `stride` fields after these, and so on (a Plane of quant_formats.h).
#define FIELD(at, bits, stride, e)                                              \
  (block[(at) + (e) / ((stride) * (8 / (bits))) * (stride) + (e) % (stride)] >> \
       (bits) * ((e) / (stride) % (8 / (bits))) &                               \
   ((1 << (bits)) - 1))
// The half at byte `at`, which is even, as blocks are.
#define HALF(at) half_to_float(*(GLOBAL const ushort*)(block + (at)))

// Scale j of q4_k and q5_k, or (least) what is subtracted: 6 bits of 12 bytes.
DEVICE int six_bits(GLOBAL const uchar* s, int j, int least) {
  if (j < 4) return s[j + (least ? 4 : 0)] & 63;
  return least ? s[j + 4] >> 4 | s[j] >> 6 << 4 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
}
// Level of a code of iq4_nl and iq4_xs, and twice that of a code of mxfp4: bytes of a table.
DEVICE int nonlinear(int code) {
  return (signed char)((code < 8 ? 0xf6eaddcfbfad9881ul : 0x7159453526190d01ul) >> code % 8 * 8);
}
DEVICE int twice_e2m1(int code) {
  const int level = (int)(0x0c08060403020100ul >> code % 8 * 8 & 15);
  return code < 8 ? level : -level;
}

// Of a block of 32.
DEVICE float q4_0_at(GLOBAL const uchar* block, int e) { return HALF(0) * (float)(FIELD(2, 4, 16, e) - 8); }
DEVICE float q4_1_at(GLOBAL const uchar* block, int e) { return HALF(0) * (float)FIELD(4, 4, 16, e) + HALF(2); }
DEVICE float q5_0_at(GLOBAL const uchar* block, int e) {
  return HALF(0) * (float)((FIELD(6, 4, 16, e) | FIELD(2, 1, 1, e) << 4) - 16);
}
DEVICE float q5_1_at(GLOBAL const uchar* block, int e) {
  return HALF(0) * (float)(FIELD(8, 4, 16, e) | FIELD(4, 1, 1, e) << 4) + HALF(2);
}
DEVICE float q8_0_at(GLOBAL const uchar* block, int e) { return HALF(0) * (float)(signed char)block[2 + e]; }
DEVICE float iq4_nl_at(GLOBAL const uchar* block, int e) { return HALF(0) * (float)nonlinear(FIELD(2, 4, 16, e)); }
DEVICE float mxfp4_at(GLOBAL const uchar* block, int e) {
  const uint exponent = block[0];
  return AS_FLOAT(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23) *
         (float)twice_e2m1(FIELD(1, 4, 16, e));
}

// Of a block of 256.
DEVICE float q2_k_at(GLOBAL const uchar* block, int e) {
  const int integers = block[e / 16];
  return HALF(80) * (float)(integers & 15) * (float)FIELD(16, 2, 32, e) - HALF(82) * (float)(integers >> 4);
}
DEVICE float q3_k_at(GLOBAL const uchar* block, int e) {
  const int run = e / 16, scale = (FIELD(96, 4, 8, run) | FIELD(104, 2, 4, run) << 4) - 32;
  return HALF(108) * (float)scale * (float)((FIELD(32, 2, 32, e) | FIELD(0, 1, 32, e) << 2) - 4);
}
DEVICE float q4_k_at(GLOBAL const uchar* block, int e) {
  const float scale = HALF(0) * (float)six_bits(block + 4, e / 32, 0);
  return scale * (float)FIELD(16, 4, 32, e) - HALF(2) * (float)six_bits(block + 4, e / 32, 1);
}
DEVICE float q5_k_at(GLOBAL const uchar* block, int e) {
  const float scale = HALF(0) * (float)six_bits(block + 4, e / 32, 0);
  return scale * (float)(FIELD(48, 4, 32, e) | FIELD(16, 1, 32, e) << 4) -
         HALF(2) * (float)six_bits(block + 4, e / 32, 1);
}
DEVICE float q6_k_at(GLOBAL const uchar* block, int e) {
  const int level = (FIELD(0, 4, 64, e) | FIELD(128, 2, 32, e) << 4) - 32;
  return HALF(208) * (float)(signed char)block[192 + e / 16] * (float)level;
}
DEVICE float iq4_xs_at(GLOBAL const uchar* block, int e) {
  const int run = e / 32, scale = (FIELD(4, 4, 1, run) | FIELD(2, 2, 1, run) << 4) - 32;
  return HALF(0) * (float)scale * (float)nonlinear(FIELD(8, 4, 16, e));
}

DEVICE float weight_at(GLOBAL const uchar* w, int type, int64 row, int64 width, int64 column) {
  const int64 at = row * width + column;
  switch (type) {
    case WEIGHT_F32:
      return ((GLOBAL const float*)w)[at];
    case WEIGHT_BF16:
      return bf16_to_float(((GLOBAL const ushort*)w)[at]);
    case WEIGHT_F16:
      return half_to_float(((GLOBAL const ushort*)w)[at]);
    case WEIGHT_Q4_0:
      return q4_0_at(w + at / 32 * 18, (int)(at % 32));
    case WEIGHT_Q4_1:
      return q4_1_at(w + at / 32 * 20, (int)(at % 32));
    case WEIGHT_Q5_0:
      return q5_0_at(w + at / 32 * 22, (int)(at % 32));
    case WEIGHT_Q5_1:
      return q5_1_at(w + at / 32 * 24, (int)(at % 32));
    case WEIGHT_Q8_0:
      return q8_0_at(w + at / 32 * 34, (int)(at % 32));
    case WEIGHT_IQ4_NL:
      return iq4_nl_at(w + at / 32 * 18, (int)(at % 32));
    case WEIGHT_MXFP4:
      return mxfp4_at(w + at / 32 * 17, (int)(at % 32));
    case WEIGHT_Q2_K:
      return q2_k_at(w + at / 256 * 84, (int)(at % 256));
    case WEIGHT_Q3_K:
      return q3_k_at(w + at / 256 * 110, (int)(at % 256));
    case WEIGHT_Q4_K:
      return q4_k_at(w + at / 256 * 144, (int)(at % 256));
    case WEIGHT_Q5_K:
      return q5_k_at(w + at / 256 * 176, (int)(at % 256));
    case WEIGHT_Q6_K:
      return q6_k_at(w + at / 256 * 210, (int)(at % 256));
    case WEIGHT_IQ4_XS:
      return iq4_xs_at(w + at / 256 * 136, (int)(at % 256));
    default:
      return NOT_A_NUMBER;
  }
}
#endif
