// Results that are stored in f32, or rounded to bf16 where only products read them.
#ifndef TOY_GPU_STORE_H
#define TOY_GPU_STORE_H
#include "dialect.h"

// Element i of a tensor of f32 or bf16 becomes v.
DEVICE void put(GLOBAL uchar* y, int type, int64 i, float v) {
  if (type == WEIGHT_F32)
    ((GLOBAL float*)y)[i] = v;
  else
    ((GLOBAL ushort*)y)[i] = float_to_bf16(v);
}
#endif
