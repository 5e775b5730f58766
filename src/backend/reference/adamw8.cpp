// AdamW with moments in 8 bits (Dettmers et al. 2021): block by block decoded, moved on as adamw does, and rounded to
// the codes nearest to m / max|m| and v / max v. The scales are stored in f64 here.
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/backend/dynamic_code.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// One block of a moment.
struct Block {
  uint8_t* codes;
  double* scale;
  const DynamicCode& code;
  double at(int64_t k) const { return *scale * double(code.value[codes[k]]); }
  void store(const double* moment, int64_t n) const {
    double largest = 0;
    for (int64_t k = 0; k < n; ++k) largest = std::max(largest, std::fabs(moment[k]));
    for (int64_t k = 0; k < kCodeBlock; ++k) {
      const double x = k < n && largest > 0 ? moment[k] / largest : 0;
      codes[k] = code.of(x);
      if (&code == &kUnsignedCode && x > 0) codes[k] = std::max<uint8_t>(codes[k], 1);
    }
    *scale = largest;
  }
};

void adamw8(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& a = args.attrs.as<AdamWAttrs>();
  const double lr = *input(args, 6), bias1 = *input(args, 7), bias2 = *input(args, 8);
  const double scale = scale_of_gradients(args, 9);
  if (!std::isfinite(scale)) return;  // donated: what is there stays
  const int64_t n = args.in[0].count();
  for (int64_t b = 0; b < code_blocks(n); ++b) {
    const Block m{args.out[1].as<uint8_t>() + b * kCodeBlock, output(args, 2) + b, kSignedCode};
    const Block v{args.out[3].as<uint8_t>() + b * kCodeBlock, output(args, 4) + b, kUnsignedCode};
    double m_new[kCodeBlock], v_new[kCodeBlock];
    const int64_t begin = b * kCodeBlock, count = std::min(kCodeBlock, n - begin);
    for (int64_t k = 0; k < count; ++k) {
      const double w = input(args, 0)[begin + k], g = scale * input(args, 1)[begin + k];
      m_new[k] = a.beta1 * m.at(k) + (1 - a.beta1) * g;
      v_new[k] = a.beta2 * v.at(k) + (1 - a.beta2) * g * g;
      output(args, 0)[begin + k] =
          w * (1 - lr * a.weight_decay) - lr * (m_new[k] / bias1) / (std::sqrt(v_new[k] / bias2) + a.eps);
      if (!std::isfinite(g)) ctx.report(KernelFault::not_finite);
    }
    m.store(m_new, count);
    v.store(v_new, count);
  }
}

}  // namespace

KernelRecord adamw8_kernel() {
  return {.op = "adamw8", .in_place = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, .code = adamw8};
}

}  // namespace toy::reference
