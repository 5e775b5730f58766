// Products and transposes of the matrices of a chunk of the gated delta rule.
#if defined(TOY_CPU_GATED_DELTA_PANELS_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GATED_DELTA_PANELS_INL_H_
#undef TOY_CPU_GATED_DELTA_PANELS_INL_H_
#else
#define TOY_CPU_GATED_DELTA_PANELS_INL_H_
#endif

#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/gated_delta_grad.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// C = A B, or with kInit what is in C as well, for any number of rows. Columns: a multiple of 16.
template <Init kInit, bool kTransposed = false>
void product(int64_t rows, int64_t cols, int64_t steps, const float* a, int64_t lda, const float* b, int64_t ldb,
             float* c, int64_t ldc, const float* alpha = nullptr) {
  for (int64_t r = 0; r < rows; r += kStrip)
    multiply<kInit, kTransposed>(
        HWY_MIN(kStrip, rows - r), cols,
        {a + (kTransposed ? r : r * lda), lda, {b, ldb}, steps, c + r * ldc, ldc, alpha ? alpha + r : nullptr});
}

inline void transpose(const PanelMatrix& from, const PanelMatrix& to) {
  for (int64_t i = 0; i < to.cols; i += kMostColumns)
    for (int64_t j = 0; j < to.rows; j += kMostColumns)
      transpose(from.panel(j) + i * from.ld(j), from.ld(j), from.rows - i, HWY_MIN(kMostColumns, to.rows - j),
                to.panel(i) + j * to.ld(i), to.ld(i));
}

// C = A B.
void product(int64_t rows, const float* a, int64_t lda, const PanelMatrix& b, float* c, int64_t ldc) {
  for (int64_t col = 0; col < b.cols; col += kMostColumns)
    product<Init::zero>(rows, b.ld(col), b.rows, a, lda, b.panel(col), b.ld(col), c + col, ldc);
}
// C = alpha_row C + A^T B.
void add_product(int64_t steps, const float* a, int64_t lda, const float* b, int64_t ldb, const float* alpha,
                 const PanelMatrix& c) {
  for (int64_t col = 0; col < c.cols; col += kMostColumns)
    product<Init::scaled, true>(c.rows, c.ld(col), steps, a, lda, b + col, ldb, c.panel(col), c.ld(col), alpha);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GATED_DELTA_PANELS_INL_H_
