#include "backend/gpu/records.h"

#include "backend/gpu/gpu_device.h"

namespace toy::gpu {

std::span<const KernelRecord> records(bool library) {
  static const std::vector<KernelRecord> list = {
#define TOY_KERNEL(name) name##_kernel(),
#include "backend/gpu/records.def"
#undef TOY_KERNEL
  };
  static const std::vector<KernelRecord> with_library = [] {
    std::vector<KernelRecord> all = library_records();
    all.insert(all.end(), list.begin(), list.end());
    return all;
  }();
  return library ? with_library : list;
}

int weight_type(DType type) {
  switch (type) {
    case DType::f32:
      return WEIGHT_F32;
    case DType::f16:
      return WEIGHT_F16;
    case DType::bf16:
      return WEIGHT_BF16;
    case DType::q4_0:
      return WEIGHT_Q4_0;
    case DType::q4_1:
      return WEIGHT_Q4_1;
    case DType::q5_0:
      return WEIGHT_Q5_0;
    case DType::q5_1:
      return WEIGHT_Q5_1;
    case DType::q8_0:
      return WEIGHT_Q8_0;
    case DType::q2_k:
      return WEIGHT_Q2_K;
    case DType::q3_k:
      return WEIGHT_Q3_K;
    case DType::q4_k:
      return WEIGHT_Q4_K;
    case DType::q5_k:
      return WEIGHT_Q5_K;
    case DType::q6_k:
      return WEIGHT_Q6_K;
    case DType::iq4_nl:
      return WEIGHT_IQ4_NL;
    case DType::iq4_xs:
      return WEIGHT_IQ4_XS;
    case DType::mxfp4:
      return WEIGHT_MXFP4;
    default:
      return -1;
  }
}

}  // namespace toy::gpu
