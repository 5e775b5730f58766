// The numbers of GGUF: types of metadata values and types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "toy/base/error.h"
#include "toy/formats/gguf.h"

namespace toy::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr int kMaxFileRank = 4;  ///< GGML_MAX_DIMS
inline constexpr std::string_view kArchitectureKey = "general.architecture";
inline constexpr std::string_view kAlignmentKey = "general.alignment";

/// Types of metadata values, numbered as in the file.
enum class ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr uint32_t kValueTypes = 13;

/// "u32", "string", "array", ...
std::string_view name_of(ValueType type);
/// The same of a value; an array with its element type: "array of i32".
std::string type_name_of(const Value& value);

/// The number of a C++ type of Value.
template <class T>
constexpr ValueType value_type() {
  if constexpr (std::is_same_v<T, uint8_t>)
    return ValueType::u8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return ValueType::i8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return ValueType::u16;
  else if constexpr (std::is_same_v<T, int16_t>)
    return ValueType::i16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return ValueType::u32;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ValueType::i32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return ValueType::u64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return ValueType::i64;
  else if constexpr (std::is_same_v<T, float>)
    return ValueType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return ValueType::f64;
  else if constexpr (std::is_same_v<T, bool>)
    return ValueType::boolean;
  else if constexpr (std::is_same_v<T, std::string>)
    return ValueType::string;
  else
    return ValueType::array;
}

/// Calls f(std::type_identity<T>{}) for the C++ type of `type`, which must not be array.
template <class F>
auto with_type(ValueType type, F&& f) {
  switch (type) {
    case ValueType::u8:
      return f(std::type_identity<uint8_t>{});
    case ValueType::i8:
      return f(std::type_identity<int8_t>{});
    case ValueType::u16:
      return f(std::type_identity<uint16_t>{});
    case ValueType::i16:
      return f(std::type_identity<int16_t>{});
    case ValueType::u32:
      return f(std::type_identity<uint32_t>{});
    case ValueType::i32:
      return f(std::type_identity<int32_t>{});
    case ValueType::u64:
      return f(std::type_identity<uint64_t>{});
    case ValueType::i64:
      return f(std::type_identity<int64_t>{});
    case ValueType::f32:
      return f(std::type_identity<float>{});
    case ValueType::f64:
      return f(std::type_identity<double>{});
    case ValueType::boolean:
      return f(std::type_identity<bool>{});
    case ValueType::string:
      return f(std::type_identity<std::string>{});
    case ValueType::array:
      break;
  }
  fail_internal("gguf: with_type() of type {}", uint32_t(type));
}

/// A tensor type of ggml: `block` elements of a row are stored together in `bytes` bytes.
struct GgmlType {
  uint32_t number;
  std::string_view name;
  uint32_t block;
  uint32_t bytes;
  std::optional<DType> dtype = std::nullopt;  ///< set where a View can hold it
};

/// nullptr for a number that ggml does not use (any more).
const GgmlType* find_ggml_type(uint32_t number);
/// Once used by ggml, then removed: files with it can be converted again from their source.
bool is_retired(uint32_t number);
const GgmlType& ggml_type_of(DType dtype);

/// A name from a file in quotes, for messages: shortened, and with bytes that are not printable ASCII as
/// \xNN.
std::string in_quotes(std::string_view name);

}  // namespace toy::gguf
