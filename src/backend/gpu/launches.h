// What the records of GPUs fill: the launches of a program.
#pragma once

#include <utility>
#include <vector>

#include "backend/gpu/driver.h"
#include "toy/backend/kernel_fault.h"

namespace toy::gpu {

using int64 = int64_t;
#include "backend/gpu/kernels/arguments.h"

/// The launches of one call after another.
class Launches {
 public:
  /// `fault`: Faults::address(). The driver must outlive this.
  Launches(const Driver& driver, void* fault) : driver_(driver), fault_(fault) {}
  /// Groups without an item are left out.
  void add(Kernel kernel, Groups groups, std::vector<Arg> args) {
    if (groups.x > 0 && groups.y > 0 && groups.z > 0) list_.push_back({kernel, groups, std::move(args)});
  }
  /// Without an element it is left out. K > 0.
  void add(const LibraryProduct& p) {
    if (p.M > 0 && p.N > 0) list_.push_back({Kernel::product, {}, {}, p});
  }
  /// A kernel of many tensors over those, which must be in reach of each other. `args`: up to the table. `of_call`:
  /// Launch::of_call.
  void over(Kernel kernel, std::vector<Arg> args, std::vector<OneTensor> tensors, size_t of_call = 0) {
    int groups = 0;
    for (const OneTensor& t : tensors) groups += t.groups;
    if (groups > 0) list_.push_back({kernel, {groups}, std::move(args), {}, std::move(tensors), of_call});
  }
  bool reaches(const void* given, const void* other) const { return driver_.reaches(given, other); }
  /// The first two parameters of a kernel that may REPORT(): where, and which call.
  Arg fault() const { return fault_; }
  Arg call() const { return call_; }
  /// What follows belongs to the call with that number.
  void begin(int32_t call) { call_ = call; }
  const std::vector<Launch>& list() const { return list_; }

 private:
  const Driver& driver_;
  std::vector<Launch> list_;
  void* fault_;
  int32_t call_ = 0;
};

/// What KernelRecord::code is on a GPU: from shapes, attributes and addresses to launches. It never looks at a value,
/// so it runs once for a program, not once for a run.
using Code = void(Launches& to, const KernelCall& call) noexcept;

/// Kernels that take several of something have a slot of arguments for each, which fused() fills. This adds `slots` of
/// them, of which the first is filled.
inline void add_slots(std::vector<Arg>& args, const std::vector<Arg>& slot, size_t slots) {
  args.insert(args.end(), slot.begin(), slot.end());
  for (size_t i = 1; i < slots; ++i)
    for (const Arg& a : slot) args.push_back(a.cleared());
}
inline constexpr size_t kProductsOfFew = 3;  ///< slots of Kernel::product_few

/// Blocks of `size` that n have.
inline int blocks(int64_t n, int64_t size) { return int((n + size - 1) / size); }
/// Rows of a tensor: all dimensions but the last.
inline int64_t rows_of(const View& v) {
  int64_t n = 1;
  for (int i = 0; i + 1 < v.shape.rank(); ++i) n *= v.shape[i];
  return n;
}
/// The number that kernels know a type of weights by; -1: they do not know it.
int weight_type(DType type);
/// The type of an output that may be f32 or bf16 (KernelRecord::rounds).
inline int out_type(const KernelCall& c, size_t i) { return weight_type(c.out[i].dtype); }
/// An operand's address; null where it is absent.
inline Arg in(const KernelCall& c, size_t i) { return i < c.in.size() ? c.in[i].data : nullptr; }
inline Arg out(const KernelCall& c, size_t i) { return i < c.out.size() ? c.out[i].data : nullptr; }

}  // namespace toy::gpu
