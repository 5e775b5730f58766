// What a device offers: a list of kernel records. A plan picks one record for each node when it is compiled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/base/threads.h"
#include "toy/ops/attrs/attrs.h"
#include "toy/tensor/shape.h"

namespace toy {

/// First error that a kernel met in its data (an index out of range); kernels do not throw. Reported after the step.
struct KernelError {
  std::atomic<const char*> what{nullptr};  ///< a literal: "row {} has token id {}"
  std::atomic<int64_t> index{0}, value{0};
  std::atomic<bool> input{true};  ///< bad input, or a computation that went wrong
  /// Keeps the first error; any thread may call it.
  void set(const char* text, int64_t i, int64_t v) noexcept {
    const char* expected = nullptr;
    if (what.compare_exchange_strong(expected, text)) index = i, value = v;
  }
};

/// The calling thread: one of `threads` threads that all call the kernel with the same arguments (SPMD). Work is cut
/// into tiles that do not depend on `threads`, each tile is done by one thread, and sums keep one order: results are
/// bit-equal for any number of threads. The executor puts a barrier after every kernel.
struct ExecContext : TeamMember {
  KernelError* error = nullptr;
};

/// Reports a gradient that is not finite where the update cannot be undone. Steps that look at all gradients first skip
/// such an update (its gscale is then not finite).
inline void report_not_finite(const ExecContext& ctx) noexcept {
  if (!ctx.error) return;
  ctx.error->input = false;
  ctx.error->set(
      "training diverged: a gradient is not finite, and part of the weights has been updated with it. Try a "
      "smaller learning rate, or gathered updates, which skip such steps",
      0, 0);
}

/// Operands of one call. An absent optional operand or an unused output has data == nullptr.
struct KernelArgs {
  std::span<const View> in;
  std::span<const View> out;
  const Attrs& attrs;
  std::byte* workspace = nullptr;  ///< 64-byte aligned, shared by all threads, content undefined
};

/// Types and largest shapes of one call, known when the plan is compiled. Absent operands have rank 0 and present =
/// false.
struct OperandDesc {
  bool present = false;
  DType dtype = DType::f32;
  Shape shape;
};
/// What a record is asked about when a plan is compiled.
struct KernelQuery {
  std::span<const OperandDesc> in;
  std::span<const OperandDesc> out;
  const Attrs& attrs;
  int threads = 1;
  DType products = DType::f32;  ///< what the plan lets dense products round their operands to
};

/// What strides an operand may have. Outputs are always contiguous.
enum class Layout {
  contiguous,  ///< row-major without gaps
  rows,        ///< innermost stride 1, the others free
  any,
};

/// Permission to let an output lie where an input lies.
struct InPlace {
  int out, in;  ///< output `out` may lie where input `in` lies
};

struct KernelRecord;

/// A copy of a parameter in the order in which another kernel reads it fastest. That kernel does the same with the same
/// bits.
struct Repacking {
  int operand = 0;  ///< the parameter's place among the kernel's inputs
  /// Bytes of the copy; 0 where it would not pay.
  size_t (*bytes)(DType type, const Shape& shape) noexcept = nullptr;
  const KernelRecord* write = nullptr;  ///< in[0]: the parameter; out[0]: the copy, with the parameter's type and shape
  const KernelRecord* kernel = nullptr;  ///< takes the copy as its operand
};

/// One kernel: the op it computes, the operands it takes, and the function that does it.
struct KernelRecord {
  std::string_view op;
  Layout layout = Layout::contiguous;  ///< of every input
  std::vector<InPlace> in_place = {};
  /// Does this record apply? nullptr: whenever every float operand has the device's compute dtype.
  bool (*accepts)(const KernelQuery&) noexcept = nullptr;
  /// Bytes of workspace; nullptr: none.
  size_t (*workspace)(const KernelQuery&) noexcept = nullptr;
  void (*run)(const ExecContext&, const KernelArgs&) noexcept = nullptr;
  /// A number >= 0 that the device gives to a function of single elements: output 0 is the only one, its element i
  /// depends only on element i of each input (broadcast to its shape), with the same bits at any place.
  /// The planner fuses chains of such ops; the device's kernel for `fused_elementwise` finds the function by the
  /// number.
  int elementwise = -1;
  /// What a plan may use instead (PlanOptions::repack); nullptr: nothing.
  const Repacking* repacking = nullptr;
};

}  // namespace toy
