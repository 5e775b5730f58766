// The example of docs/language-model-in-ten-minutes.md, computed as the page says it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Pair = std::array<double, 2>;
constexpr const char* kTokens[] = {"the", "cat", "sat", "."};
constexpr Pair kEmbedding[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}}, kOutput[] = {{0, -2}, {2, 0}, {0, 2}, {-2, 0}};

double dot(const Pair& a, const Pair& b) { return a[0] * b[0] + a[1] * b[1]; }

std::vector<double> softmax(std::vector<double> x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  for (double& v : x) v /= sum;
  return x;
}

// Three decimals at most, with the page's minus sign.
std::string number(double v) {
  std::string text = fmt::format("{:g}", std::round(std::fabs(v) * 1000) / 1000);
  return (v < -0.0005 ? "−" : "") + text;
}

TEST(TenMinutes, NumbersOfTheExample) {
  std::ifstream file(std::string(TOY_SOURCE_DIR) + "/docs/language-model-in-ten-minutes.md");
  std::stringstream page;
  page << file.rdbuf();
  const auto says = [&](const std::string& text) {
    EXPECT_NE(page.str().find(text), std::string::npos) << "the page does not say: " << text;
  };
  double total = 0;
  std::string before;
  for (size_t t = 0; t < 3; ++t) {
    std::vector<double> scores, logits;
    for (size_t j = 0; j <= t; ++j) scores.push_back(dot(kEmbedding[t], kEmbedding[j]) / std::sqrt(2.0));
    const std::vector<double> weights = softmax(scores);
    Pair x = kEmbedding[t];
    for (size_t j = 0; j <= t; ++j)
      for (size_t k = 0; k < 2; ++k) x[k] += weights[j] * kEmbedding[j][k];
    for (const Pair& out : kOutput) logits.push_back(dot(x, out));
    const double p = softmax(logits)[t + 1], loss = -std::log(p);
    total += loss;
    std::vector<std::string> shares;
    for (const double w : weights) shares.push_back(number(w));
    before += (t ? " " : "") + std::string(kTokens[t]);
    says(fmt::format("| `{}` | {} | ({}, {}) | `{}` {:.4f} | {:.4f} |", before, fmt::join(shares, ", "), number(x[0]),
                     number(x[1]), kTokens[t + 1], p, loss));
    if (t != 1) continue;
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    says(fmt::format("`the` −{:.2f}, `cat` {:.2f}, `sat` {:.2f}, `.` −{:.2f}", -logits[0], logits[1], logits[2],
                     -logits[3]));
    says(fmt::format("exp gives {:.3f}, {:.3f}, {:.3f} and {:.3f}, in all {:.2f}", std::exp(logits[0]),
                     std::exp(logits[1]), std::exp(logits[2]), std::exp(logits[3]), sum));
  }
  const double mean = total / 3;
  says(fmt::format("{:.4f} nats per token, or {:.3f} bits, and the perplexity is exp {:.4f} = {:.3f}", mean,
                   mean / std::log(2.0), mean, std::exp(mean)));
  says(fmt::format("ln 4 = {:.3f}", std::log(4.0)));
  says(fmt::format("ln 512 = {:.2f}", std::log(512.0)));
}

}  // namespace
