// Importance matrices: how strongly each column of each weight was used on a calibration text.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toy::gguf {

/// By name of a weight, for each of its columns the mean square of the activation that it was multiplied with.
struct Imatrix {
  std::map<std::string, std::vector<float>, std::less<>> columns;  ///< of stacked experts, one after the other
  /// By the same names: how many activations each mean is over, one number for each expert.
  std::map<std::string, std::vector<float>, std::less<>> counts;
  std::vector<std::string> datasets;  ///< the texts, as the file names them
  uint32_t chunks = 0;                ///< of text; 0 if the file does not say
  uint32_t chunk_size = 0;            ///< tokens of each; 0 if the file does not say
};

/// Reads what llama.cpp's `llama-imatrix` writes: GGUF, or the older binary format (.dat). Throws Error{bad_input}
/// naming the file, the tensor and the reason; numbers that are negative or not finite are refused.
Imatrix read_imatrix(const std::string& path);
/// The same on bytes in memory; `name` is for messages. They must be 8-byte aligned.
Imatrix parse_imatrix(std::span<const std::byte> bytes, const std::string& name);

/// Writes the GGUF that llama.cpp's tools read, atomically. Throws as Writer does, and for columns without counts.
void write_imatrix(const Imatrix& imatrix, const std::string& path);

}  // namespace toy::gguf
