// The smallest complete transformer that can be checked by hand: plain loops in f64, gradients written out, no graph,
// no other part of toy except its errors and random numbers. Start reading here. It is also an oracle for everything
// else: the graph engine must give the same loss and gradients for the same weights.
//
// Letters: T tokens, D model width, H heads, P = D/H head width, F ffn width, V vocabulary, C context. Matrices are
// row-major and multiply from the right: y = x W with x:[T,I] and W:[I,O].
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace toy::plain {

/// Numbers in rows and columns, row-major.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> data = {};

  Matrix() = default;
  /// All zero.
  Matrix(int64_t r, int64_t c) : rows(r), cols(c), data(size_t(r * c), 0.0) {}
  /// The c-th number of row r follows at [c].
  double* operator[](int64_t r) { return data.data() + r * cols; }
  const double* operator[](int64_t r) const { return data.data() + r * cols; }
};

/// The dimensions of a model.
struct Config {
  int64_t vocab = 256;   ///< V
  int64_t d_model = 32;  ///< D, a multiple of n_heads
  int64_t n_heads = 4;   ///< H
  int64_t n_layers = 2;
  int64_t d_ff = 128;           ///< F
  int64_t context_length = 64;  ///< C
  double eps = 1e-5;            ///< added to the mean square in RMSNorm

  int64_t d_head() const { return d_model / n_heads; }
  /// Throws Error{bad_input} naming the dimension, its value and what would do.
  void validate() const;
};

/// The weights of one block.
struct BlockWeights {
  Matrix attn_norm;       ///< [1,D]
  Matrix wq, wk, wv, wo;  ///< [D,D]; columns h P to (h+1) P of the first three belong to head h
  Matrix ffn_norm;        ///< [1,D]
  Matrix w1, w2;          ///< [D,F], [F,D]
};

/// All weights of a model; gradients have the same shape.
struct Weights {
  Matrix token_embedding;     ///< [V,D], which also maps the last rows to logits
  Matrix position_embedding;  ///< [C,D]
  std::vector<BlockWeights> blocks;
  Matrix final_norm;  ///< [1,D]

  Weights() = default;
  /// All zero. Throws as Config::validate().
  explicit Weights(const Config& config);
  /// Every matrix with its name ("blocks.0.wq"), always in the same order.
  std::vector<std::pair<std::string, Matrix*>> named();
  std::vector<std::pair<std::string, const Matrix*>> named() const;
};

/// A pre-norm transformer (Vaswani et al. 2017; Xiong et al. 2020) with learned positions, RMSNorm (Zhang and Sennrich
/// 2019), a gelu ffn, and an output tied to the token embedding (Press and Wolf 2017).
struct TransformerLM {
  Config config;
  Weights weights;

  /// Random weights: N(0, 1/sqrt(D)) for matrices, 1 for the gains of norms. The same seed gives the same weights.
  /// Throws as Config::validate().
  TransformerLM(const Config& config, uint64_t seed);

  /// Logits after each token: [T,V]. Throws Error{bad_input} unless 1 <= T <= C and every token is in [0, V).
  Matrix logits(std::span<const int32_t> tokens) const;
  /// Cross-entropy of each token after the first, given those before it, averaged over these T-1 predictions; in nats.
  /// Throws Error{bad_input} unless 2 <= T <= C+1 and every token is in [0, V).
  double loss(std::span<const int32_t> tokens) const;
  /// The same, and adds its gradient to `gradients`. Throws Error{bad_input} unless it has the shape of the weights.
  double loss_and_gradients(std::span<const int32_t> tokens, Weights& gradients) const;
  /// `count` tokens that follow the prompt, each drawn from softmax(logits / temperature) after the last C tokens;
  /// temperature 0 or less: always the likeliest. Throws Error{bad_input} for an empty prompt.
  std::vector<int32_t> generate(std::vector<int32_t> prompt, int64_t count, double temperature, uint64_t seed) const;
};

/// exp(x_i / temperature) / sum_j exp(x_j / temperature), computed so that nothing overflows.
std::vector<double> softmax(std::span<const double> x, double temperature = 1);

/// Gradient descent: w <- w - lr g.
struct Sgd {
  double lr = 0.1;
  /// One step. Throws Error{bad_input} unless `gradients` has the shape of `weights`.
  void step(Weights& weights, const Weights& gradients) const;
};

/// Adam (Kingma and Ba 2015).
class Adam {
 public:
  /// Moments of zero for a model of these dimensions.
  Adam(const Config& config, double lr, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8);
  /// One step. Throws Error{bad_input} unless `weights` and `gradients` have the shape of the moments.
  void step(Weights& weights, const Weights& gradients);

 private:
  double lr_, beta1_, beta2_, eps_;
  double power1_ = 1, power2_ = 1;  // beta1^t, beta2^t: one multiplication per step
  Weights m_, v_;
};

}  // namespace toy::plain
