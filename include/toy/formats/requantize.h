// A GGUF again, with its matrices in other types.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/formats/imatrix.h"
#include "toy/tensor/dtype.h"
#include "toy/tensor/shape.h"

namespace toy::gguf {

/// Names of the mixes: "F16", "Q8_0", "Q4_K_M", ... A mix gives each matrix the type that llama.cpp's quantizer gives
/// it (without its exceptions for the architectures falcon, bailingmoe3 and glm5).
std::vector<std::string_view> mix_names();

/// What becomes of the tensors.
struct RequantizeOptions {
  /// A name of mix_names(); case does not matter, and Q3_K, Q4_K and Q5_K stand for their _M. "": the tensors' own
  /// types.
  std::string mix;
  bool pure = false;  ///< every matrix in the mix's base type
  /// Pattern of names (toy/base/glob.h) and type; the first pattern that fits decides, and overrides the mix.
  std::vector<std::pair<std::string, DType>> types;
  const Imatrix* imatrix = nullptr;            ///< which columns matter more
  int threads = 0;                             ///< 0: all CPUs
  std::map<std::string, Value> metadata = {};  ///< instead of the file's, or added
};

/// "blk.*.ffn_down*=Q6_K" as an element of RequantizeOptions::types; case of the type does not matter. Throws naming
/// the text and the known types.
std::pair<std::string, DType> parse_type_rule(const std::string& text);

/// One tensor.
struct RequantizedTensor {
  std::string name;
  Shape shape;
  DType from = DType::f32, to = DType::f32;  ///< the same: copied
  size_t bytes_before = 0, bytes_after = 0;
  bool weighted = false;               ///< the imatrix has its columns
  double rms = 0;                      ///< of its values
  double rmse = 0, largest_error = 0;  ///< of what the new file holds against what the old one does
};

/// What requantize() will do, in the order of the file; errors are not known before. Norms, biases and other tensors
/// that llama.cpp does not quantize keep their type. Rows that are not whole blocks get the type that llama.cpp falls
/// back to. Throws naming file and tensor for an unknown mix, a type that toy cannot read, an imatrix of other
/// dimensions, and an adapter.
std::vector<RequantizedTensor> plan_requantize(const File& from, const RequantizeOptions& options);

/// Writes the file, tensor by tensor and in pieces of rows, so that memory is bounded whatever the tensors' sizes, and
/// atomically: `path` may be the file that is read. Metadata are copied, but for file_type and quantization_version.
/// Calls `done` after each tensor; what it throws ends the work, and nothing remains. The bytes do not depend on the
/// number of threads. Throws as plan_requantize, quantize() and Writer do.
void requantize(const File& from, const std::string& path, const RequantizeOptions& options,
                const std::function<void(const RequantizedTensor&)>& done = {});

}  // namespace toy::gguf
