// Every op as a function on values. Dimension letters: N rows of a batch, D model width, H query heads, K kv heads,
// P head width, F ffn width, V vocabulary, I/O columns/rows of a weight, C positions, S sequence slots, G pages a slot.
//
// Ops check shapes and dtypes when they are called and throw toy::Error{bad_input} naming op, expectation and actual.
#pragma once

#include <span>
#include <vector>

#include "toy/graph/autodiff.h"
#include "toy/graph/graph.h"
#include "toy/ops/attrs/structs.h"

namespace toy {

// ---- elementwise, with numpy broadcasting of both operands
/// @{
/// One op on pairs of elements.
Value add(Value a, Value b);
Value sub(Value a, Value b);
Value mul(Value a, Value b);
Value div(Value a, Value b);
inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return sub(a, b); }
inline Value operator*(Value a, Value b) { return mul(a, b); }
inline Value operator/(Value a, Value b) { return div(a, b); }
/// The same with a number, which takes the dtype of the value: 1.0 - x * 2.0. Products are scale().
Value operator+(Value x, double y);
Value operator+(double x, Value y);
Value operator-(Value x, double y);
Value operator-(double x, Value y);
Value operator*(Value x, double y);
Value operator*(double x, Value y);
Value operator/(Value x, double y);
Value operator/(double x, Value y);
/// The larger, the smaller of two; NaN if either is. Equal operands: the gradient goes to a.
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
/// i32 1 where a > b (a = b), else 0; 0 where either is NaN. For where().
Value greater(Value a, Value b);
Value equal(Value a, Value b);
/// a where cond is not 0, else b. cond: i32; all three broadcast.
Value where(Value cond, Value a, Value b);
/// @}
/// @{
/// One function of each element.
Value neg(Value x);
inline Value operator-(Value x) { return neg(x); }
/// The gradient at 0 is 0.
Value abs(Value x);
/// -1, 0 or 1; its gradient is 0.
Value sign(Value x);
/// x^2.
Value sqr(Value x);
Value exp(Value x);
Value log(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value sin(Value x);
Value cos(Value x);
Value tanh(Value x);
/// 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Value erf(Value x);
Value sigmoid(Value x);
/// log(1 + e^x).
Value softplus(Value x);
/// max(x, 0); the gradient at 0 is 0.
Value relu(Value x);
/// @}
/// x sigmoid(x).
Value silu(Value x);
/// x Phi(x) with the normal distribution Phi (Hendrycks and Gimpel 2016), exactly.
Value gelu_erf(Value x);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): their approximation, which GPT-2 uses.
Value gelu_tanh(Value x);
/// factor x, with a factor known when the graph is built.
Value scale(Value x, double factor);
/// cap tanh(x / cap): nearly x where it is small, and never beyond the cap (Gemma 2). With a cap of 0, x itself.
Value softcapped(Value x, double cap);
/// x limited to [lo, hi]. The gradient is 1 in [lo, hi] and 0 outside.
Value clamp(Value x, float lo, float hi);

// ---- shape
/// The same elements in another shape. A first dimension of -1 keeps the input's first dimension (run-time rows).
Value reshape(Value x, const Shape& shape);
/// Output dimension i is input dimension order[i].
Value permute(Value x, const Shape& order);
/// Elements [begin, begin+count) of an axis.
Value slice(Value x, int axis, int64_t begin, int64_t count);
/// Joins along an axis; all other dimensions agree.
Value concat(std::span<const Value> xs, int axis);
/// Repeats dimensions of size 1 (and adds leading ones) up to `shape`.
Value broadcast_to(Value x, const Shape& shape);
/// `before` and `after` elements of one value around an axis.
Value pad(Value x, int axis, int64_t before, int64_t after, double value = 0);
/// Repeats an axis as a sequence, [a,b] to [a,b,a,b]: numpy's tile along one axis.
Value repeat(Value x, int axis, int64_t times);
/// Rounds to another dtype.
Value cast(Value x, DType to);
/// A tensor of one value.
Value fill(Graph& g, const Shape& shape, double value);

// ---- reductions
/// Sum over one axis, which stays with size 1.
Value sum(Value x, int axis);
/// sum() divided by the number of elements.
Value mean(Value x, int axis);
/// The largest element of an axis, which stays with size 1; NaN if one is there. The gradient goes to the first of the
/// largest.
Value max(Value x, int axis);
/// Sums of all elements up to each one along an axis; reverse: from each one on.
Value cumsum(Value x, int axis, bool reverse = false);
/// Sum of all elements: [].
Value sum_all(Value x);
/// Sums the dimensions that broadcasting had repeated: the gradient of broadcasting.
Value sum_to(Value x, const TensorType& like);
/// exp(x) / sum exp(x) over the last dimension.
Value softmax(Value x);

// ---- products
/// a:[..,M,K] b:[..,K,N] -> [..,M,N]; each may be given transposed. Leading dimensions broadcast.
Value matmul(Value a, Value b, MatmulAttrs attrs = {});
/// y = x w^T + bias + acc. x:[N,I] w:[O,I] bias?:[O] acc?:[N,O] -> [N,O].
Value linear(Value x, Value w, Value bias = {}, Value acc = {});
/// dx = acc + dy w. dy:[N,O] w:[O,I] acc?:[N,I] -> [N,I].
Value linear_grad_x(Value dy, Value w, Value acc = {});
/// dw = acc + dy^T x. dy:[N,O] x:[N,I] acc?:[O,I] -> [O,I].
Value linear_grad_w(Value dy, Value x, Value acc = {});
/// y = acc + scale factor (x a^T) b^T, row by row: rows whose factor is 0 cost nothing. No gradient. x:[N,I] a:[R,I]
/// b:[O,R] acc:[N,O] factor:[N] -> [N,O].
Value low_rank(Value x, Value a, Value b, Value acc, Value factor, double scale);

// ---- mixtures of experts
/// What top_k returns: values in decreasing order, equal ones by index, and where they were. Both [N,k].
struct TopK {
  Value values, ids;
};
/// The k largest elements of each row x:[N,E]; NaN counts as smallest. The gradient goes where the values were found.
TopK top_k(Value x, int64_t k);
/// y_nu = w[ids_nu] x_n: each row mapped by the experts that it was routed to. x:[N,1,I], or [N,U,I] where each expert
/// has a row of its own; w:[E,O,I] ids:i32[N,U] -> [N,U,O].
Value expert_linear(Value x, Value w, Value ids);

// ---- rows of a table
/// table:[V,D] ids:i32[N] -> [N,D]. Also picks rows of activations.
Value embedding(Value table, Value ids);
/// acc[ids[i]] += dy[i], rows of one id in order of i. dy:[N,D] ids:i32[N] acc!:[V,D] -> [V,D].
Value embedding_grad(Value dy, Value ids, Value acc);
/// ids:i32[...] -> [...,classes]; a negative id gives a row of zeros.
Value one_hot(Value ids, int64_t classes);

// ---- transformer primitives
/// y = w x / sqrt(mean(x^2) + eps) over the last dimension (Zhang and Sennrich 2019). x:[*,D] w:[D].
Value rms_norm(Value x, Value w, float eps);
/// y = w (x - mean(x)) / sqrt(var(x) + eps) + b over the last dimension (Ba et al. 2016); the variance is the mean of
/// squares. x:[*,D] w:[D] b?:[D].
Value layer_norm(Value x, Value w, Value b, float eps);
/// y = x / sqrt(sum(x^2) + eps) over the last dimension. x:[*,D].
Value l2_norm(Value x, float eps);
/// Rotary positions (Su et al. 2021). x:[N,H,P] pos:i32[N] table:[C,Q,2] (cos, sin); the first 2Q of P rotate.
Value rope(Value x, Value pos, Value table, RopeAttrs attrs = {});
/// The product of each head with the Hadamard matrix of its width (Sylvester's, orthonormal), its own inverse: it keeps
/// products of heads, and spreads an outlier over all elements. Where the width is no power of two, blocks of the
/// largest one that divides it. x:[N,H,P].
Value hadamard(Value x);
/// silu(gate) * up (Shazeer 2020).
Value swiglu(Value gate, Value up);
/// gelu(gate) * up (Shazeer 2020).
Value geglu(Value gate, Value up, GeluKind kind);
/// g sigmoid(1.702 g) (u + 1), g being gate up to 7 and u up within -7 and 7 (gpt-oss).
Value swiglu_oai(Value gate, Value up);
/// Sets random elements to 0 while training. `random`: i32[3], the low and the high half of a seed, and the step: which
/// elements it drops depends only on these, the stream and the element's index. With p = 0, x itself.
Value dropout(Value x, Value random, DropoutAttrs attrs);
/// Attention over the rows of a batch. q:[N,H,P] k,v:[N,K,P] seq,pos:i32[N] -> [N,H,P]; query head h uses kv head h
/// K/H. Rows of one sequence are consecutive, their positions increase by one. A row sees keys of its sequence up to
/// its own position, or before position `until`:i32[N] where that is later: tokens of an encoder see all of their text.
/// With `alibi` positions count by their distance.
Value attention(Value q, Value k, Value v, Value seq, Value pos, AttentionAttrs attrs, Value until = {});
/// log(sum_j exp(s_j)) of the scores that made o, which attention() or attention_paged() returned: [N,H].
Value attention_lse(Value o);
/// 0 where row i may see row j, -inf elsewhere: [N,N]. The meaning of attention's mask.
Value attention_mask(Value seq, Value pos, int64_t window, Value until = {});

/// Pages of keys and values. kc:[pages,K,P,64] (transposed) vc:[pages,K,64,P].
struct KvPages {
  Value k, v;
};
/// Writes rows into their pages: row i goes to page table[seq_i][pos_i / 64], slot pos_i % 64. k,v:[N,K,P]
/// table:i32[S,G]. q:[N,H,P], only for pages of q8_0: the rows' queries, whose products with the keys are to change
/// least when these are rounded; without them, each element becomes the nearest level.
KvPages kv_append(KvPages pages, Value k, Value v, Value seq, Value pos, Value table, Value q = {});
/// attention() against the pages: row i sees positions 0..pos_i of its sequence. Without `alibi`.
Value attention_paged(Value q, KvPages pages, Value seq, Value pos, Value table, AttentionAttrs attrs);

/// Depthwise causal convolution over the rows of each sequence: y_t = b + sum_i w_i x_(t-W+1+i), a filter for each
/// channel, whose last column meets the row itself. x:[N,C] w:[C,W] b?:[C] seq,pos:i32[N] -> [N,C]. Rows of one
/// sequence are consecutive, their positions increase by one. What lies before a run of rows is in `tail`:[S,W-1,C]
/// (oldest first, by sequence), or nothing where there is none; nothing lies before position 0. W may be as large as
/// the sequence is long: the cost is 2 W per element.
Value causal_conv(Value x, Value w, Value b, Value tail, Value seq, Value pos);
/// The tail after these rows: the last M inputs of each of their sequences. tail!:[S,M,C] x:[N,C].
Value conv_append(Value tail, Value x, Value seq, Value pos);

/// What gated_delta_rule returns.
struct DeltaRule {
  Value o;  ///< [N,H,V]
  Value s;  ///< the states after the rows: [S,H,P,V]
};
/// The gated delta rule over the rows of each sequence (Yang et al. 2024). Each value head has a state S:[P,V], a map
/// from keys to values. A row forgets some of it, corrects what it predicts for the key k, and reads it with q:
///   S <- exp(g) S;   S <- S + beta k (v - S^T k)^T;   o = S^T q
/// q,k:[N,K,P] v:[N,H,V] beta:[N,H], g:[N,H] or [N,H,P] (a decay for each channel of the key: Kimi Delta Attention).
/// g is at most 0; -inf clears the state. Keys should have length 1 (l2_norm) and beta should be between 0 and 2, or
/// the state may grow without bound. q is used as it is: scale it by 1/sqrt(P) where the model does. `attrs` says which
/// key head a value head uses, and whether there is a correction at all: without the delta, S <- S + beta k v^T (gated
/// linear attention, Yang et al. 2023).
///
/// seq,pos:i32[N]. Rows of one sequence are consecutive, their positions increase by one. A run of rows that begins at
/// position 0 starts from zeros; another starts from the state of its sequence in s:[S,H,P,V], or from zeros where
/// there is no s. The result has the state after the last row of each sequence, and those of sequences without rows as
/// they were; without s it has none (S=0). A row's bits do not depend on how its sequence was cut into calls.
DeltaRule gated_delta_rule(Value q, Value k, Value v, Value g, Value beta, Value s, Value seq, Value pos,
                           DeltaRuleAttrs attrs = {});
/// The same on states that live from call to call and are updated in place. It has no gradient.
DeltaRule gated_delta_rule_update(Value s, Value q, Value k, Value v, Value g, Value beta, Value seq, Value pos,
                                  DeltaRuleAttrs attrs = {});
/// The selective state space of Mamba-2 (Dao and Gu 2024): each head has a state S:[P,V] and one decay per row,
///   S <- exp(dt a) S + dt b x^T;   y = S^T c
/// x:[N,H,V] dt:[N,H], after its softplus, a:[H], negative, b,c:[N,G,P]; head h uses b and c of group h G/H. The result
/// is (y, the states after the rows). It is gated_delta_rule(c, b, x, dt a, dt) without the delta, with the same rows
/// and states [S,H,P,V]. The skip d x is left to the caller.
DeltaRule ssm_scan(Value x, Value dt, Value a, Value b, Value c, Value s, Value seq, Value pos);
/// The same on states that are updated in place. It has no gradient.
DeltaRule ssm_scan_update(Value s, Value x, Value dt, Value a, Value b, Value c, Value seq, Value pos);

// ---- loss
/// x, through which no gradient flows.
Value stop_gradient(Value x);
/// What linear_xent returns.
struct CrossEntropy {
  Value loss;  ///< [] = sum_i weight_i nll_i
  Value nll;   ///< [N] -log softmax(logits)_i[target_i], logits = softcapped(x w^T)
};
/// Output projection and cross-entropy in one, so the logits [N,V] are never held at once.
/// x:[N,D] w:[V,D] targets:i32[N] (negative: no target) weight:[N]. z:[N,R] and b:[V,R] may be absent; z b^T is added
/// to x w^T.
CrossEntropy linear_xent(Value x, Value w, Value targets, Value weight, LinearXentAttrs attrs = {}, Value z = {},
                         Value b = {});

// ---- sums over several runs
/// acc + x, which acc becomes.
Value accumulate(Value acc, Value x);

// ---- optimizer
/// A parameter and its moments, all of one shape.
struct AdamWState {
  Value w, m, v;
};
/// One step of AdamW (Loshchilov and Hutter 2019); bias1 = 1-beta1^t, bias2 = 1-beta2^t. gscale?: [] multiplies g; when
/// it is not finite nothing changes.
AdamWState adamw(AdamWState state, Value g, Value lr, Value bias1, Value bias2, Value gscale, AdamWAttrs attrs);
/// A parameter and its velocity.
struct SgdState {
  Value w, v;  ///< without momentum there is no velocity v
};
/// One step of gradient descent: g' = gscale g + weight_decay w; v' = momentum v + g' (Polyak 1964); w' = w - lr v',
/// with nesterov w - lr (g' + momentum v'), without momentum w - lr g'. gscale?: as for adamw.
SgdState sgd(SgdState state, Value g, Value lr, Value gscale, SgdAttrs attrs);
/// A parameter and AdamW's moments in 8 bits. For n elements there are B = code_blocks(n) blocks: m, v: i32[B,64], the
/// codes of 256 elements, four in an i32; m_scale, v_scale: [B], the largest magnitude of the block.
struct AdamW8State {
  Value w, m, m_scale, v, v_scale;
};
/// adamw() with moments in 8 bits (Dettmers et al. 2021): decoded, used in full precision, and rounded to the dynamic
/// code when they are stored (toy/backend/dynamic_code.h). A second moment above 0 is not rounded to 0.
AdamW8State adamw8(AdamW8State state, Value g, Value lr, Value bias1, Value bias2, Value gscale, AdamWAttrs attrs);
/// A parameter and its moment.
struct LionState {
  Value w, m;
};
/// One step of Lion (Chen et al. 2023, algorithm 2): w' = w - lr (sign(beta1 m + (1-beta1) g) + weight_decay w);
/// m' = beta2 m + (1-beta2) g. gscale?: as for adamw.
LionState lion(LionState state, Value g, Value lr, Value gscale, LionAttrs attrs);
/// A parameter and its second moment: of a matrix w:[R,C] the means of its rows [R] and columns [C]; of any other shape
/// that of each element, in `row`.
struct AdafactorState {
  Value w, row, col;
};
/// One step of Adafactor (Shazeer and Stern 2018, algorithms 4 and 5, in the form of torch.optim.Adafactor): the second
/// moments come nearer to g^2 by `mix` []; u = g / max(sqrt(v), eps), with v = row col / mean(row) for a matrix;
/// w' = w (1 - lr weight_decay) - lr u / max(1, rms(u) / clip). gscale?: as for adamw.
AdafactorState adafactor(AdafactorState state, Value g, Value lr, Value mix, Value gscale, AdafactorAttrs attrs);
/// A velocity and the direction of a step.
struct Momentum {
  Value v, step;
};
/// v' = momentum v + gscale g; step = v', with nesterov gscale g + momentum v'. gscale?: where it is not finite v stays
/// and the step is 0.
Momentum momentum(Value v, Value g, Value gscale, MomentumAttrs attrs);
/// x:[..,R,C] near an orthogonal matrix with the same singular vectors: five steps of X <- a X + (b A + c A^2) X, A = X
/// X^T, from x / |x|, on the shorter side (the Newton-Schulz iteration of Jordan et al. 2024, "Muon"): singular values
/// come to 0.7 to 1.2.
Value orthogonalized(Value x);
/// avg + mix (w - avg): an exponential average, mix:[]. gscale?: where it is not finite nothing changes.
Value ema(Value avg, Value w, Value mix, Value gscale);
/// sqrt of the sum of squares over all tensors: [].
Value global_norm(std::span<const Value> gs);
/// min(1, limit / norm): []; not finite when the norm is not.
Value clip_scale(Value norm, Value limit);

// ---- gradients
/// d(loss)/d(w) for each w; `again`: nodes whose results are recomputed instead of kept. See
/// toy/graph/autodiff.h.
std::vector<Value> gradients(Value loss, std::span<const Value> wrt, const std::vector<bool>& again = {});

/// All ops of this build, for documentation and tests.
std::span<const OpDef* const> all_ops();
/// nullptr if there is none of this name.
const OpDef* find_op(std::string_view name);

}  // namespace toy
