// No op without a suite, no kernel without an op.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/harness.h"
#include "toy/backend/fused.h"
#include "toy/ops/ops.h"

namespace toy::test::coverage_test {
namespace {

TEST(Coverage, EveryOpHasASuite) {
  for (const OpDef* op : all_ops()) {
    const auto tests_it = [&](const OpSuite* s) { return s->op == op->name() && !s->cases.empty(); };
    EXPECT_TRUE(std::any_of(all_suites().begin(), all_suites().end(), tests_it)) << op->name();
  }
}

TEST(Coverage, EveryKernelIsAnOp) {
  for (Device* device : {&reference_device(), &cpu_device(1)})
    for (const KernelRecord& k : device->kernels())
      EXPECT_TRUE(k.op == "copy" || k.op == kFusedElementwise || k.op == kLinearGradWAdamW || find_op(k.op))
          << device->name() << " has a kernel " << k.op;  // the first three: the planner's own
}

TEST(Coverage, EveryOpRunsOnEveryDevice) {
  for (const OpDef* op : all_ops())
    for (Device* device : {&reference_device(), &cpu_device(1)}) {
      const auto runs_it = [&](const KernelRecord& k) { return k.op == op->name(); };
      const auto kernels = device->kernels();
      EXPECT_TRUE(op->view || op->decompose || std::any_of(kernels.begin(), kernels.end(), runs_it))
          << device->name() << ": " << op->name();
    }
}

TEST(Coverage, OpsHaveDistinctNames) {
  for (const OpDef* op : all_ops()) EXPECT_EQ(find_op(op->name()), op) << op->name();
  EXPECT_EQ(find_op("rms_norms"), nullptr);
}

}  // namespace
}  // namespace toy::test::coverage_test
