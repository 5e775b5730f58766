// Operands of attention that tests of the cpu device share.
#pragma once

#include "backend/kernel_test_util.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test {

inline const float kNan = std::numeric_limits<float>::quiet_NaN();

struct RunCase {
  int32_t seq, pos;
  int64_t count;
};
struct Case {
  const char* name;
  int64_t heads, kv_heads, p, window;
  std::vector<RunCase> runs;
  int64_t rows() const {
    int64_t n = 0;
    for (const RunCase& r : runs) n += r.count;
    return n;
  }
};

// Operands of one case.
struct Data {
  Case c;
  AttentionAttrs attrs;
  Array<float> q, k, v, d_o, o, lse, dq, dk, dv;
  Array<int32_t> seq, pos;
  std::vector<int64_t> run_begin;  // of each row: the first row of its run

  explicit Data(const Case& in, float spread = 3)
      : c(in),
        attrs{spread / std::sqrt(float(in.p)), in.window},
        q({in.rows(), in.heads, in.p}),
        k({in.rows(), in.kv_heads, in.p}),
        v({in.rows(), in.kv_heads, in.p}),
        d_o({in.rows(), in.heads, in.p}),
        o({in.rows(), in.heads, in.p}),
        lse({in.rows(), in.heads}),
        dq({in.rows(), in.heads, in.p}),
        dk({in.rows(), in.kv_heads, in.p}),
        dv({in.rows(), in.kv_heads, in.p}),
        seq({in.rows()}),
        pos({in.rows()}) {
    fill_random(q, 1), fill_random(k, 2), fill_random(v, 3), fill_random(d_o, 4);
    for (int64_t i = 0, r = 0; r < int64_t(c.runs.size()); ++r)
      for (int64_t begin = i, n = 0; n < c.runs[r].count; ++n, ++i) {
        seq[i] = c.runs[r].seq, pos[i] = int32_t(c.runs[r].pos + n);
        run_begin.push_back(begin);
      }
  }
  int64_t group() const { return c.heads / c.kv_heads; }
  int64_t first_key(int64_t i) const {  // row of the first key that row i sees
    return c.window > 0 ? std::max(run_begin[i], i - c.window + 1) : run_begin[i];
  }
  void forward(int threads) {
    ASSERT_FALSE(run_kernel(cpu::attention_kernel(), {q.view(), k.view(), v.view(), seq.view(), pos.view()},
                            {o.view(), lse.view()}, attrs, threads));
  }
  void backward(int threads) {
    ASSERT_FALSE(run_kernel(cpu::attention_grad_kernel(),
                            {q.view(), k.view(), v.view(), o.view(), lse.view(), d_o.view(), seq.view(), pos.view()},
                            {dq.view(), dk.view(), dv.view()}, attrs, threads));
  }
};

template <class T>
std::vector<T> copy_of(const Array<T>& a) {
  return {a.data(), a.data() + a.size()};
}

inline bool same_bits(const float* a, const float* b, size_t n) { return std::memcmp(a, b, n * sizeof(float)) == 0; }

}  // namespace toy::test
