// What Highway's headers ask its library for: the instruction sets of this processor, and the one in use. The library
// itself measures its timers when it is loaded, which made every start of the program 3 ms longer.
// The same sets as src/backend/cpu/simd_targets.h; with -march=native on a new processor clang 14 needs them, too.
#define HWY_WANT_SSSE3 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {
namespace {

#if HWY_ARCH_X86
// Bit of ecx, which clang 14's __builtin_cpu_supports does not know.
bool has_bit(unsigned leaf, unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(leaf, &a, &b, &c, &d) && (c & bit) != 0;
}

// A set that Highway uses contains those before it. The builtins also ask whether the system saves the registers.
int64_t sets_of_machine() {
  if (!__builtin_cpu_supports("ssse3")) return 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && has_bit(1, bit_F16C) && has_bit(0x80000001, bit_LZCNT);
  if (!avx2) return HWY_SSSE3;
  const bool avx3 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return HWY_SSSE3 | HWY_AVX2 | (avx3 ? HWY_AVX3 : 0);
}
#else
int64_t sets_of_machine() { return HWY_STATIC_TARGET; }
#endif

std::atomic<int64_t>& chosen_by_test() {
  static std::atomic<int64_t> sets{0};
  return sets;
}

}  // namespace

int64_t SupportedTargets() {
  const int64_t sets = chosen_by_test();
  return sets != 0 ? sets : sets_of_machine();
}

void SetSupportedTargetsForTest(int64_t targets) { chosen_by_test() = targets; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
