// Runs kernel records of the cpu device without a graph: arrays with guarded ends, a workspace with guarded
// ends, a team of any size, every instruction set that this machine has.
//
// A test that uses for_each_target() includes "backend/cpu/simd_targets.h" and <hwy/highway.h> by way of this
// header.
#pragma once

#include "backend/cpu/simd_targets.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "testing/guarded.h"
#include "toy/backend/host_kernel.h"
#include "toy/base/threads.h"
#include "toy/tensor/dtype.h"
#include "toy/tensor/shape.h"

namespace toy::test {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, F16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BF16>)
    return DType::bf16;
  else
    return DType::i32;
}

template <class T>
T from_float(float v) {
  if constexpr (std::is_same_v<T, F16>)
    return to_f16(v);
  else if constexpr (std::is_same_v<T, BF16>)
    return to_bf16(v);
  else
    return T(v);
}

/// An owned contiguous operand, 64-byte aligned, between guard pages. Zeroed.
template <class T>
class Array {
 public:
  explicit Array(const Shape& shape)
      : shape_(shape), memory_(std::make_unique<Guarded>(size_t(shape.count()) * sizeof(T))) {}
  T* data() { return reinterpret_cast<T*>(memory_->data()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_->data()); }
  size_t size() const { return size_t(shape_.count()); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  View view() { return View(data(), dtype_of<T>(), shape_); }
  /// The first rows of it: a smaller first dimension than the plan was made for.
  View first_rows(int64_t rows) {
    Shape s = shape_;
    s[0] = rows;
    return View(data(), dtype_of<T>(), s);
  }
  /// No write hit the bytes before or after.
  bool intact() const { return memory_->intact(); }

 private:
  Shape shape_;
  std::unique_ptr<Guarded> memory_;
};

/// Numbers in (-1, 1), the same on every machine.
template <class T>
void fill_random(Array<T>& a, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 12345;
  for (size_t i = 0; i < a.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    a[i] = from_float<T>(float(int32_t(state)) * 0x1p-31f);
  }
}

inline ThreadPool& pool_of(int threads) {
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  auto& p = pools[threads];
  if (!p) p = std::make_unique<ThreadPool>(threads);
  return *p;
}

inline std::vector<OperandDesc> describe(const std::vector<View>& views) {
  std::vector<OperandDesc> out;
  for (const View& v : views) out.push_back({v.data != nullptr, v.dtype, v.data ? v.shape : Shape{}});
  return out;
}

/// Shapes a plan was made for, where they differ from the call's.
struct Planned {
  std::vector<View> in, out;
};

/// Calls a record on `threads` threads, and says what it found wrong in its data. An absent operand is a default View.
/// The workspace has exactly the size that the record asked for and is full of NaN; writing past its ends fails the
/// test.
inline std::optional<std::string> run_kernel(const KernelRecord& record, const std::vector<View>& in,
                                             const std::vector<View>& out, const Attrs& attrs = {}, int threads = 1,
                                             const std::optional<Planned>& planned = {}, DType products = DType::f32) {
  const auto in_desc = describe(planned ? planned->in : in), out_desc = describe(planned ? planned->out : out);
  const KernelQuery query{in_desc, out_desc, attrs, threads, products};
  EXPECT_TRUE(!record.accepts || record.accepts(query)) << record.op;
  const size_t bytes = record.workspace ? record.workspace(query) : 0;
  const Guarded memory(bytes);
  std::memset(memory.data(), 0xFF, bytes);

  KernelError error;
  ThreadPool& pool = pool_of(threads);
  const KernelArgs args{in, out, attrs, bytes ? memory.data() : nullptr};
  pool.run([&](int t) { record.code.as<HostKernel>()(ExecContext{t, threads, &pool, &error, record.op}, args); });

  if (!memory.intact()) ADD_FAILURE() << record.op << " wrote beside its workspace of " << bytes << " bytes";
  if (error.fault == KernelFault::none) return {};
  return KernelFailure(error.fault, error.op, error.index, error.value).what();
}

/// Calls f() once for each instruction set that this machine supports and toy was compiled for, best first.
template <class F>
void for_each_target(const F& f) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// The instruction set in use rounds a fused multiply-add once.
inline bool target_has_fma() { return (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON)) != 0; }

}  // namespace toy::test
