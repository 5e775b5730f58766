// The functions of cuBLASLt that toy calls, declared here after NVIDIA's documentation ("Using the cuBLASLt API"): the
// program is built without its headers. tests/gpu/kernels_compile_test.sh compares them with the header where there is
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace toy::gpu::cublaslt {

using Status = int;  // cublasStatus_t
using Handle = struct HandleOfCublasLt*;
using Desc = struct DescOfCublasLt*;
using Layout = struct LayoutOfCublasLt*;
using Preference = struct PreferenceOfCublasLt*;

struct Algo {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algo algo;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

inline constexpr Status kOk = 0;
inline constexpr int kF32 = 0, kBf16 = 14;                                // cudaDataType
inline constexpr int kComputeF32 = 68;                                    // cublasComputeType_t
inline constexpr int kPlain = 0, kTransposed = 1;                         // cublasOperation_t
inline constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBias = 8;  // cublasLtMatmulDescAttributes_t
inline constexpr int kEpilogueBias = 4;                                   // cublasLtEpilogue_t
// cublasLtMatmulPreferenceAttributes_t: bytes of workspace; least alignments of A, B, C and D
inline constexpr int kMostWorkspace = 1, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;

#define TOY_CUBLASLT_FUNCTIONS(F)                                                                             \
  F(Status, cublasLtCreate, Handle*)                                                                          \
  F(Status, cublasLtDestroy, Handle)                                                                          \
  F(size_t, cublasLtGetVersion)                                                                               \
  F(const char*, cublasLtGetStatusString, Status)                                                             \
  F(Status, cublasLtMatmulDescCreate, Desc*, int compute, int scale)                                          \
  F(Status, cublasLtMatmulDescSetAttribute, Desc, int attribute, const void* value, size_t bytes)             \
  F(Status, cublasLtMatmulDescDestroy, Desc)                                                                  \
  F(Status, cublasLtMatrixLayoutCreate, Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading)  \
  F(Status, cublasLtMatrixLayoutDestroy, Layout)                                                              \
  F(Status, cublasLtMatmulPreferenceCreate, Preference*)                                                      \
  F(Status, cublasLtMatmulPreferenceSetAttribute, Preference, int attribute, const void* value, size_t bytes) \
  F(Status, cublasLtMatmulPreferenceDestroy, Preference)                                                      \
  F(Status, cublasLtMatmulAlgoGetHeuristic, Handle, Desc, Layout a, Layout b, Layout c, Layout d, Preference, \
    int most, Heuristic*, int* found)                                                                         \
  F(Status, cublasLtMatmul, Handle, Desc, const void* alpha, const void* a, Layout, const void* b, Layout,    \
    const void* beta, const void* c, Layout, void* d, Layout, const Algo*, void* workspace, size_t bytes,     \
    void* stream)

/// Every function, or why there are none.
struct Functions {
#define F(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
  TOY_CUBLASLT_FUNCTIONS(F)
#undef F
  std::string missing;  ///< the library or a function that it lacks; "": nothing
};
/// Loads libcublasLt.so once: the newest that the driver runs.
const Functions& functions();

}  // namespace toy::gpu::cublaslt
