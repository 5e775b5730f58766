// A device that lacks kernels: what it can run, and what it says of the rest.
#include <gtest/gtest.h>

#include "backend/forwarding_device.h"
#include "testing/errors.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "train_testing.h"

namespace toy::few_kernels_test {
namespace {

using testing::error_of;
using testing::gpt2_spec;
using testing::losses;
using testing::odd_spec;

// Without the kernels of `missing`; without a list, of every op that has a decomposition.
class FewKernels final : public ForwardingDevice {
 public:
  explicit FewKernels(Device& whole, std::string_view missing = "") : ForwardingDevice(whole) {
    for (const KernelRecord& k : whole.kernels()) {
      const OpDef* op = find_op(k.op);
      const bool replaceable = op && op->decompose && !op->updates_in_place();
      if (missing.empty() ? replaceable : k.op == missing)
        ++left_out;
      else
        kernels_.push_back(k);
    }
  }
  std::span<const KernelRecord> kernels() const override { return kernels_; }
  int left_out = 0;

 private:
  std::vector<KernelRecord> kernels_;
};

TEST(FewKernels, StepsRunOnDecompositionsAlone) {
  for (const ModelSpec& spec : {odd_spec(true), gpt2_spec()}) {
    SCOPED_TRACE(spec.name);
    const auto whole = make_reference_device();
    FewKernels few(*whole);
    EXPECT_GE(few.left_out, 10);
    const auto run = [&](Device& device) {
      Model model = random_model(spec, device, 9);
      return losses(device, model, 3);
    };
    Model model = random_model(spec, few, 9);
    Trainer trainer(few, model, {.batch = 1, .tokens = 8});
    EXPECT_GE(trainer.session().plan().notes.size(), 5u);  // "rms_norm: no kernel on ..., running its decomposition"
    const auto expected = run(*whole), found = run(few);
    // Sums in f64 differ in their last bits, so a loss, which is f32, is the same or the number next to it.
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0x1p-23 * expected[i]) << i;
  }
}

// A kernel that cannot be replaced is named before anything runs.
TEST(FewKernels, AMissingOptimizerIsNamed) {
  const auto whole = make_reference_device();
  FewKernels few(*whole, "adamw");
  Model model = random_model(odd_spec(true), few, 9);
  const std::string error = error_of([&] { Trainer(few, model, {.batch = 1, .tokens = 8}); });
  EXPECT_NE(error.find("adamw"), std::string::npos) << error;
  EXPECT_NE(error.find("no kernel"), std::string::npos) << error;
}

}  // namespace
}  // namespace toy::few_kernels_test
