// The states of a recurrence, token by token: the gated delta rule in plain f64 loops (see gated_delta_rule in
// toy/ops/ops.h) on the operands that the op was given.
#include <cmath>

#include "look/parts.h"

namespace toy::looking {
namespace {

StateHead run_head(const RuleTap& tap, int64_t head, int64_t tokens) {
  const int64_t P = tap.width, V = tap.value_width, H = tap.heads, K = tap.key_heads;
  const int64_t key = tap.attrs.heads == HeadMap::tile ? head % K : head / (H / K);
  const bool by_channel = int64_t(tap.gate.size()) == tokens * H * P && int64_t(tap.gate.size()) != tokens * H;
  std::vector<double> s(size_t(P * V), 0), wrote(static_cast<size_t>(V));
  StateHead out;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *k = tap.k.data() + (t * K + key) * P, *v = tap.v.data() + (t * H + head) * V;
    const double beta = tap.beta[size_t(t * H + head)];
    double kept = 0;
    for (int64_t p = 0; p < P; ++p) {
      const double decay =
          std::exp(double(by_channel ? tap.gate[size_t((t * H + head) * P + p)] : tap.gate[size_t(t * H + head)]));
      kept += decay / double(P);
      for (int64_t j = 0; j < V; ++j) s[size_t(p * V + j)] *= decay;
    }
    double written = 0, norm = 0;
    for (int64_t j = 0; j < V; ++j) {
      double predicted = 0;
      for (int64_t p = 0; tap.attrs.delta && p < P; ++p) predicted += s[size_t(p * V + j)] * double(k[p]);
      wrote[size_t(j)] = beta * (double(v[j]) - predicted);
      written += wrote[size_t(j)] * wrote[size_t(j)];
    }
    for (int64_t p = 0; p < P; ++p)
      for (int64_t j = 0; j < V; ++j) {
        double& x = s[size_t(p * V + j)];
        x += double(k[p]) * wrote[size_t(j)];
        norm += x * x;
      }
    out.decay.push_back(kept), out.strength.push_back(beta);
    out.written.push_back(std::sqrt(written)), out.norm.push_back(std::sqrt(norm));
  }
  return out;
}

}  // namespace

std::vector<StateHead> run_rule(const RuleTap& tap, int64_t tokens, ThreadPool& team) {
  std::vector<StateHead> heads(static_cast<size_t>(tap.heads));
  team.run([&](int thread) {
    const Range mine = part(tap.heads, thread, team.size());
    for (int64_t h = mine.begin; h < mine.end; ++h) heads[size_t(h)] = run_head(tap, h, tokens);
  });
  return heads;
}

}  // namespace toy::looking
