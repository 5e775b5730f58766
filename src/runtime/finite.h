// Finds the first step of a run that makes a value that is not finite.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/base/threads.h"
#include "toy/runtime/plan.h"

namespace toy {

/// Elements of a view that are not finite.
struct NonFinite {
  int64_t count = 0;   ///< NaN and infinities
  int64_t nans = 0;    ///< of these
  int64_t first = -1;  ///< row-major index of the first of them
};

/// Looks at elements [range) of a view, in row-major order. i32 values are always finite.
NonFinite find_non_finite(const View& v, Range range) noexcept;

/// Watches the steps of one run. Every thread of the team calls before() and after() around each kernel, with a barrier
/// between them, and wrong() behind one more.
///
/// A NaN is always wrong. An infinity is wrong unless a float operand of the step held one already (masks are handed
/// on), or the step has no float operands (`attention_mask` and `fill` may be meant to make them). In a parameter that
/// a step updates in place only what was finite before counts: pages of a cache that nobody holds may hold anything.
class FiniteWatch {
 public:
  /// `plan` must outlive the watch.
  FiniteWatch(const Plan& plan, int threads);

  /// Looks at the operands, which the kernel may overwrite.
  void before(int thread, size_t step, std::span<const View> in) noexcept;
  void after(int thread, size_t step, std::span<const View> out) noexcept;
  /// Is there anything wrong with the step? The same answer on every thread.
  bool wrong(int thread, size_t step) noexcept;

  /// After a run that ended early: "blk.3: log (forward): y f32[2,4] holds 3 values that are not finite (2 of them
  /// NaN), the first is -inf at [0,1]".
  std::string text(const Plan& plan, std::span<const View> out) const;

 private:
  struct Part {
    bool infinite_operand = false, float_operand = false;
    std::vector<NonFinite> in, out;
    std::vector<const void*> at;  // where the operands lie
  };
  // What each thread found. Two sets in turn: a slow thread may still read those of a step while others write the
  // next step's.
  Part& part(int thread, size_t step) { return parts_[size_t(thread) * 2 + step % 2]; }
  const Plan& plan_;
  std::vector<Part> parts_;
  int threads_;
  size_t step_ = 0, output_ = 0;
  NonFinite bad_;
};

}  // namespace toy
