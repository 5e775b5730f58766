// Attention of the cpu device against plain f64 loops with derived bounds, and its promises on bits.
#include "backend/attention_data.h"

namespace toy::test::attention_test {
namespace {

constexpr double kU = 0x1p-24;

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

}  // namespace
}  // namespace toy::test::attention_test
