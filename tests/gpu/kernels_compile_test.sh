#!/usr/bin/env bash
# The kernels of GPUs through the compilers that make code for real ones: no registers are spilled and no local memory is
# used on sm_80, sm_90 and sm_100 (what nvcc said when the program was built), and clang takes each kernel for an AMD GPU,
# also where OpenCL has no f64: then a `double` is an error, and a constant without its `f` another.
#
# What toy says of cuBLASLt is compared with NVIDIA's header.
#
#   tests/gpu/kernels_compile_test.sh build/release/kernels      # exit code 77: neither nvcc nor clang was there
set -euo pipefail
built=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../src" && pwd)
kernels=$source/backend/gpu/kernels
failed=0 skipped=()

logs=("$built"/*.log)
if [[ -e ${logs[0]} ]]; then
  awk '
    /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; architecture = part[4] }
    /bytes stack frame/ {
      if (architecture == "sm_80" || architecture == "sm_90" || architecture == "sm_100") {
        checked++
        if ($1 + $5 + $9 > 0) { print kernel " on " architecture ":" $0; bad = 1 }
      }
    }
    /Used [0-9]+ registers/ { if (architecture == "sm_90") print kernel ": " $5 " registers on sm_90" }
    END { print checked + 0 " compilations for sm_80, sm_90 and sm_100"; exit bad || !checked }
  ' "${logs[@]}" || { echo "FAILED: a kernel uses memory of its threads (a stack frame or spilled registers)"; failed=1; }
else
  skipped+=("the build has no kernels for CUDA (nvcc)")
fi

clang=$(command -v clang || command -v clang-15 || true)
amd=''
for target in gfx1030 gfx1100; do  # clang knows the latter since 15
  if [[ -n $clang ]] && "$clang" -x cl -target amdgcn-amd-amdhsa -mcpu=$target -nogpulib -c -o /dev/null /dev/null 2> /dev/null; then amd=$target; fi
done
if [[ -n $amd ]]; then
  for file in "$kernels"/*.k; do
    "$clang" -x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcpu=$amd -nogpulib -Xclang -finclude-default-header \
      -I "$kernels" -I "$source" -O1 -c -o /dev/null "$file" || { echo "FAILED: $file for AMD"; failed=1; }
    "$clang" -x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcpu=$amd -nogpulib -Xclang -finclude-default-header -Xclang -cl-ext=-cl_khr_fp64 -Werror \
      -I "$kernels" -I "$source" -fsyntax-only "$file" || { echo "FAILED: $file without f64"; failed=1; }
    # Functions that are left would have LOCAL memory that PoCL's threads share (dialect.h).
    "$clang" -x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcpu=$amd -nogpulib -Xclang -finclude-default-header \
      -I "$kernels" -I "$source" -O0 -S -emit-llvm -o - "$file" | grep '^define internal' && { echo "FAILED: $file has functions that are not inlined"; failed=1; }
  done
  echo "clang: $(printf '%s\n' "$kernels"/*.k | wc -l) files for $amd"
else
  skipped+=("there is no clang for AMD's GPUs")
fi

# What toy says of cuBLASLt, next to NVIDIA's header.
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
if [[ -e $include/cublasLt.h ]]; then
  c++ -std=c++20 -fsyntax-only -x c++ -I "$source" -isystem "$include" - << 'END' || { echo "FAILED: cublaslt_functions.h is not as cublasLt.h"; failed=1; }
#include <cublasLt.h>

#include "backend/gpu/cuda/cublaslt_functions.h"
using namespace toy::gpu::cublaslt;
static_assert(sizeof(Algo) == sizeof(cublasLtMatmulAlgo_t) && sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Heuristic, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(kOk == CUBLAS_STATUS_SUCCESS && kF32 == CUDA_R_32F && kBf16 == CUDA_R_16BF && kComputeF32 == CUBLAS_COMPUTE_32F);
static_assert(kPlain == CUBLAS_OP_N && kTransposed == CUBLAS_OP_T && kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kTransA == CUBLASLT_MATMUL_DESC_TRANSA && kTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && kBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && kAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES && kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
END
  echo "cublaslt_functions.h is as $include/cublasLt.h"
fi

for what in "${skipped[@]}"; do echo "skipped: $what"; done
((failed)) && exit 1
((${#skipped[@]} == 2)) && exit 77
exit 0
