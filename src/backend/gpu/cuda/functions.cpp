#include "backend/gpu/cuda/functions.h"

#include "backend/gpu/library.h"
#include "toy/base/error.h"

namespace toy::gpu::cuda {

const Functions& functions() {
  static const Functions loaded = [] {
    Functions f;
    Library library("libcuda.so.1");
#define F(name, ...) library.find(f.name, #name);
    TOY_CUDA_FUNCTIONS(F)
#undef F
    f.missing = library.missing();
    return f;
  }();
  return loaded;
}

void check_result(Result result, std::string_view what) {
  if (result == kOk) return;
  const char *name = nullptr, *text = nullptr;
  functions().cuGetErrorName(result, &name);
  functions().cuGetErrorString(result, &text);
  fail_internal("device 'cuda': {}: {} ({}, error {})", what, text ? text : "an error that the driver does not explain",
                name ? name : "no name", result);
}

}  // namespace toy::gpu::cuda
