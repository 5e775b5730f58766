// A libcublasLt.so.13 without a GPU: products in the queue of fake_cuda.cpp. A product's order of sums is that of toy's
// own kernels (product.k), so its bits can be compared with theirs.
#include "gpu/fake/fake_cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "backend/gpu/cuda/cublaslt_functions.h"

using namespace toy::gpu::cublaslt;

toy::testing::FakeCublasLt toy_fake_cublaslt;

struct toy::gpu::cublaslt::HandleOfCublasLt {};
struct toy::gpu::cublaslt::DescOfCublasLt {
  int trans_a = kPlain, trans_b = kPlain, epilogue = 1;
  const float* bias = nullptr;
};
struct toy::gpu::cublaslt::LayoutOfCublasLt {
  int type;
  uint64_t rows, columns;
  int64_t leading;
};
struct toy::gpu::cublaslt::PreferenceOfCublasLt {
  size_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // the library's default
};

namespace {

auto& fake = toy_fake_cublaslt;
constexpr Status kInvalidValue = 7, kNotSupported = 15;

// An element of a matrix that lies column by column.
float element(const void* memory, const LayoutOfCublasLt& at, int turned, int64_t row, int64_t column) {
  if (turned == kTransposed) std::swap(row, column);
  const auto i = size_t(row + column * at.leading);
  if (at.type == kF32) return static_cast<const float*>(memory)[i];
  const uint32_t bits = uint32_t(static_cast<const uint16_t*>(memory)[i]) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
template <class T>
Status make(T** out, T value) {
  *out = new T(value);
  ++fake.made;
  return kOk;
}
template <class T>
Status destroy(T* one) {
  delete one;
  --fake.made;
  return kOk;
}
template <class T>
bool put(T& to, const void* value, size_t bytes) {
  if (bytes == sizeof(T)) std::memcpy(&to, value, bytes);
  return bytes == sizeof(T);
}
bool aligned(const void* memory, uint64_t to) { return reinterpret_cast<uintptr_t>(memory) % to == 0; }

}  // namespace

extern "C" {
#define TOY_EXPORT __attribute__((visibility("default")))
#define TOY_MAY_FAIL \
  if (fake.failing && std::string_view(fake.failing) == __func__) return kNotSupported;

TOY_EXPORT Status cublasLtCreate(Handle* handle) {
  TOY_MAY_FAIL
  return make(handle, HandleOfCublasLt{});
}
TOY_EXPORT Status cublasLtDestroy(Handle handle) { return destroy(handle); }
TOY_EXPORT size_t cublasLtGetVersion() { return 130100; }
TOY_EXPORT const char* cublasLtGetStatusString(Status) { return "what a test wants"; }
TOY_EXPORT Status cublasLtMatmulDescCreate(Desc* desc, int compute, int scale) {
  TOY_MAY_FAIL
  if (compute != kComputeF32 || scale != kF32) return kInvalidValue;
  return make(desc, DescOfCublasLt{});
}
TOY_EXPORT Status cublasLtMatmulDescSetAttribute(Desc d, int attribute, const void* value, size_t bytes) {
  const bool known = attribute == kTransA     ? put(d->trans_a, value, bytes)
                     : attribute == kTransB   ? put(d->trans_b, value, bytes)
                     : attribute == kEpilogue ? put(d->epilogue, value, bytes)
                     : attribute == kBias     ? put(d->bias, value, bytes)
                                              : false;
  return known ? kOk : kInvalidValue;
}
TOY_EXPORT Status cublasLtMatmulDescDestroy(Desc d) { return destroy(d); }
TOY_EXPORT Status cublasLtMatrixLayoutCreate(Layout* layout, int type, uint64_t rows, uint64_t columns,
                                             int64_t leading) {
  if (leading < int64_t(rows)) return kInvalidValue;
  return make(layout, LayoutOfCublasLt{type, rows, columns, leading});
}
TOY_EXPORT Status cublasLtMatrixLayoutDestroy(Layout l) { return destroy(l); }
TOY_EXPORT Status cublasLtMatmulPreferenceCreate(Preference* p) { return make(p, PreferenceOfCublasLt{}); }
TOY_EXPORT Status cublasLtMatmulPreferenceSetAttribute(Preference p, int attribute, const void* value, size_t bytes) {
  if (attribute == kMostWorkspace) return put(p->workspace, value, bytes) ? kOk : kInvalidValue;
  if (attribute < kAlignmentA || attribute > kAlignmentD) return kInvalidValue;
  return put(p->alignment[attribute - kAlignmentA], value, bytes) ? kOk : kInvalidValue;
}
TOY_EXPORT Status cublasLtMatmulPreferenceDestroy(Preference p) { return destroy(p); }
// The plan says what alignments it relies on.
TOY_EXPORT Status cublasLtMatmulAlgoGetHeuristic(Handle, Desc, Layout, Layout, Layout, Layout, Preference p, int most,
                                                 Heuristic* result, int* found) {
  TOY_MAY_FAIL
  *found = 0;
  if (fake.failing && std::string_view(fake.failing) == "nothing") return kOk;
  if (most < 1) return kInvalidValue;
  *result = {};
  std::copy_n(p->alignment, 4, result->algo.data);
  result->algo.data[4] = p->workspace;
  ++fake.planned;
  return *found = 1, kOk;
}
TOY_EXPORT Status cublasLtMatmul(Handle, Desc desc, const void* alpha, const void* a, Layout at_a, const void* b,
                                 Layout at_b, const void* beta, const void* c, Layout at_c, void* d, Layout at_d,
                                 const Algo* algo, void* workspace, size_t bytes, void*) {
  TOY_MAY_FAIL
  static auto* const work =
      reinterpret_cast<void (*)(std::function<void()>)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "toy_fake_cuda_work"));
  float one = 0, old = 0;
  std::memcpy(&one, alpha, sizeof one), std::memcpy(&old, beta, sizeof old);
  const LayoutOfCublasLt la = *at_a, lb = *at_b, ld = *at_d;
  const DescOfCublasLt how = *desc;
  const auto M = int64_t(ld.rows), N = int64_t(ld.columns);
  const auto K = int64_t(how.trans_a == kTransposed ? la.rows : la.columns);
  const auto a_rows = int64_t(how.trans_a == kTransposed ? la.columns : la.rows);
  const auto b_rows = int64_t(how.trans_b == kTransposed ? lb.columns : lb.rows);
  const auto b_columns = int64_t(how.trans_b == kTransposed ? lb.rows : lb.columns);
  if (one != 1 || a_rows != M || b_rows != K || b_columns != N || at_c->leading != ld.leading || !work ||
      la.type != kBf16 || lb.type != kBf16 || ld.type != kF32 || bytes < algo->data[4] || !workspace)
    return kInvalidValue;
  if (!aligned(a, algo->data[0]) || !aligned(b, algo->data[1]) || !aligned(c, algo->data[2]) ||
      !aligned(d, algo->data[3]))
    return kNotSupported;
  work([=] {
    ++fake.products;
    std::memset(workspace, 0xCD, bytes);  // it belongs to the library
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < M; ++m) {
        float total = 0;
        for (int64_t k0 = 0; k0 < K; k0 += 64) {
          float part = 0;
          for (int64_t k = k0; k < std::min(K, k0 + 64); ++k)
            part = std::fma(element(b, lb, how.trans_b, k, n), element(a, la, how.trans_a, m, k), part);
          total += part;
        }
        if (how.epilogue == kEpilogueBias) total += how.bias[m];
        if (old == 1) total += element(c, ld, kPlain, m, n);
        static_cast<float*>(d)[m + n * ld.leading] = total;
      }
  });
  return kOk;
}
}  // extern "C"
