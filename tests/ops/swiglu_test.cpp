// silu(gate) up: exp's 2u, two roundings of the quotient, one product. Its gradient: dup likewise; dgate = dy
// up s (1 + gate (1 - s)), where the bracket may cancel, so its error scales with 1 + |gate|.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"

namespace toy::test::swiglu_test {
namespace {

const OpSuite kSwiglu{.op = "swiglu",
                      .cases = {{"gate:[1] up:[1]"},
                                {"gate:[3,31] up:[3,31]"},
                                {"gate:[5,4]@(1,0) up:[4,5]"},
                                {"gate:[40]=range(-20,20) up:[40]"},
                                {"gate:[67,130] up:[67,130]"}},
                      .bad = {{"gate:[3,4] up:[4,3]", "swiglu: up has leading dimensions [4,3], gate has [3,4]"}},
                      .bound = relative(6),
                      .rows = {"gate", "up"}};

std::vector<double> grad_bound(const Run& r, int o) {
  std::vector<double> bound = r.out(o);
  if (o == 1) {
    for (double& v : bound) v = 6 * std::fabs(v);
    return bound;
  }
  const std::vector<double> gate = r.in(0), up = r.in(1), dy = r.in(2);
  for (size_t i = 0; i < bound.size(); ++i)
    bound[i] = 12 * std::fabs(dy[i] * up[i]) / (1 + std::exp(-gate[i])) * (1 + std::fabs(gate[i]));
  return bound;
}

const OpSuite kSwigluGrad{
    .op = "swiglu_grad",
    .cases = {{"gate:[1] up:[1] dy:[1]"},
              {"gate:[3,31] up:[3,31] dy:[3,31]"},
              {"gate:[5,4]@(1,0) up:[4,5] dy:[4,5]"},
              {"gate:[40]=range(-20,20) up:[40] dy:[40]"},
              {"gate:[67,130] up:[67,130] dy:[67,130]"}},
    .bad = {{"gate:[3] up:[3] dy:[4]", "swiglu_grad: dy has leading dimensions [4], gate has [3]"}},
    .bound = grad_bound,
    .rows = {"gate", "up", "dy"}};

const bool kDone = register_suite(kSwiglu) && register_suite(kSwigluGrad);

}  // namespace
}  // namespace toy::test::swiglu_test
