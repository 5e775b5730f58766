#include "gguf_types.h"

#include <algorithm>
#include <array>

namespace toy::gguf {
namespace {

constexpr std::array<std::string_view, kValueTypes> kValueTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

constexpr GgmlType known(uint32_t number, std::string_view name, DType t) {
  return {number, name, info_of(t).block, info_of(t).bytes, t};
}

// From ggml.h and ggml-common.h. Number, name, and either what a View calls it or elements and bytes of a block.
// (gguf-py says 40 bytes for Q8_1; ggml's C struct, two halves and 32 bytes, has 36.)
constexpr GgmlType kGgmlTypes[] = {
    known(0, "F32", DType::f32),
    known(1, "F16", DType::f16),
    known(2, "Q4_0", DType::q4_0),
    known(3, "Q4_1", DType::q4_1),
    known(6, "Q5_0", DType::q5_0),
    known(7, "Q5_1", DType::q5_1),
    known(8, "Q8_0", DType::q8_0),
    {9, "Q8_1", 32, 36},
    known(10, "Q2_K", DType::q2_k),
    known(11, "Q3_K", DType::q3_k),
    known(12, "Q4_K", DType::q4_k),
    known(13, "Q5_K", DType::q5_k),
    known(14, "Q6_K", DType::q6_k),
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    known(20, "IQ4_NL", DType::iq4_nl),
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    known(23, "IQ4_XS", DType::iq4_xs),
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    known(26, "I32", DType::i32),
    {27, "I64", 1, 8},
    known(28, "F64", DType::f64),
    {29, "IQ1_M", 256, 56},
    known(30, "BF16", DType::bf16),
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    known(39, "MXFP4", DType::mxfp4),
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

std::string_view type_name(DType type) { return ggml_type_of(type).name; }

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
