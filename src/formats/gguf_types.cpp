#include "gguf_types.h"

#include <algorithm>
#include <array>

namespace toy::gguf {
namespace {

constexpr std::array<std::string_view, kValueTypes> kValueTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

// From ggml.h and ggml-common.h. Number, name, elements and bytes of a block, what a View calls it.
// (gguf-py says 40 bytes for Q8_1; ggml's C struct, two halves and 32 bytes, has 36.)
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, DType::f32},
    {1, "F16", 1, 2, DType::f16},
    {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4, DType::i32},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8, DType::f64},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, DType::bf16},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
    {42, "Q2_0", 64, 18},
};

// Q4_2, Q4_3; Q4_0_4_4, Q4_0_4_8, Q4_0_8_8; IQ4_NL_4_4, IQ4_NL_4_8, IQ4_NL_8_8.
constexpr uint32_t kRetired[] = {4, 5, 31, 32, 33, 36, 37, 38};

}  // namespace

std::string_view name_of(ValueType type) {
  return uint32_t(type) < kValueTypes ? kValueTypeNames[uint32_t(type)] : "unknown";
}

std::string type_name_of(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value)) {
    const auto element = [](const auto& v) {
      return name_of(value_type<typename std::decay_t<decltype(v)>::value_type>());
    };
    return fmt::format("array of {}", std::visit(element, *array));
  }
  return std::string(std::visit([](const auto& v) { return name_of(value_type<std::decay_t<decltype(v)>>()); }, value));
}

const GgmlType* find_ggml_type(uint32_t number) {
  const auto* found =
      std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes), [&](const GgmlType& t) { return t.number == number; });
  return found == std::end(kGgmlTypes) ? nullptr : found;
}

bool is_retired(uint32_t number) {
  return std::find(std::begin(kRetired), std::end(kRetired), number) != std::end(kRetired);
}

const GgmlType& ggml_type_of(DType dtype) {
  for (const GgmlType& t : kGgmlTypes)
    if (t.dtype == dtype) return t;
  fail_internal("gguf: no type for {}", toy::name_of(dtype));
}

std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  for (const char c : name.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += fmt::format("\\x{:02x}", uint8_t(c));
  }
  return out + (name.size() > kLongest ? "...'" : "'");
}

}  // namespace toy::gguf
