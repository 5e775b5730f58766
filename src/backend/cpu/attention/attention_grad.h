// Operands and per-thread buffers of attention_grad. Plain code, the same for every target.
#pragma once

#include "backend/cpu/attention/attention_tasks.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {

struct GradOperands {
  int64_t rows, heads, kv_heads, p, window;
  float scale, softcap;
  bool alibi;
  const float *q, *k, *v, *o, *lse, *d_o, *dlse;  // dlse: nullptr where there is none
  const int32_t* until;                           // or nullptr
  float *dq, *dk, *dv;
  float *dk_part = nullptr, *dv_part = nullptr;  ///< [N,H,P]: each query head's share

  explicit GradOperands(const KernelArgs& args) {
    const auto& attrs = args.attrs.as<AttentionAttrs>();
    rows = args.in[0].shape[0], heads = args.in[0].shape[1], p = args.in[0].shape[2];
    kv_heads = args.in[1].shape[1];
    scale = float(attrs.scale), softcap = float(attrs.softcap), window = attrs.window, alibi = attrs.alibi;
    q = args.in[0].as<const float>(), k = args.in[1].as<const float>(), v = args.in[2].as<const float>();
    o = args.in[3].as<const float>(), lse = args.in[4].as<const float>(), d_o = args.in[5].as<const float>();
    dlse = args.in.size() > 8 ? args.in[8].as<const float>() : nullptr;
    until = optional_ids(args, 9);
    dq = args.out[0].as<float>(), dk = args.out[1].as<float>(), dv = args.out[2].as<float>();
  }
  int64_t group() const { return heads / kv_heads; }
  /// Where the parts of dk and dv go: to memory of 2 N H P floats, or without groups straight to the outputs.
  void place_parts(float* memory) {
    dk_part = group() == 1 ? dk : memory;
    dv_part = group() == 1 ? dv : memory + rows * heads * p;
  }
};

/// One thread's tiles.
struct GradScratch {
  int64_t width;  ///< P rounded up to 16: row stride of all but kt, vt, e, s
  float *kt, *vt, *k, *q, *d_o, *dq, *dk, *dv, *e, *s;

  static int64_t floats(int64_t p) { return kKeyTile * (2 * p + 6 * round_up16(p) + 2 * kKeyTile); }
  GradScratch(float* base, int64_t p) : width(round_up16(p)) {
    kt = base, vt = kt + kKeyTile * p, k = vt + kKeyTile * p;
    float** const wide[] = {&q, &d_o, &dq, &dk, &dv};
    float* at = k;
    for (float** buffer : wide) *buffer = at += kKeyTile * width;
    e = at + kKeyTile * width, s = e + kKeyTile * kKeyTile;
  }
};

}  // namespace toy::cpu
