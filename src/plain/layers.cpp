#include "plain/layers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace toy::plain {

// ---- products

Matrix product(const Matrix& x, const Matrix& w) {
  Matrix y(x.rows, w.cols);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < x.cols; ++i)
      for (int64_t o = 0; o < w.cols; ++o) y[t][o] += x[t][i] * w[i][o];
  return y;
}

Matrix product_transposed(const Matrix& x, const Matrix& w) {
  Matrix y(x.rows, w.rows);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < w.rows; ++i)
      for (int64_t o = 0; o < w.cols; ++o) y[t][i] += x[t][o] * w[i][o];
  return y;
}

void add_outer_products(const Matrix& x, const Matrix& dy, Matrix& dw) {
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < x.cols; ++i)
      for (int64_t o = 0; o < dy.cols; ++o) dw[i][o] += x[t][i] * dy[t][o];
}

void add_to(Matrix& a, const Matrix& b) {
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
}

// ---- RMSNorm

Matrix rms_norm(const Matrix& x, const Matrix& gain, double eps, std::vector<double>& rms) {
  Matrix y(x.rows, x.cols);
  rms.resize(size_t(x.rows));
  for (int64_t t = 0; t < x.rows; ++t) {
    double squares = 0;
    for (int64_t k = 0; k < x.cols; ++k) squares += x[t][k] * x[t][k];
    const double r = rms[size_t(t)] = std::sqrt(squares / double(x.cols) + eps);
    for (int64_t k = 0; k < x.cols; ++k) y[t][k] = gain[0][k] * x[t][k] / r;
  }
  return y;
}

// dy_k/dx_k gives dy_k g_k / r; r itself depends on every x_j, which gives -x_k c / r with c = sum_j dy_j g_j x_j / (D
// r^2).
Matrix rms_norm_backward(const Matrix& x, const Matrix& gain, const std::vector<double>& rms, const Matrix& dy,
                         Matrix& dgain) {
  Matrix dx(x.rows, x.cols);
  for (int64_t t = 0; t < x.rows; ++t) {
    const double r = rms[size_t(t)];
    double c = 0;
    for (int64_t j = 0; j < x.cols; ++j) c += dy[t][j] * gain[0][j] * x[t][j];
    c /= double(x.cols) * r * r;
    for (int64_t k = 0; k < x.cols; ++k) {
      dx[t][k] = (dy[t][k] * gain[0][k] - x[t][k] * c) / r;
      dgain[0][k] += dy[t][k] * x[t][k] / r;
    }
  }
  return dx;
}

// ---- attention

std::vector<double> softmax(std::span<const double> x, double temperature) {
  const double top = *std::max_element(x.begin(), x.end());
  std::vector<double> p(x.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp((x[i] - top) / temperature);
  for (double& v : p) v /= sum;
  return p;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads, Matrix& probs) {
  const int64_t T = q.rows, P = q.cols / heads;
  const double scale = 1 / std::sqrt(double(P));
  Matrix out(T, q.cols);
  probs = Matrix(heads * T, T);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t t = 0; t < T; ++t) {
      std::vector<double> scores(size_t(t + 1), 0.0);
      for (int64_t s = 0; s <= t; ++s) {
        for (int64_t p = h * P; p < (h + 1) * P; ++p) scores[size_t(s)] += q[t][p] * k[s][p];
        scores[size_t(s)] *= scale;
      }
      const std::vector<double> row = softmax(scores);
      for (int64_t s = 0; s <= t; ++s) {
        probs[h * T + t][s] = row[size_t(s)];
        for (int64_t p = h * P; p < (h + 1) * P; ++p) out[t][p] += row[size_t(s)] * v[s][p];
      }
    }
  return out;
}

// With a = softmax(s) and o = sum_s a_s v_s: dv_s = a_s do, da_s = do.v_s, and the softmax gives
// ds_s = a_s (da_s - sum_j a_j da_j).
void attention_backward(const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads, const Matrix& probs,
                        const Matrix& dout, Matrix& dq, Matrix& dk, Matrix& dv) {
  const int64_t T = q.rows, P = q.cols / heads;
  const double scale = 1 / std::sqrt(double(P));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t t = 0; t < T; ++t) {
      const double* a = probs[h * T + t];
      std::vector<double> da(size_t(t + 1), 0.0);
      double mean = 0;
      for (int64_t s = 0; s <= t; ++s) {
        for (int64_t p = h * P; p < (h + 1) * P; ++p) da[size_t(s)] += dout[t][p] * v[s][p];
        mean += a[s] * da[size_t(s)];
      }
      for (int64_t s = 0; s <= t; ++s) {
        const double dscore = a[s] * (da[size_t(s)] - mean) * scale;
        for (int64_t p = h * P; p < (h + 1) * P; ++p) {
          dv[s][p] += a[s] * dout[t][p];
          dq[t][p] += dscore * k[s][p];
          dk[s][p] += dscore * q[t][p];
        }
      }
    }
}

// ---- gelu

static const double kSqrt2OverPi = std::sqrt(2 / std::numbers::pi);
static constexpr double kCubic = 0.044715;

Matrix gelu(const Matrix& x) {
  Matrix y(x.rows, x.cols);
  for (size_t i = 0; i < x.data.size(); ++i) {
    const double v = x.data[i];
    y.data[i] = 0.5 * v * (1 + std::tanh(kSqrt2OverPi * (v + kCubic * v * v * v)));
  }
  return y;
}

// y = x/2 (1 + th) with th = tanh(a): y' = (1 + th)/2 + x/2 (1 - th^2) a'.
Matrix gelu_backward(const Matrix& x, const Matrix& dy) {
  Matrix dx(x.rows, x.cols);
  for (size_t i = 0; i < x.data.size(); ++i) {
    const double v = x.data[i], th = std::tanh(kSqrt2OverPi * (v + kCubic * v * v * v));
    const double slope = kSqrt2OverPi * (1 + 3 * kCubic * v * v);
    dx.data[i] = dy.data[i] * 0.5 * (1 + th + v * (1 - th * th) * slope);
  }
  return dx;
}

// ---- loss

double cross_entropy(const Matrix& logits, std::span<const int32_t> targets, Matrix* dlogits) {
  constexpr double kFloor = 1e-300;  // a probability that underflowed to 0 costs 691 nats, not infinitely many
  if (dlogits) *dlogits = Matrix(logits.rows, logits.cols);
  double loss = 0;
  for (int64_t t = 0; t < logits.rows; ++t) {
    const std::vector<double> p = softmax({logits[t], size_t(logits.cols)});
    const int64_t target = targets[size_t(t)];
    loss -= std::log(std::max(p[size_t(target)], kFloor)) / double(logits.rows);
    if (!dlogits) continue;
    for (int64_t v = 0; v < logits.cols; ++v)
      (*dlogits)[t][v] = (p[size_t(v)] - (v == target ? 1 : 0)) / double(logits.rows);
  }
  return loss;
}

}  // namespace toy::plain
