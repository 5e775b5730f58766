// What a device offers: a list of kernel records. A plan picks one record for each node when it is compiled.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "toy/ops/attrs/attrs.h"
#include "toy/tensor/shape.h"

namespace toy {

/// The function of a kernel, of a signature that only its device knows: HostKernel on the cpu and the reference.
class KernelCode {
 public:
  KernelCode() = default;
  /// The code `function`; its signature is remembered.
  template <class... Args>
  KernelCode(void (*function)(Args...) noexcept)
      : function_(reinterpret_cast<void (*)()>(function)), signature_(&kSignature<void(Args...) noexcept>) {}
  /// The function, or nullptr where it has another signature than F.
  template <class F>
  F* as() const {
    return signature_ == &kSignature<F> ? reinterpret_cast<F*>(function_) : nullptr;
  }
  explicit operator bool() const { return function_ != nullptr; }
  bool operator==(const KernelCode&) const = default;

 private:
  template <class F>
  static inline char kSignature = 0;  // its address stands for F
  void (*function_)() = nullptr;
  const char* signature_ = nullptr;
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

/// One kernel: the op it computes, the operands it takes, and the code that its device runs.
struct KernelRecord {
  std::string_view op;
  Layout layout = Layout::contiguous;  ///< of every input
  std::vector<InPlace> in_place = {};
  /// Outputs that it also writes in bf16, rounded from the compute dtype, each by itself: what only dense products read
  /// that take it in bf16 (PlanOptions::products) need not be stored otherwise.
  std::vector<int> rounds = {};
  /// Does this record apply? nullptr: whenever every float operand has the device's compute dtype, or is one of
  /// `rounds`.
  bool (*accepts)(const KernelQuery&) noexcept = nullptr;
  /// Bytes of workspace; nullptr: none.
  size_t (*workspace)(const KernelQuery&) noexcept = nullptr;
  /// Of two calls with the same operand 0: does the first leave in the workspace what the second begins with there,
  /// such as rounded rows? Then a plan may give both the same workspace, which the second finds prepared and leaves so
  /// for a third. nullptr: never.
  bool (*prepares)(const KernelQuery& first, const KernelQuery& second) noexcept = nullptr;
  KernelCode code = {};
  /// A number >= 0 that the device gives to a function of single elements: output 0 is the only one, its element i
  /// depends only on element i of each input (broadcast to its shape), with the same bits at any place.
  /// The planner fuses chains of such ops; the device's kernel for `fused_elementwise` finds the function by the
  /// number.
  int elementwise = -1;
  /// What a plan may use instead (PlanOptions::repack); nullptr: nothing.
  const Repacking* repacking = nullptr;
};

}  // namespace toy
