#include "toy/plain/transformer_lm.h"

#include <algorithm>
#include <cmath>

#include "plain/layers.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy::plain {
namespace {

// What backward needs to know of one block's forward, all [T,D] unless it is said.
struct BlockCache {
  Matrix x;           // the block's input
  Matrix h, q, k, v;  // h = norm(x)
  Matrix probs;       // [H T,T]
  Matrix mixed;       // attention's output, before wo
  Matrix x2, h2;      // behind attention's residual; h2 = norm(x2)
  Matrix up, act;     // [T,F]: h2 w1 and its gelu
  std::vector<double> rms, rms2;
};
struct Cache {
  std::vector<BlockCache> blocks;
  Matrix x, h;  // [T,D] the last block's output; h = norm(x)
  std::vector<double> rms;
};

void check_tokens(const Config& c, std::span<const int32_t> tokens) {
  for (size_t t = 0; t < tokens.size(); ++t)
    check(tokens[t] >= 0 && tokens[t] < c.vocab, "token {} is {}, the vocabulary is 0 to {}", t, tokens[t],
          c.vocab - 1);
}

// x + attention(norm(x)), then that + ffn(norm(that)).
Matrix block_forward(const Config& c, const BlockWeights& w, Matrix x, BlockCache& m) {
  m.x = x;
  m.h = rms_norm(x, w.attn_norm, c.eps, m.rms);
  m.q = product(m.h, w.wq);
  m.k = product(m.h, w.wk);
  m.v = product(m.h, w.wv);
  m.mixed = attention(m.q, m.k, m.v, c.n_heads, m.probs);
  add_to(x, product(m.mixed, w.wo));

  m.x2 = x;
  m.h2 = rms_norm(x, w.ffn_norm, c.eps, m.rms2);
  m.up = product(m.h2, w.w1);
  m.act = gelu(m.up);
  add_to(x, product(m.act, w.w2));
  return x;
}

// The same from its end to its beginning. dx is the gradient of the block's output and becomes that of its input: a
// residual passes it on as it is, and the branch adds its own.
Matrix block_backward(const Config& c, const BlockWeights& w, const BlockCache& m, Matrix dx, BlockWeights& g) {
  add_outer_products(m.act, dx, g.w2);
  const Matrix dup = gelu_backward(m.up, product_transposed(dx, w.w2));
  add_outer_products(m.h2, dup, g.w1);
  add_to(dx, rms_norm_backward(m.x2, w.ffn_norm, m.rms2, product_transposed(dup, w.w1), g.ffn_norm));

  add_outer_products(m.mixed, dx, g.wo);
  const Matrix dmixed = product_transposed(dx, w.wo);
  Matrix dq(dx.rows, dx.cols), dk = dq, dv = dq;
  attention_backward(m.q, m.k, m.v, c.n_heads, m.probs, dmixed, dq, dk, dv);
  add_outer_products(m.h, dq, g.wq);
  add_outer_products(m.h, dk, g.wk);
  add_outer_products(m.h, dv, g.wv);
  Matrix dh = product_transposed(dq, w.wq);
  add_to(dh, product_transposed(dk, w.wk));
  add_to(dh, product_transposed(dv, w.wv));
  add_to(dx, rms_norm_backward(m.x, w.attn_norm, m.rms, dh, g.attn_norm));
  return dx;
}

// tokens:[T] -> logits [T,V].
Matrix forward(const TransformerLM& lm, std::span<const int32_t> tokens, Cache& cache) {
  const Weights& w = lm.weights;
  Matrix x(int64_t(tokens.size()), lm.config.d_model);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t d = 0; d < x.cols; ++d) x[t][d] = w.token_embedding[tokens[size_t(t)]][d] + w.position_embedding[t][d];
  cache.blocks.resize(w.blocks.size());
  for (size_t i = 0; i < w.blocks.size(); ++i) x = block_forward(lm.config, w.blocks[i], std::move(x), cache.blocks[i]);
  cache.h = rms_norm(x, w.final_norm, lm.config.eps, cache.rms);
  cache.x = std::move(x);
  return product_transposed(cache.h, w.token_embedding);
}

void backward(const TransformerLM& lm, std::span<const int32_t> tokens, const Cache& cache, const Matrix& dlogits,
              Weights& g) {
  const Weights& w = lm.weights;
  add_outer_products(dlogits, cache.h, g.token_embedding);  // as the output; below as the input
  Matrix dx = rms_norm_backward(cache.x, w.final_norm, cache.rms, product(dlogits, w.token_embedding), g.final_norm);
  for (size_t i = w.blocks.size(); i-- > 0;)
    dx = block_backward(lm.config, w.blocks[i], cache.blocks[i], std::move(dx), g.blocks[i]);
  for (int64_t t = 0; t < dx.rows; ++t)
    for (int64_t d = 0; d < dx.cols; ++d) {
      g.token_embedding[tokens[size_t(t)]][d] += dx[t][d];
      g.position_embedding[t][d] += dx[t][d];
    }
}

// Loops go by the shapes of the weights; what they reach into beside them must have the same.
void check_shapes(const char* what, const Weights& like, const Weights& weights) {
  const auto a = like.named(), w = weights.named();
  check(a.size() == w.size(), "{}: {} matrices, the weights have {}; make them of the same Config", what, a.size(),
        w.size());
  for (size_t n = 0; n < w.size(); ++n) {
    const Matrix &mine = *a[n].second, &theirs = *w[n].second;
    check(mine.rows == theirs.rows && mine.cols == theirs.cols, "{}: {} is [{},{}], in the weights [{},{}]", what,
          w[n].first, mine.rows, mine.cols, theirs.rows, theirs.cols);
  }
}

// The loss of tokens[1..] given those before them.
double predict(const TransformerLM& lm, std::span<const int32_t> tokens, Weights* gradients) {
  const int64_t T = int64_t(tokens.size()), C = lm.config.context_length;
  check(T >= 2 && T <= C + 1, "there are {} tokens, expected 2 to {} (the context and one to predict)", T, C + 1);
  check_tokens(lm.config, tokens);
  if (gradients) check_shapes("gradients", *gradients, lm.weights);
  const auto inputs = tokens.first(tokens.size() - 1), targets = tokens.subspan(1);
  Cache cache;
  const Matrix logits = forward(lm, inputs, cache);
  Matrix dlogits;
  const double loss = cross_entropy(logits, targets, gradients ? &dlogits : nullptr);
  if (gradients) backward(lm, inputs, cache, dlogits, *gradients);
  return loss;
}

// Weights or const Weights.
template <class W, class M>
std::vector<std::pair<std::string, M*>> list(W& w) {
  std::vector<std::pair<std::string, M*>> all{{"token_embedding", &w.token_embedding},
                                              {"position_embedding", &w.position_embedding}};
  for (size_t i = 0; i < w.blocks.size(); ++i) {
    const std::string name = "blocks." + std::to_string(i) + ".";
    auto& b = w.blocks[i];
    all.insert(all.end(), {{name + "attn_norm", &b.attn_norm},
                           {name + "wq", &b.wq},
                           {name + "wk", &b.wk},
                           {name + "wv", &b.wv},
                           {name + "wo", &b.wo},
                           {name + "ffn_norm", &b.ffn_norm},
                           {name + "w1", &b.w1},
                           {name + "w2", &b.w2}});
  }
  all.push_back({"final_norm", &w.final_norm});
  return all;
}

}  // namespace

void Config::validate() const {
  const std::pair<const char*, int64_t> dimensions[] = {{"vocab", vocab},     {"d_model", d_model},
                                                        {"n_heads", n_heads}, {"n_layers", n_layers},
                                                        {"d_ff", d_ff},       {"context_length", context_length}};
  for (const auto& [name, value] : dimensions) check(value >= 1, "{} is {}, expected 1 or more", name, value);
  check(d_model % n_heads == 0, "d_model is {}, expected a multiple of n_heads, {}", d_model, n_heads);
  check(eps > 0 && std::isfinite(eps), "eps is {}, expected a number above 0", eps);
}

Weights::Weights(const Config& c) {
  c.validate();
  const int64_t D = c.d_model, F = c.d_ff;
  token_embedding = Matrix(c.vocab, D);
  position_embedding = Matrix(c.context_length, D);
  const Matrix gain(1, D), square(D, D);
  blocks.assign(size_t(c.n_layers), {.attn_norm = gain,
                                     .wq = square,
                                     .wk = square,
                                     .wv = square,
                                     .wo = square,
                                     .ffn_norm = gain,
                                     .w1 = Matrix(D, F),
                                     .w2 = Matrix(F, D)});
  final_norm = gain;
}

std::vector<std::pair<std::string, Matrix*>> Weights::named() { return list<Weights, Matrix>(*this); }
std::vector<std::pair<std::string, const Matrix*>> Weights::named() const {
  return list<const Weights, const Matrix>(*this);
}

TransformerLM::TransformerLM(const Config& c, uint64_t seed) : config(c), weights(c) {
  for (const auto& [name, m] : weights.named()) {
    const Philox random(seed, name);
    const bool gain = name.ends_with("norm");
    for (size_t i = 0; i < m->data.size(); ++i)
      m->data[i] = gain ? 1 : random.normal(i) / std::sqrt(double(config.d_model));
  }
}

Matrix TransformerLM::logits(std::span<const int32_t> tokens) const {
  check(!tokens.empty() && int64_t(tokens.size()) <= config.context_length,
        "there are {} tokens, expected 1 to {} (the context)", tokens.size(), config.context_length);
  check_tokens(config, tokens);
  Cache cache;
  return forward(*this, tokens, cache);
}

double TransformerLM::loss(std::span<const int32_t> tokens) const { return predict(*this, tokens, nullptr); }

double TransformerLM::loss_and_gradients(std::span<const int32_t> tokens, Weights& gradients) const {
  return predict(*this, tokens, &gradients);
}

std::vector<int32_t> TransformerLM::generate(std::vector<int32_t> tokens, int64_t count, double temperature,
                                             uint64_t seed) const {
  check(!tokens.empty(), "the prompt is empty; give it one token at least");
  check(!std::isnan(temperature), "temperature is not a number");
  const size_t begin = tokens.size();
  const Philox random(seed, "generate");
  for (int64_t i = 0; i < count; ++i) {
    const size_t window = std::min(tokens.size(), size_t(config.context_length));
    const Matrix all = logits(std::span(tokens).last(window));
    const std::span<const double> last(all[all.rows - 1], size_t(all.cols));
    int32_t next = int32_t(std::max_element(last.begin(), last.end()) - last.begin());
    if (temperature > 0) {
      const std::vector<double> p = softmax(last, temperature);
      double left = random.uniform(uint64_t(i));
      for (size_t v = 0; v < p.size() && left >= 0; ++v) {  // rounding may leave a rest: then the likeliest stays
        left -= p[v];
        if (left < 0) next = int32_t(v);
      }
    }
    tokens.push_back(next);
  }
  return {tokens.begin() + int64_t(begin), tokens.end()};
}

void Sgd::step(Weights& weights, const Weights& gradients) const {
  check_shapes("gradients", gradients, weights);
  const auto w = weights.named();
  const auto g = gradients.named();
  for (size_t n = 0; n < w.size(); ++n)
    for (size_t i = 0; i < w[n].second->data.size(); ++i) w[n].second->data[i] -= lr * g[n].second->data[i];
}

Adam::Adam(const Config& config, double lr, double beta1, double beta2, double eps)
    : lr_(lr), beta1_(beta1), beta2_(beta2), eps_(eps), m_(config), v_(config) {}

// m and v are running means of g and g^2 that begin at 0; dividing by 1 - beta^t undoes the beginning.
void Adam::step(Weights& weights, const Weights& gradients) {
  check_shapes("gradients", gradients, weights);
  check_shapes("moments", m_, weights);
  power1_ *= beta1_;
  power2_ *= beta2_;
  const auto all_w = weights.named(), all_m = m_.named(), all_v = v_.named();
  const auto all_g = gradients.named();
  for (size_t n = 0; n < all_w.size(); ++n)
    for (size_t i = 0; i < all_w[n].second->data.size(); ++i) {
      double &w = all_w[n].second->data[i], &m = all_m[n].second->data[i], &v = all_v[n].second->data[i];
      const double g = all_g[n].second->data[i];
      m = beta1_ * m + (1 - beta1_) * g;
      v = beta2_ * v + (1 - beta2_) * g * g;
      w -= lr_ * (m / (1 - power1_)) / (std::sqrt(v / (1 - power2_)) + eps_);
    }
}

}  // namespace toy::plain
