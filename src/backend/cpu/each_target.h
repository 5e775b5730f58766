// Compiles a file once for each instruction set of simd_targets.h:
//
//     #define TOY_TARGET_FILE "backend/cpu/optimizer/adamw.cpp"
//     #include "backend/cpu/each_target.h"
//
// What <hwy/foreach_target.h> does, but Highway's operations are parsed for all of them before (highway.h), which takes
// longer than most kernels. Code for every instruction set is in namespace HWY_NAMESPACE; what follows `#if HWY_ONCE`
// is compiled once. A header with such code is guarded by TOY_TARGET_TOGGLE. One such file per translation unit: a
// second one in a unity build would be compiled for the static target only, so it is refused. Hence no #pragma once.
#if defined(TOY_EACH_TARGET_DONE)
#error "each_target.h: a second file in one translation unit; compile each by itself"
#elif !defined(TOY_EACH_TARGET_BEGUN)  // else the file includes itself, from below
#define TOY_EACH_TARGET_BEGUN
#include "backend/cpu/highway.h"

#undef HWY_ONCE
#define HWY_ONCE 0

#if (HWY_TARGETS & HWY_AVX2) && HWY_STATIC_TARGET != HWY_AVX2
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#include <hwy/ops/set_macros-inl.h>
#include TOY_TARGET_FILE
#define TOY_TARGET_TOGGLE
#endif

#if (HWY_TARGETS & HWY_AVX3) && HWY_STATIC_TARGET != HWY_AVX3
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include <hwy/ops/set_macros-inl.h>
#include TOY_TARGET_FILE
#ifdef TOY_TARGET_TOGGLE
#undef TOY_TARGET_TOGGLE
#else
#define TOY_TARGET_TOGGLE
#endif
#endif

// The static target last: the file itself goes on with it.
#undef HWY_TARGET
#define HWY_TARGET HWY_STATIC_TARGET
#include <hwy/ops/set_macros-inl.h>
#undef HWY_ONCE
#define HWY_ONCE 1
#define TOY_EACH_TARGET_DONE

#include "toy/backend/host_kernel.h"

namespace toy::cpu {
namespace {

// KernelRecord::code for HWY_EXPORT(f): best_of<HWY_DISPATCH_TABLE(f)> calls f for the best instruction set.
template <const auto& table>
void best_of(const ExecContext& ctx, const KernelArgs& args) noexcept {
  table[std::size(table) == 1 ? 0 : hwy::GetChosenTarget().GetIndex()](ctx, args);
}

}  // namespace
}  // namespace toy::cpu
#endif
