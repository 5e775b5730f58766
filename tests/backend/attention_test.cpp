// Attention of the cpu device against plain f64 loops with derived bounds, and its promises on bits: threads,
// pieces of a prefill, decoding among others, pages or no pages.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/kernel_test_util.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test {
namespace {

constexpr double kU = 0x1p-24;
const float kNan = std::numeric_limits<float>::quiet_NaN();

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

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one number", 1, 1, 1, 0, {{0, 0, 1}}},
      {"63 rows", 3, 1, 16, 0, {{0, 0, 63}}},
      {"two lengths", 4, 2, 64, 0, {{0, 0, 65}, {1, 0, 130}}},
      {"three sequences", 9, 3, 64, 0, {{0, 0, 64}, {1, 0, 7}, {2, 0, 1}}},
      {"small window", 2, 2, 20, 5, {{0, 0, 130}}},
      {"packed documents, window", 6, 2, 33, 64, {{0, 0, 70}, {0, 0, 100}}},
      {"begins late", 5, 1, 80, 0, {{0, 10, 130}}},
      {"begins late, window", 2, 1, 12, 70, {{0, 100, 200}}},
      {"wide head", 2, 1, 256, 0, {{0, 0, 66}}},
      {"many heads", 40, 1, 8, 0, {{0, 0, 70}}},
      {"window of one", 7, 7, 17, 1, {{0, 0, 66}, {3, 2, 3}}},
      {"several chunks", 3, 1, 16, 0, {{0, 0, 300}}},
      {"two chunks of keys", 2, 1, 16, 0, {{0, 400, 300}}},
  };
  return all;
}

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

bool same_bits(const float* a, const float* b, size_t n) { return std::memcmp(a, b, n * sizeof(float)) == 0; }

// Values in f64, and how far an f32 kernel may be from them.
struct Expected {
  std::vector<double> o, lse, o_tol, lse_tol;
};

Expected expected_forward(const Data& x) {
  Expected e;
  const int64_t p = x.c.p, group = x.group();
  for (int64_t i = 0; i < x.c.rows(); ++i)
    for (int64_t h = 0; h < x.c.heads; ++h) {
      const int64_t first = x.first_key(i), n = i - first + 1, kh = h / group;
      std::vector<double> s(n);
      double top = -1e300, size = 0;
      for (int64_t j = 0; j < n; ++j) {
        double abs = 0;
        for (int64_t d = 0; d < p; ++d) {
          const double t = double(x.q[(i * x.c.heads + h) * p + d]) *
                           double(x.k[((first + j) * x.c.kv_heads + kh) * p + d]) * double(x.attrs.scale);
          s[j] += t, abs += std::abs(t);
        }
        top = std::max(top, s[j]), size = std::max(size, abs);
      }
      double sum = 0;
      for (double v : s) sum += std::exp(v - top);
      // A score: p + 1 roundings and the scale; score - maximum is rounded again (at most 2 size).
      const double score = (double(p) + 5) * kU * size;
      // exp: 3 units; the running rescaling: 5 units a tile; the chain over the keys; numerator and
      // denominator.
      const double weight = 2 * score + (double(n) + 5 * (double(n) / 64 + 2) + 6 + 20) * kU;
      e.lse.push_back(top + std::log(sum));
      e.lse_tol.push_back(weight + 2 * kU * std::abs(e.lse.back()) + 2 * kU * std::abs(top));
      for (int64_t d = 0; d < p; ++d) {
        double o = 0, abs = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double v = double(x.v[((first + j) * x.c.kv_heads + kh) * p + d]) * std::exp(s[j] - top) / sum;
          o += v, abs += std::abs(v);
        }
        e.o.push_back(o);
        e.o_tol.push_back(2 * weight * abs + 1e-37);
      }
    }
  return e;
}

void expect_near(const Array<float>& got, const std::vector<double>& want, const std::vector<double>& tol,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(double(got[i]) - want[i]) <= tol[i])) {
      ADD_FAILURE() << what << " " << i << ": " << got[i] << ", expected " << want[i] << " +- " << tol[i];
      return;
    }
}

TEST(Attention, matches_f64) {
  for_each_target([] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      for (float spread : {3.0f, 60.0f}) {
        Data x(c, spread);
        x.forward(2);
        const Expected e = expected_forward(x);
        expect_near(x.o, e.o, e.o_tol, "o");
        expect_near(x.lse, e.lse, e.lse_tol, "lse");
        EXPECT_TRUE(x.o.intact() && x.lse.intact());
      }
    }
  });
}

// Values and bounds of the gradients; terms as in attention_grad.cpp.
struct ExpectedGrad {
  std::vector<double> dq, dk, dv, dq_tol, dk_tol, dv_tol;
};

ExpectedGrad expected_backward(const Data& x) {
  const Expected f = expected_forward(x);
  const int64_t p = x.c.p, group = x.group(), heads = x.c.heads, kv = x.c.kv_heads, rows = x.c.rows();
  const double chain = (double(rows) + double(group) + 2) * kU;
  ExpectedGrad e;
  for (auto* a : {&e.dq, &e.dq_tol}) a->assign(size_t(rows * heads * p), 0);
  for (auto* a : {&e.dk, &e.dk_tol, &e.dv, &e.dv_tol}) a->assign(size_t(rows * kv * p), 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t iq = (i * heads + h) * p;
      double delta = 0, delta_err = 0;
      for (int64_t d = 0; d < p; ++d) {
        const double g = x.d_o[iq + d];
        delta += g * f.o[iq + d];
        delta_err += std::abs(g) * (f.o_tol[iq + d] + (double(p) + 2) * kU * std::abs(f.o[iq + d]));
      }
      for (int64_t j = x.first_key(i); j <= i; ++j) {
        const int64_t jk = (j * kv + h / group) * p;
        double s = 0, size = 0, dp = 0, dp_err = 0;
        for (int64_t d = 0; d < p; ++d) {
          const double t = double(x.q[iq + d]) * double(x.k[jk + d]) * double(x.attrs.scale);
          const double g = double(x.d_o[iq + d]) * double(x.v[jk + d]);
          s += t, size += std::abs(t), dp += g, dp_err += (double(p) + 1) * kU * std::abs(g);
        }
        const double lse = f.lse[i * heads + h], w = std::exp(s - lse);
        const double rel = (double(p) + 5) * kU * size + f.lse_tol[i * heads + h] + kU * std::abs(lse) + 4 * kU;
        const double ds = w * (dp - delta) * double(x.attrs.scale);
        const double ds_err =
            (std::abs(ds) * (rel + 4 * kU) + w * (dp_err + delta_err) * double(x.attrs.scale)) * (1 + rel) + 1e-37;
        for (int64_t d = 0; d < p; ++d) {
          const double kd = x.k[jk + d], qd = x.q[iq + d], g = x.d_o[iq + d];
          e.dq[iq + d] += ds * kd, e.dq_tol[iq + d] += (ds_err + chain * std::abs(ds)) * std::abs(kd);
          e.dk[jk + d] += ds * qd, e.dk_tol[jk + d] += (ds_err + chain * std::abs(ds)) * std::abs(qd);
          e.dv[jk + d] += w * g, e.dv_tol[jk + d] += (w * rel * (1 + rel) + chain * w + 1e-37) * std::abs(g);
        }
      }
    }
  return e;
}

TEST(AttentionGrad, matches_f64) {
  for_each_target([] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      Data x(c);
      x.forward(1);
      x.backward(2);
      const ExpectedGrad e = expected_backward(x);
      expect_near(x.dq, e.dq, e.dq_tol, "dq");
      expect_near(x.dk, e.dk, e.dk_tol, "dk");
      expect_near(x.dv, e.dv, e.dv_tol, "dv");
      EXPECT_TRUE(x.dq.intact() && x.dk.intact() && x.dv.intact());
    }
  });
}

TEST(Attention, bits_do_not_depend_on_threads_or_on_lanes) {
  const auto members = {&Data::o, &Data::lse, &Data::dq, &Data::dk, &Data::dv};
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Data base(c);
    enum { none, fma, baseline } kind = none;  // AVX2 and AVX-512 agree; without fma every sum rounds otherwise
    for_each_target([&] {
      for (int threads : {1, 2, 3, 7}) {
        Data x(c);
        x.forward(threads);
        x.backward(threads);
        const auto now = target_has_fma() ? fma : baseline;
        for (auto member : members) {
          Array<float>&a = x.*member, &b = base.*member;
          if (now != kind) std::copy_n(a.data(), a.size(), b.data());
          EXPECT_TRUE(same_bits(a.data(), b.data(), a.size())) << threads << " threads";
        }
        kind = now;
      }
    });
  }
}

TEST(Attention, a_row_sees_nothing_of_later_rows) {
  for_each_target([] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      Data x(c), y(c);
      x.forward(1);
      const int64_t cut = c.runs[0].count / 2, kv = c.kv_heads * c.p;  // the row where bad values begin
      for (int64_t i = cut * kv; i < c.runs[0].count * kv; ++i) y.k[i] = y.v[i] = kNan;
      y.forward(2);
      EXPECT_TRUE(same_bits(x.o.data(), y.o.data(), size_t(cut * c.heads * c.p)));
      EXPECT_TRUE(same_bits(x.lse.data(), y.lse.data(), size_t(cut * c.heads)));
    }
  });
}

TEST(Attention, fewer_rows_than_planned_and_no_lse) {
  for_each_target([] {
    Data x(cases()[3]);
    x.forward(1);
    const std::vector<float> all = copy_of(x.o);
    const Planned planned{{x.q.view(), x.k.view(), x.v.view(), x.seq.view(), x.pos.view()}, {x.o.view(), {}}};
    for (int64_t n : {0, 1, 40}) {
      std::fill_n(x.o.data(), x.o.size(), -7.0f);
      EXPECT_FALSE(run_kernel(
          cpu::attention_kernel(),
          {x.q.first_rows(n), x.k.first_rows(n), x.v.first_rows(n), x.seq.first_rows(n), x.pos.first_rows(n)},
          {x.o.first_rows(n), {}}, x.attrs, 2, planned));
      const size_t done = size_t(n * x.c.heads * x.c.p);
      EXPECT_TRUE(same_bits(x.o.data(), all.data(), done));
      for (size_t i = done; i < x.o.size(); ++i) ASSERT_EQ(x.o[i], -7.0f);
      EXPECT_FALSE(run_kernel(cpu::attention_grad_kernel(),
                              {x.q.first_rows(n), x.k.first_rows(n), x.v.first_rows(n), x.o.first_rows(n),
                               x.lse.first_rows(n), x.d_o.first_rows(n), x.seq.first_rows(n), x.pos.first_rows(n)},
                              {x.dq.first_rows(n), x.dk.first_rows(n), x.dv.first_rows(n)}, x.attrs, 2));
    }
  });
}

// ---------------------------------------------------------------- pages

// A cache for `slots` sequences of `per_seq` pages, scattered, full of NaN.
struct Cache {
  Array<float> kc, vc;
  Array<int32_t> table;
  Cache(int64_t slots, int64_t per_seq, int64_t kv_heads, int64_t p)
      : kc({slots * per_seq + 1, kv_heads, p, 64}),
        vc({slots * per_seq + 1, kv_heads, 64, p}),
        table({slots, per_seq}) {
    std::fill_n(kc.data(), kc.size(), kNan);
    std::fill_n(vc.data(), vc.size(), kNan);
    const int64_t n = slots * per_seq;
    for (int64_t i = 0; i < n; ++i) table[size_t(i)] = int32_t(n - i);  // page 0 is never used
  }
};

// Rows picked from `x` go through the cache: keys and values are appended, then the queries attend.
std::vector<float> step(Cache& cache, const Data& x, const std::vector<int64_t>& rows, int threads) {
  const int64_t n = int64_t(rows.size()), qd = x.c.heads * x.c.p, kd = x.c.kv_heads * x.c.p;
  Array<float> q({n, x.c.heads, x.c.p}), k({n, x.c.kv_heads, x.c.p}), v({n, x.c.kv_heads, x.c.p}),
      o({n, x.c.heads, x.c.p});
  Array<int32_t> seq({n}), pos({n});
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(x.q.data() + rows[i] * qd, qd, q.data() + i * qd);
    std::copy_n(x.k.data() + rows[i] * kd, kd, k.data() + i * kd);
    std::copy_n(x.v.data() + rows[i] * kd, kd, v.data() + i * kd);
    seq[i] = x.seq[rows[i]], pos[i] = x.pos[rows[i]];
  }
  EXPECT_FALSE(
      run_kernel(cpu::kv_append_kernel(),
                 {cache.kc.view(), cache.vc.view(), k.view(), v.view(), seq.view(), pos.view(), cache.table.view()},
                 {cache.kc.view(), cache.vc.view()}, {}, threads));
  EXPECT_FALSE(run_kernel(cpu::attention_paged_kernel(),
                          {q.view(), cache.kc.view(), cache.vc.view(), seq.view(), pos.view(), cache.table.view()},
                          {o.view()}, x.attrs, threads));
  EXPECT_TRUE(o.intact() && cache.kc.intact() && cache.vc.intact());
  return copy_of(o);
}

// Cases that a cache can hold: runs from position 0, one for each sequence.
std::vector<Case> paged_cases() {
  return {
      {"P 64", 9, 3, 64, 0, {{0, 0, 200}}},
      {"P 20, window", 2, 2, 20, 70, {{0, 0, 200}}},
      {"P 1", 1, 1, 1, 0, {{0, 0, 130}}},
      {"P 80, many heads", 12, 1, 80, 0, {{0, 0, 130}}},
      {"window of three", 4, 2, 33, 3, {{0, 0, 70}}},
      {"P 256", 2, 1, 256, 0, {{0, 0, 66}}},
  };
}

TEST(AttentionPaged, prefill_in_pieces_has_the_bits_of_training) {
  for_each_target([] {
    for (const Case& c : paged_cases()) {
      SCOPED_TRACE(c.name);
      Data x(c);
      x.forward(1);
      for (int64_t piece : {1, 7, 64, 1000}) {
        Cache cache(1, 4, c.kv_heads, c.p);
        for (int64_t at = 0; at < c.rows(); at += piece) {
          std::vector<int64_t> rows;
          for (int64_t i = at; i < std::min(at + piece, c.rows()); ++i) rows.push_back(i);
          const auto o = step(cache, x, rows, piece == 7 ? 3 : 1);
          ASSERT_TRUE(same_bits(o.data(), x.o.data() + at * c.heads * c.p, o.size()))
              << "pieces of " << piece << ", row " << at;
        }
      }
    }
  });
}

TEST(AttentionPaged, decoding_among_others_has_the_same_bits) {
  for_each_target([] {
    for (Case c : paged_cases()) {
      SCOPED_TRACE(c.name);
      c.runs = {{2, 0, 70}, {0, 0, 130}, {1, 0, 5}};
      Data x(c);
      x.forward(1);
      Cache cache(3, 3, c.kv_heads, c.p);
      std::vector<int64_t> done(3, 0);
      const int64_t begin[] = {0, 70, 200}, prefill[] = {60, 63, 1}, count[] = {70, 130, 5};
      for (bool first = true;; first = false) {
        std::vector<int64_t> rows;
        for (int s : {1, 0, 2})
          for (int64_t n = first ? prefill[s] : 1; n > 0 && done[s] < count[s]; --n)
            rows.push_back(begin[s] + done[s]++);
        if (rows.empty()) break;
        const auto o = step(cache, x, rows, 2);
        const size_t width = size_t(c.heads * c.p);
        for (size_t i = 0; i < rows.size(); ++i)
          ASSERT_TRUE(same_bits(o.data() + i * width, x.o.data() + size_t(rows[i]) * width, width)) << rows[i];
      }
    }
  });
}

TEST(KvAppend, writes_its_slots_and_nothing_else) {
  const Case c{"", 3, 3, 5, 0, {{1, 62, 4}}};
  Data x(c);
  Cache cache(2, 2, c.kv_heads, c.p);
  step(cache, x, {0, 1, 2, 3}, 2);
  for (int64_t page = 0; page < 5; ++page)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t slot = 0; slot < 64; ++slot)
        for (int64_t p = 0; p < 5; ++p) {
          const float k = cache.kc[((page * 3 + h) * 5 + p) * 64 + slot];
          const float v = cache.vc[((page * 3 + h) * 64 + slot) * 5 + p];
          const int64_t row = page == cache.table[2] ? slot - 62 : page == cache.table[3] ? slot + 2 : -1;
          if (row < 0 || row > 3) {
            ASSERT_TRUE(std::isnan(k) && std::isnan(v));
          } else {
            ASSERT_EQ(k, x.k[(row * 3 + h) * 5 + p]);
            ASSERT_EQ(v, x.v[(row * 3 + h) * 5 + p]);
          }
        }
}

TEST(AttentionPaged, names_bad_rows) {
  const Case c{"", 1, 1, 4, 0, {{0, 0, 3}}};
  const auto errors = [&](int64_t row, int32_t seq, int32_t pos, int32_t page) {
    Data x(c);
    Cache cache(2, 1, 1, 4);
    x.seq[row] = seq, x.pos[row] = pos;
    if (page != 1) cache.table[0] = page;
    const auto a = run_kernel(
        cpu::kv_append_kernel(),
        {cache.kc.view(), cache.vc.view(), x.k.view(), x.v.view(), x.seq.view(), x.pos.view(), cache.table.view()},
        {cache.kc.view(), cache.vc.view()}, {}, 2);
    const auto b =
        run_kernel(cpu::attention_paged_kernel(),
                   {x.q.view(), cache.kc.view(), cache.vc.view(), x.seq.view(), x.pos.view(), cache.table.view()},
                   {x.o.view()}, x.attrs, 2);
    EXPECT_TRUE(x.o.intact() && cache.kc.intact() && cache.vc.intact());
    const auto text = [](const auto& r) {
      return r ? r->what + "|" + std::to_string(r->index) + "|" + std::to_string(r->value) : "";
    };
    return std::vector{text(a), text(b)};
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(errors(0, 0, 0, 1), (Texts{"", ""}));
  EXPECT_EQ(errors(1, 2, 1, 1),
            (Texts{"kv_append: row {} has sequence {}|1|2", "attention_paged: row {} has sequence {}|1|2"}));
  EXPECT_EQ(errors(1, -1, 1, 1),
            (Texts{"kv_append: row {} has sequence {}|1|-1", "attention_paged: row {} has sequence {}|1|-1"}));
  EXPECT_EQ(errors(2, 0, 64, 1),
            (Texts{"kv_append: row {} has position {}|2|64", "attention_paged: row {} has position {}|2|64"}));
  EXPECT_EQ(errors(2, 0, -5, 1),
            (Texts{"kv_append: row {} has position {}|2|-5", "attention_paged: row {} has position {}|2|-5"}));
  EXPECT_EQ(errors(0, 0, 0, 3)[1], "attention_paged: row {} reads page {}|0|3");
  EXPECT_EQ(errors(0, 0, 0, -1)[1], "attention_paged: row {} reads page {}|0|-1");
}

}  // namespace
}  // namespace toy::test
