// Builds GGUF files byte by byte, right or wrong: for tests that must not depend on the writer.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "testing/aligned.h"
#include "toy/formats/gguf.h"
#include "toy/tensor/quantize.h"

namespace toy::gguf::testing {

/// Numbers of value types.
enum Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

struct Raw {
  std::string bytes;

  template <class T>
  Raw& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Raw& string(std::string_view s) {
    put(uint64_t(s.size()));
    bytes += s;
    return *this;
  }
  Raw& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes += "GGUF";
    return put(version).put(tensors).put(keys);
  }
  template <class T>
  Raw& key(std::string_view name, uint32_t type, T value) {
    return string(name).put(type).put(value);
  }
  Raw& key_string(std::string_view name, std::string_view value) {
    return string(name).put(uint32_t(kString)).string(value);
  }
  /// `dims` innermost first, as on disk.
  Raw& tensor(std::string_view name, const std::vector<int64_t>& dims, uint32_t type, uint64_t offset) {
    string(name).put(uint32_t(dims.size()));
    for (const int64_t d : dims) put(d);
    return put(type).put(offset);
  }
  Raw& pad(size_t alignment = 32) {
    while (bytes.size() % alignment) bytes += '\0';
    return *this;
  }
  Raw& data(size_t n) {
    pad();
    for (size_t i = 0; i < n; ++i) bytes += char(i);
    return *this;
  }
};

using toy::testing::Aligned;

/// Touches every byte that the file gives out, and computes the values of quantized tensors.
inline uint64_t read_everything(const File& file) {
  uint64_t sum = 0;
  for (const TensorInfo& t : file.tensors()) {
    for (size_t i = 0; i < t.bytes; ++i) sum = sum * 31 + uint64_t(t.data[i]);
    sum += t.name.size() + uint64_t(t.shape.count()) + uint64_t(file.find(t.name) == &t);
    if (!t.dtype || !is_quantized(*t.dtype)) continue;
    const DTypeInfo& type = info_of(*t.dtype);
    sum += uint64_t(find_broken_block(type.type, t.data, t.shape.count() / type.block));
    for (int64_t i = 0; i < t.shape.count(); i += type.block) {
      float values[256];
      dequantize(type.type, t.data + bytes_of(type.type, i), {values, type.block});
      for (size_t j = 0; j < type.block; ++j) sum = sum * 31 + std::bit_cast<uint32_t>(values[j]);
    }
  }
  for (const auto& [key, value] : file.metadata()) {
    sum += key.size() + value.index();
    if (const auto* s = std::get_if<std::string>(&value))
      for (const char c : *s) sum = sum * 31 + uint8_t(c);
    if (const auto* array = std::get_if<Array>(&value)) std::visit([&](const auto& v) { sum += v.size(); }, *array);
  }
  return sum;
}

/// Two keys of every size class, an array of strings and three tensors, the last one ending at the end of the
/// file.
inline std::string small_valid_file() {
  Raw raw;
  raw.header(3, 7).key_string("general.architecture", "llama").key("llama.block_count", kU32, uint32_t(2));
  raw.key("general.alignment", kU32, uint32_t(32)).key("flag", kBool, uint8_t(1)).key("pi", kF64, 3.5);
  raw.string("words").put(uint32_t(kArray)).put(uint32_t(kString)).put(uint64_t(3)).string("a").string("").string("cd");
  raw.string("ids").put(uint32_t(kArray)).put(uint32_t(kI32)).put(uint64_t(2)).put(int32_t(-1)).put(int32_t(7));
  raw.tensor("a", {3, 2}, 0, 0).tensor("b", {32}, 8, 32).tensor("c", {8, 1, 1, 2}, 1, 96);
  raw.data(96 + 32);
  return raw.bytes;
}

}  // namespace toy::gguf::testing
