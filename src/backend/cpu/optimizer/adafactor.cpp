// Adafactor (Shazeer and Stern 2018). The update's root mean square is needed before the first weight moves: three
// passes over the gradient (squares of rows and columns, squares of the update, the update), the update computed twice
// rather than stored. Sums over rows, columns and everything are f64 by chunks of rows that depend on the shape alone,
// added in order: the same bits for any number of threads.
//
// Error, with u = 2^-24: row' and col' are within 2u of themselves, a vector's v' within 6u; an element of the update
// within 7u, its mean square over rows of C columns within (C/64 + 7 + 14) u, half of which the root leaves; so w' is
// within 3u (|w| + |w'|) + (C/128 + 24) u of the step.
#define TOY_TARGET_FILE "backend/cpu/optimizer/adafactor.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/gradient-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

#ifndef TOY_CPU_ADAFACTOR_CHUNKS_
#define TOY_CPU_ADAFACTOR_CHUNKS_
namespace toy::cpu {
namespace {

// Rows of a matrix in chunks of at least 64, at most 64 of them.
struct MatrixChunks {
  int64_t rows, chunks, size;
  explicit MatrixChunks(int64_t rows_in)
      : rows(rows_in), chunks(0), size(std::max<int64_t>(kRowChunk, div_up(rows_in, 64))) {
    chunks = div_up(rows, size);
  }
  int64_t begin(int64_t chunk) const { return std::min(rows, chunk * size); }
};

}  // namespace
}  // namespace toy::cpu
#endif  // TOY_CPU_ADAFACTOR_CHUNKS_

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// A step's numbers.
struct Step {
  VF gscale, smallest, keep, rate;

  // g / max(sqrt(v), eps)
  HWY_INLINE VF update(VF g, VF v) const { return hn::Div(hn::Mul(g, gscale), hn::Sqrt(hn::Max(v, smallest))); }
  HWY_INLINE VF moved(VF w, VF update) const { return hn::Sub(hn::Mul(w, keep), hn::Mul(rate, update)); }
};

// columns[j] += g[j]^2: exact squares, one rounding an addition.
HWY_INLINE void add_squares(const float* g, int64_t n, double* columns) {
  const hn::CappedTag<double, 8> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t wide = int64_t(hn::Lanes(d64));
  int64_t j = 0;
  for (; j + wide <= n; j += wide) {
    const auto v = hn::PromoteTo(d64, hn::LoadU(d32, g + j));
    hn::StoreU(hn::MulAdd(v, v, hn::LoadU(d64, columns + j)), d64, columns + j);
  }
  for (; j < n; ++j) columns[j] += double(g[j]) * double(g[j]);
}

struct Scalars {
  double lr, mix, gscale;
  Scalars(const KernelArgs& args, size_t first)
      : lr(*args.in[first].as<const float>()),
        mix(*args.in[first + 1].as<const float>()),
        gscale(scale_of_gradients(args, first + 2)) {}
};

// The numbers of the last pass, from the sums over all chunks of u^2 and of w^2.
Step last_pass(const AdafactorAttrs& at, const Scalars& s, Step step, const double* updates, const double* weights,
               int64_t chunks, int64_t count) {
  double of_updates = 0, of_weights = 0;
  for (int64_t c = 0; c < chunks; ++c) of_updates += updates[c], of_weights += weights[c];
  const double size = at.relative ? std::max(at.smallest_scale, std::sqrt(of_weights / double(count))) : 1;
  step.rate = set(float(s.lr * size / std::max(1.0, std::sqrt(of_updates / double(count)) / at.clip)));
  return step;
}

Step first_pass(const AdafactorAttrs& at, const Scalars& s) {
  return {set(float(s.gscale)), set(float(at.eps * at.eps)), set(float(1 - s.lr * at.weight_decay)), set(0)};
}

void adafactor(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<AdafactorAttrs>();
  const Scalars s(args, 4);
  if (!std::isfinite(s.gscale)) return;  // a broken gradient: the step is skipped
  const int64_t R = args.in[0].shape[0], C = args.in[0].shape[1];
  const MatrixChunks cut(R);
  auto* columns = reinterpret_cast<double*>(args.workspace);  // [chunks, C]
  double *updates = columns + cut.chunks * C, *weights = updates + cut.chunks;
  const float *w = args.in[0].as<const float>(), *g = args.in[1].as<const float>();
  float *w_out = args.out[0].as<float>(), *row = args.out[1].as<float>(), *col = args.out[2].as<float>();
  const double square = s.gscale * s.gscale;
  const Range mine = ctx.share(cut.chunks);

  for (int64_t c = mine.begin; c < mine.end; ++c) {
    double* sums = columns + c * C;
    std::fill(sums, sums + C, 0.0);
    weights[c] = 0;
    for (int64_t i = cut.begin(c); i < cut.begin(c + 1); ++i) {
      const double sum = sum_f64<true>(g + i * C, C) * square;
      if (!std::isfinite(sum)) ctx.report(KernelFault::not_finite);
      row[i] = float(double(row[i]) + s.mix * (sum / double(C) - double(row[i])));
      add_squares(g + i * C, C, sums);
      if (at.relative) weights[c] += sum_f64<true>(w + i * C, C);
    }
  }
  ctx.barrier();
  const Range some = share_elements(ctx, C);
  for (int64_t j = some.begin; j < some.end; ++j) {
    double sum = 0;
    for (int64_t c = 0; c < cut.chunks; ++c) sum += columns[c * C + j];
    col[j] = float(double(col[j]) + s.mix * (sum * square / double(R) - double(col[j])));
  }
  double mean = 0;
  for (int64_t i = 0; i < R; ++i) mean += double(row[i]);
  mean = std::max(mean / double(R), at.eps);
  ctx.barrier();

  Step step = first_pass(at, s);
  for (int64_t c = mine.begin; c < mine.end; ++c) {
    updates[c] = 0;
    for (int64_t i = cut.begin(c); i < cut.begin(c + 1); ++i) {
      const VF of_row = set(float(double(row[i]) / mean));
      updates[c] += double(sum_over(C, [&](auto io, int64_t j, VF sum) HWY_ATTR {
        const VF u = step.update(io.load(g + i * C + j), hn::Mul(of_row, io.load(col + j)));
        return hn::MulAdd(u, u, sum);
      }));
    }
  }
  ctx.barrier();
  step = last_pass(at, s, step, updates, weights, cut.chunks, R * C);
  for (int64_t c = mine.begin; c < mine.end; ++c)
    for (int64_t i = cut.begin(c); i < cut.begin(c + 1); ++i) {
      const VF of_row = set(float(double(row[i]) / mean));
      for_each_vector(C, [&](auto io, int64_t j) HWY_ATTR {
        const VF u = step.update(io.load(g + i * C + j), hn::Mul(of_row, io.load(col + j)));
        io.store(step.moved(io.load(w + i * C + j), u), w_out + i * C + j);
      });
    }
}

void adafactor_vector(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<AdafactorAttrs>();
  const Scalars s(args, 3);
  if (!std::isfinite(s.gscale)) return;
  const int64_t n = args.in[0].count(), chunks = div_up(n, kTile);
  auto* updates = reinterpret_cast<double*>(args.workspace);
  double* weights = updates + chunks;
  const float *w = args.in[0].as<const float>(), *g = args.in[1].as<const float>(), *v = args.in[2].as<const float>();
  float *w_out = args.out[0].as<float>(), *v_out = args.out[1].as<float>();
  Gradients gradients(float(s.gscale));
  const VF mix = set(float(s.mix));
  const Range mine = ctx.share(chunks);
  Step step = first_pass(at, s);
  for (int64_t c = mine.begin; c < mine.end; ++c) {
    const int64_t begin = c * kTile, count = HWY_MIN(kTile, n - begin);
    for_each_vector(count, [&](auto io, int64_t i) HWY_ATTR {
      const VF gi = gradients.load(io, g + begin + i), old = io.load(v + begin + i);
      io.store(hn::MulAdd(mix, hn::Sub(hn::Mul(gi, gi), old), old), v_out + begin + i);
    });
    updates[c] = double(sum_over(count, [&](auto io, int64_t i, VF sum) HWY_ATTR {
      const VF u = step.update(io.load(g + begin + i), io.load(v_out + begin + i));
      return hn::MulAdd(u, u, sum);
    }));
    weights[c] = at.relative ? sum_f64<true>(w + begin, count) : 0;
  }
  gradients.report(ctx);
  ctx.barrier();
  step = last_pass(at, s, step, updates, weights, chunks, n);
  for (int64_t c = mine.begin; c < mine.end; ++c) {
    const int64_t begin = c * kTile, count = HWY_MIN(kTile, n - begin);
    for_each_vector(count, [&](auto io, int64_t i) HWY_ATTR {
      const VF u = step.update(io.load(g + begin + i), io.load(v_out + begin + i));
      io.store(step.moved(io.load(w + begin + i), u), w_out + begin + i);
    });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(adafactor);
HWY_EXPORT(adafactor_vector);

size_t workspace(const KernelQuery& q) noexcept {
  const Shape& w = q.in[0].shape;
  return size_t(MatrixChunks(w[0]).chunks * (w[1] + 2)) * sizeof(double);
}
size_t vector_workspace(const KernelQuery& q) noexcept {
  return size_t(div_up(q.in[0].shape.count(), kTile) * 2) * sizeof(double);
}

}  // namespace

KernelRecord adafactor_kernel() {
  return {.op = "adafactor",
          .in_place = {{0, 0}, {1, 2}, {2, 3}},
          .accepts = only_f32,
          .workspace = workspace,
          .code = best_of<HWY_DISPATCH_TABLE(adafactor)>};
}
KernelRecord adafactor_vector_kernel() {
  return {.op = "adafactor_vector",
          .in_place = {{0, 0}, {1, 2}},
          .accepts = only_f32,
          .workspace = vector_workspace,
          .code = best_of<HWY_DISPATCH_TABLE(adafactor_vector)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
