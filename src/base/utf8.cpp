#include "toy/base/utf8.h"

#include <algorithm>

namespace toy {
namespace {

/// What a first byte asks for: how many bytes in all (0: it starts nothing), and where the second one must
/// lie.
struct Lead {
  size_t bytes;
  uint8_t second_min, second_max;
};

// The Unicode Standard 15.0, table 3-7, "Well-Formed UTF-8 Byte Sequences".
Lead lead_of(uint8_t first) {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first < 0xF0) return {3, uint8_t(first == 0xE0 ? 0xA0 : 0x80), uint8_t(first == 0xED ? 0x9F : 0xBF)};
  if (first < 0xF5) return {4, uint8_t(first == 0xF0 ? 0x90 : 0x80), uint8_t(first == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

/// How many of the first `lead.bytes` bytes are there and fit.
size_t fitting_bytes(std::string_view text, const Lead& lead) {
  const size_t end = std::min(lead.bytes, text.size());
  for (size_t i = 1; i < end; ++i) {
    const uint8_t byte = uint8_t(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80, high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return i;
  }
  return end;
}

}  // namespace

size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(uint8_t(text[0]));
  return fitting_bytes(text, lead) == lead.bytes ? lead.bytes : 0;
}

bool utf8_cut_off(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = lead_of(uint8_t(text[0]));
  return text.size() < lead.bytes && fitting_bytes(text, lead) == text.size();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = utf8_character(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

namespace {

// Hands every character to `take`, U+FFFD for a byte that is in none.
template <class Take>
void each_character(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t bytes = utf8_character(text);
    take(bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, bytes));
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
}

bool is_control(std::string_view c) {
  if (c.size() == 1) return uint8_t(c[0]) < 0x20 || c[0] == 0x7F;
  return c.size() == 2 && uint8_t(c[0]) == 0xC2 && uint8_t(c[1]) < 0xA0;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view c) { out += c; });
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view c) { out += is_control(c) ? "?" : c; });
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view c) { out += is_control(c) && c != "\n" && c != "\t" ? "?" : c; });
  return out;
}

std::string utf8_encode(uint32_t c) {
  std::string out;
  const auto put = [&](uint32_t byte) { out.push_back(char(byte)); };
  const auto tail = [&](int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6)), tail(0);
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12)), tail(6), tail(0);
  } else {
    put(0xF0 | (c >> 18)), tail(12), tail(6), tail(0);
  }
  return out;
}

}  // namespace toy
