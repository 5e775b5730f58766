// Each piece of the model: what it computes, and right below what comes back. A gradient dX has the shape of X; what
// flows on to the inputs is returned, what belongs to weights is added to.
#pragma once

#include <span>

#include "toy/plain/transformer_lm.h"

namespace toy::plain {

/// x w. x:[T,I] w:[I,O] -> [T,O].
Matrix product(const Matrix& x, const Matrix& w);
/// x w^T. x:[T,O] w:[I,O] -> [T,I]: logits from embeddings, and the gradient of product() for x.
Matrix product_transposed(const Matrix& x, const Matrix& w);
/// dw += x^T dy. x:[T,I] dy:[T,O] dw:[I,O]: the gradient of product() for w.
void add_outer_products(const Matrix& x, const Matrix& dy, Matrix& dw);
/// a += b.
void add_to(Matrix& a, const Matrix& b);

/// y_k = g_k x_k / r for each row, r = sqrt(mean(x^2) + eps). Leaves the r of each row in `rms`.
Matrix rms_norm(const Matrix& x, const Matrix& gain, double eps, std::vector<double>& rms);
Matrix rms_norm_backward(const Matrix& x, const Matrix& gain, const std::vector<double>& rms, const Matrix& dy,
                         Matrix& dgain);

/// Causal attention of `heads` heads: row t sees rows 0 to t. q,k,v:[T,D] -> [T,D]. Leaves the weight that row t of
/// head h gives to row s in probs[h T + t][s].
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads, Matrix& probs);
void attention_backward(const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads, const Matrix& probs,
                        const Matrix& dout, Matrix& dq, Matrix& dk, Matrix& dv);

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) for each element (Hendrycks and Gimpel 2016).
Matrix gelu(const Matrix& x);
Matrix gelu_backward(const Matrix& x, const Matrix& dy);

/// Mean over the rows of -log softmax(logits)[target]. Unless it is nullptr, dlogits becomes its gradient.
double cross_entropy(const Matrix& logits, std::span<const int32_t> targets, Matrix* dlogits);

}  // namespace toy::plain
