#include "text/bpe/byte_level.h"

#include <array>

#include "text/unicode.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr std::array<uint32_t, 256> byte_level_code_points() {
  std::array<uint32_t, 256> table = {};
  uint32_t left_over = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    table[b] = printable ? b : left_over++;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kByteCodePoints = byte_level_code_points();

constexpr std::array<int16_t, 0x144> bytes_of_code_points() {
  std::array<int16_t, 0x144> table = {};
  for (int16_t& byte : table) byte = -1;
  for (uint32_t b = 0; b < 256; ++b) table[kByteCodePoints[b]] = int16_t(b);
  return table;
}
constexpr std::array<int16_t, 0x144> kCodePointBytes = bytes_of_code_points();

}  // namespace

std::string byte_level_name(uint8_t byte) { return utf8_encode(kByteCodePoints[byte]); }

std::optional<std::string> byte_level_text(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  while (!name.empty()) {
    const bool ascii = uint8_t(name[0]) < 0x80;  // most are
    const CodePoint c = ascii ? CodePoint{uint32_t(name[0]), 1} : first_code_point(name);
    if (c.value >= kCodePointBytes.size() || kCodePointBytes[c.value] < 0) return std::nullopt;
    text += char(kCodePointBytes[c.value]);
    name.remove_prefix(c.bytes);
  }
  return text;
}

}  // namespace toy
