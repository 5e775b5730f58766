// Gradients of the gated delta rule.
#include <gtest/gtest.h>

#include "ops/gated_delta_data.h"
#include "toy/ops/ops.h"

namespace toy::test::gated_delta_rule_grad_test {
namespace {

std::vector<Case> grad_cases() {
  std::vector<Case> cases;
  for (const auto& [c, attrs] : delta_cases()) cases.push_back({c.backward(), attrs});
  const DeltaCase c{2, 3, 4, 5, 2, "3@4,2@0"};
  cases.push_back({c.backward(true, false), kTile});
  cases.push_back({c.backward(false, true), kTile});
  cases.push_back({c.backward(true, false), kPlainTile});
  cases.push_back({c.backward(false, true), kPlainTile});
  return cases;
}

const OpSuite kGrad{.op = "gated_delta_rule_grad",
                    .cases = grad_cases(),
                    .bad = {{DeltaCase{2, 4, 3, 4, 1, "4@0"}.backward(),
                             "gated_delta_rule_grad: H=3 value heads are not a multiple of K=2 key heads", kInterleave},
                            {"q:[4,1,2] k:[4,1,2] v:[4,2,3] g:[4,2,3] beta:[4,2] s0:none do:[4,2,3] ds:none "
                             "seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
                             "gated_delta_rule_grad: g is [4,2,3], expected [4,2] or [4,2,2]", kInterleave}},
                    .bound = by_sensitivity(),
                    .rows = {"q", "k", "v", "g", "beta", "do", "seq", "pos"},
                    .row_wise = false,
                    .prepare = normalize_keys};

const bool kDone = register_suite(kGrad);

const std::vector<std::string> kNames{"dq", "dk", "dv", "dg", "dbeta", "ds0"};

Results run(const DeltaCase& c, const DeltaRuleAttrs& attrs, Device& device) {
  return Program(build_op(*find_op(kGrad.op), operands_of(kGrad, {c.backward(), attrs}), attrs), device).run();
}

double largest(const std::vector<double>& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::fabs(x));
  return most;
}

// Gates from none to a reset and keys that are all the same: within the suite's bound.
TEST(GatedDeltaRuleGrad, GatesAndKeysOfAllKinds) {
  for (const DeltaRuleAttrs& attrs : {kInterleave, kPlain})
    for (const DeltaCase& c : extreme_cases()) expect_within_bound(kGrad, {c.backward(), attrs});
}

// Many rows, wide heads: error relative to the largest element of each gradient. Terms are random, and each is within
// the chains of max(P, V) that lead to it.
TEST(GatedDeltaRuleGrad, ManyRowsAndWideHeads) {
  for (const int rows : {1, 2, 31, 32, 33, 100, 257, 530})
    for (const bool vector_gate : {false, true})
      for (const char* gate : {"range(-0.2,0)", "const(-1e-4)", "range(-30,0)"})
        for (const DeltaRuleAttrs& attrs : {kTile, kPlainTile}) {
          const DeltaCase c{
              2, 40, 4, 70, 2, std::to_string(rows) + "@0," + std::to_string(rows / 2 + 1) + "@5", vector_gate, gate};
          const Results expected = run(c, attrs, reference_device()), actual = run(c, attrs, cpu_device(2));
          for (size_t o = 0; o < 6; ++o)
            expect_close(actual[o], expected[o],
                         std::vector<double>(expected[o].size(), double(c.values) * 0x1p-24 * largest(expected[o])),
                         kNames[o] + " of " + c.backward());
        }
}

// Strong decays leave a small gradient of the gate, which no difference of large numbers may hide: relative to itself.
TEST(GatedDeltaRuleGrad, GradientsOfStrongDecaysKeepTheirPrecision) {
  for (const bool vector_gate : {false, true})
    for (const DeltaRuleAttrs& attrs : {kInterleave, kPlain}) {
      const DeltaCase c{1, 24, 2, 32, 1, "40@3", vector_gate, "const(-20)"};
      const Results expected = run(c, attrs, reference_device()), actual = run(c, attrs, cpu_device(2));
      EXPECT_LT(largest(expected[3]), 1e-7);
      EXPECT_GT(largest(expected[3]), 1e-10);
      expect_close(actual[3], expected[3], std::vector<double>(expected[3].size(), 64 * 0x1p-24 * largest(expected[3])),
                   "dg");
    }
}

// What holds for any size and needs no second implementation (q.dq = o.do over the heads of a key head; the state is
// linear in the initial one, so the first gate's gradient is ds0.s0).
void expect_invariants(const DeltaRuleAttrs& attrs) {
  const DeltaCase c{2, 64, 4, 48, 1, "300@1", false, "range(-0.3,0)"};
  const auto operands = operands_of(kGrad, {c.backward(), attrs});
  const Results grad = run(c, attrs, cpu_device(2));
  std::vector<OperandData> forward(operands.begin(), operands.begin() + 6);
  forward.insert(forward.end(), operands.end() - 2, operands.end());
  const Results y = Program(build_op(*find_op("gated_delta_rule"), forward, attrs), cpu_device(2)).run();
  const auto dots = [](const std::vector<double>& a, const std::vector<double>& b, size_t width, size_t at, double& sum,
                       double& size) {
    for (size_t i = at * width; i < (at + 1) * width; ++i) sum += a[i] * b[i], size += std::fabs(a[i] * b[i]);
  };
  for (size_t n = 0; n < 300; ++n)
    for (size_t key = 0; key < 2; ++key) {
      double left = 0, right = 0, size = 0;
      dots(operands[0].values, grad[0], 64, n * 2 + key, left, size);
      for (size_t h = key; h < 4; h += 2) dots(y[0], operands[6].values, 48, n * 4 + h, right, size);
      EXPECT_NEAR(left, right, 64 * 0x1p-24 * size) << n << " " << key;
    }
  for (size_t h = 0; h < 4; ++h) {
    double sum = 0, size = 0;
    dots(operands[5].values, grad[5], 64 * 48, h, sum, size);
    EXPECT_NEAR(grad[3][h], sum, 64 * 0x1p-24 * size) << h;
  }
}
TEST(GatedDeltaRuleGrad, Invariants) { expect_invariants(kTile); }
TEST(GatedDeltaRuleGrad, InvariantsWithoutTheDelta) { expect_invariants(kPlainTile); }

// Documents packed into one batch, each a sequence of its own, against each of them alone: equal bits.
TEST(GatedDeltaRuleGrad, PackedDocumentsEqualUnpackedOnes) {
  for (const auto& [vector_gate, attrs] : {std::pair(false, kInterleave), {true, kInterleave}, {false, kPlain}}) {
    const DeltaCase packed{2, 8, 4, 20, 0, "37@0,1@0,290@0,16@0", vector_gate};
    const auto operands = operands_of(kGrad, {packed.backward(), attrs});
    const Results together = run(packed, attrs, cpu_device(2));
    int64_t at = 0;
    for (const int n : {37, 1, 290, 16}) {
      DeltaCase alone = packed;
      alone.runs = std::to_string(n) + "@0";
      auto own = parse_operands(alone.backward());
      const auto part = [&](const std::vector<double>& v) {
        const int64_t width = int64_t(v.size()) / packed.rows();
        return std::vector<double>(v.begin() + at * width, v.begin() + (at + n) * width);
      };
      for (size_t i = 0; i < own.size(); ++i)
        if (!own[i].absent && own[i].dtype == DType::f32) own[i].values = part(operands[i].values);
      const Results y = Program(build_op(*find_op(kGrad.op), own, attrs), cpu_device(2)).run();
      for (size_t o = 0; o < 5; ++o) expect_same(y[o], part(together[o]), kNames[o]);
      at += n;
    }
  }
}

}  // namespace
}  // namespace toy::test::gated_delta_rule_grad_test
