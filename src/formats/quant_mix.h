// Which type llama.cpp's quantizer gives each tensor (llama-quant.cpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"

namespace toy::gguf {

/// A mix by name, its number in general.file_type, and the type that most matrices get.
struct Mix {
  enum Kind { plain, q2_k, q2_k_s, q3_k_m, q3_k_l, q4_0, q5_0, q4_k_s, q4_k_m, q5_k_m, iq4, mxfp4_moe };
  std::string_view name;
  uint32_t file_type;
  DType base;
  Kind kind = plain;  ///< of those with exceptions
};

/// Every mix.
std::span<const Mix> mixes();
/// Throws Error{bad_input} with the known names.
const Mix& find_mix(std::string_view name);

/// Is it one of the tensors that are quantized: matrices, but for norms and a few small or sensitive ones?
bool is_quantizable(const TensorInfo& tensor);
/// The type of each tensor of the file in the mix, not considering what rows are made of; `has_imatrix` changes a few.
std::vector<DType> types_in_mix(const File& file, const Mix& mix, bool pure, bool has_imatrix);
/// The type itself, or one that rows of this length can be stored in.
DType fit_to_rows(DType type, int64_t width);

}  // namespace toy::gguf
