#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::accumulate_test {
namespace {

// src/backend/cpu/optimizer/accumulate.cpp: one rounding.
std::vector<double> bound(const Run& r, int o) {
  std::vector<double> b = r.out(o);
  for (double& v : b) v = std::fabs(v);
  return b;
}

const OpSuite kAccumulate{.op = "accumulate",
                          .cases = {{"acc:[1] x:[1]"}, {"acc:[3,31] x:[3,31]"}, {"acc:[67,131] x:[67,131]"}},
                          .bad = {{"acc:[3] x:[4]", "accumulate: x has leading dimensions [4], acc has [3]"}},
                          .bound = bound};
const bool kDone = register_suite(kAccumulate);

}  // namespace
}  // namespace toy::test::accumulate_test
