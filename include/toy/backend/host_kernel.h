// Kernels that threads of the host run: what KernelRecord::code is on the cpu and the reference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "toy/backend/kernel.h"
#include "toy/backend/kernel_fault.h"
#include "toy/base/threads.h"

namespace toy {

/// The first fault that kernels found in their data.
struct KernelError {
  std::atomic<KernelFault> fault{KernelFault::none};
  std::string_view op;
  int64_t index = 0, value = 0;
  /// Keeps the first fault; any thread may call it.
  void set(KernelFault found, std::string_view where, int64_t i, int64_t v) noexcept {
    KernelFault expected = KernelFault::none;
    if (fault.compare_exchange_strong(expected, found)) op = where, index = i, value = v;
  }
};

/// The calling thread: one of `threads` threads that all call the kernel with the same arguments (SPMD). Work is cut
/// into tiles that do not depend on `threads`, each tile is done by one thread, and sums keep one order: results are
/// bit-equal for any number of threads. The executor puts a barrier after every kernel.
struct ExecContext : TeamMember {
  KernelError* error = nullptr;
  std::string_view op;  ///< of the kernel's record

  /// Tells the host what is wrong with element `index`; the kernel carries on without it.
  void report(KernelFault fault, int64_t index = 0, int64_t value = 0) const noexcept {
    if (error) error->set(fault, op, index, value);
  }
};

/// Operands of one call. An absent optional operand or an unused output has data == nullptr.
struct KernelArgs {
  std::span<const View> in;
  std::span<const View> out;
  const Attrs& attrs;
  std::byte* workspace = nullptr;  ///< 64-byte aligned, shared by all threads; undefined content unless `prepared`
  bool prepared = false;           ///< it is what a call left before, on as many threads (KernelRecord::prepares)
};

/// The signature of every kernel of the host.
using HostKernel = void(const ExecContext&, const KernelArgs&) noexcept;

}  // namespace toy
