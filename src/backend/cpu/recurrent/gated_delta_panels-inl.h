// Products of the matrices of a chunk of the gated delta rule.
#if defined(TOY_CPU_GATED_DELTA_PANELS_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GATED_DELTA_PANELS_INL_H_
#undef TOY_CPU_GATED_DELTA_PANELS_INL_H_
#else
#define TOY_CPU_GATED_DELTA_PANELS_INL_H_
#endif

#include "backend/cpu/attention/attention_tile-inl.h"
#include "backend/cpu/recurrent/gated_delta_grad.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Rows of A at a time where B has so few columns that more of them fill the registers.
constexpr int kTall = kManyRegisters ? 8 : kStrip;

// C = A B, or with kInit what is in `before` as well (nullptr: in C), for any number of rows. Columns: a multiple
// of 16.
template <Init kInit, bool kTransposed = false, int kRows = kStrip>
void product(int64_t rows, int64_t cols, int64_t steps, const float* a, int64_t lda, const float* b, int64_t ldb,
             float* c, int64_t ldc, const float* alpha = nullptr, const float* before = nullptr) {
  for (int64_t r = 0; r < rows; r += kRows)
    multiply<kInit, kTransposed, false, kRows>(HWY_MIN(kRows, rows - r), cols,
                                               {a + (kTransposed ? r : r * lda),
                                                lda,
                                                {b, ldb},
                                                steps,
                                                c + r * ldc,
                                                ldc,
                                                alpha ? alpha + r : nullptr,
                                                before ? before + r * ldc : nullptr});
}

// C = A B.
void product(int64_t rows, const float* a, int64_t lda, const PanelMatrix& b, float* c, int64_t ldc) {
  for (int64_t col = 0; col < b.cols; col += kMostColumns)
    product<Init::zero>(rows, b.ld(col), b.rows, a, lda, b.panel(col), b.ld(col), c + col, ldc);
}
// C = A B for a B of `steps` rows and 16 or 32 columns.
void product(const PanelMatrix& a, int64_t steps, const float* b, float* c, int64_t cols) {
  for (int64_t col = 0; col < steps; col += kMostColumns) {
    const auto& with = col == 0 ? product<Init::zero, false, kTall> : product<Init::add, false, kTall>;
    with(a.rows, cols, HWY_MIN(a.ld(col), steps - col), a.panel(col), a.ld(col), b + col * cols, cols, c, cols, nullptr,
         nullptr);
  }
}
// C = alpha_row C0 + A^T B.
void add_product(int64_t steps, const float* a, int64_t lda, const float* b, int64_t ldb, const float* alpha,
                 const PanelMatrix& c0, const PanelMatrix& c) {
  for (int64_t col = 0; col < c.cols; col += kMostColumns)
    product<Init::scaled, true>(c.rows, c.ld(col), steps, a, lda, b + col, ldb, c.panel(col), c.ld(col), alpha,
                                c0.panel(col));
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GATED_DELTA_PANELS_INL_H_
