// Finds the first step of a run that makes a value that is not finite.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/runtime/plan.h"

namespace toy {

/// Elements of a view that are not finite.
struct NonFinite {
  int64_t count = 0;   ///< NaN and infinities
  int64_t nans = 0;    ///< of these
  int64_t first = -1;  ///< row-major index of the first of them
};

/// i32 values are always finite.
NonFinite find_non_finite(const View& v) noexcept;

/// Watches the steps of one run: before() and after() look at the operands of each.
///
/// A NaN is always wrong. An infinity is wrong unless a float operand of the step held one already (masks are handed
/// on), or the step has no float operands (`attention_mask` and `fill` may be meant to make them). In a parameter that
/// a step updates in place only what was finite before counts: pages of a cache that nobody holds may hold anything.
class FiniteWatch {
 public:
  /// The operands, which the kernel may overwrite.
  void before(const PlanStep& step, std::span<const HostTensor> in);
  /// "" or what is wrong: "blk.3: log (forward): output 0 f32[2,4] holds 3 values that are not finite (2 NaN), the
  /// first is -inf at [0,1]".
  std::string after(const PlanStep& step, std::span<const HostTensor> out) const;

 private:
  bool infinite_operand_ = false, float_operand_ = false;
  std::vector<NonFinite> in_;
};

}  // namespace toy
