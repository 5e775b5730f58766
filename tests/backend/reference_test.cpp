// The reference kernels against each other: attention over pages against attention over rows.
#include "backend/compare_util.h"

namespace toy::test::reference_test {
namespace {

Tensor random_f64(const Shape& shape, uint32_t seed) { return random_tensor(shape, seed, -1, 1, DType::f64); }

TEST(Reference, PagedAttentionIsAttention) {
  const int64_t N = 150, H = 4, K = 2, P = 3;
  const Tensor q = random_f64({N, H, P}, 1), k = random_f64({N, K, P}, 2), v = random_f64({N, K, P}, 3);
  Tensor seq(DType::i32, {N}), pos(DType::i32, {N});
  for (int64_t i = 0; i < N; ++i) {  // 100 rows of sequence 1, then 50 of sequence 0
    set_value(seq.view, i, i < 100);
    set_value(pos.view, i, double(i < 100 ? i : i - 100));
  }
  const Tensor table = tensor_of({2, 2}, {2, -1, 0, 1}, DType::i32);
  const Tensor kc = random_f64({3, K, P, 64}, 5), vc = random_f64({3, K, 64, P}, 6);
  EXPECT_FALSE(run_kernel(reference::kv_append_kernel(),
                          {kc.view, vc.view, k.view, v.view, seq.view, pos.view, table.view, View{}},
                          {kc.view, vc.view}, KvAppendAttrs{}));
  for (const int64_t window : {0, 70}) {
    const AttentionAttrs attrs{.scale = 0.7f, .window = window};
    const Tensor rows(DType::f64, {N, H, P}), paged(DType::f64, {N, H, P});
    run_kernel(reference::attention_kernel(), {q.view, k.view, v.view, seq.view, pos.view}, {rows.view, View{}}, attrs);
    EXPECT_FALSE(run_kernel(reference::attention_paged_kernel(),
                            {q.view, kc.view, vc.view, seq.view, pos.view, table.view}, {paged.view}, attrs));
    for (int64_t i = 0; i < N * H * P; ++i)
      EXPECT_NEAR(value_at(rows.view, i), value_at(paged.view, i), 1e-13) << "element " << i;
  }
}

}  // namespace
}  // namespace toy::test::reference_test
