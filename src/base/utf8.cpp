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

std::string markup(std::string_view text) {
  std::string out;
  each_character(printable(text), [&](std::string_view c) {
    if (c == "&")
      out += "&amp;";
    else if (c == "<")
      out += "&lt;";
    else if (c == ">")
      out += "&gt;";
    else if (c == "\"")
      out += "&quot;";
    else if (c == "'")
      out += "&#39;";
    else
      out += c == "\uFFFE" || c == "\uFFFF" ? "\uFFFD" : c;
  });
  return out;
}

namespace {

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(character[i])); };
  const size_t n = character.size();
  uint32_t c = n == 1 ? byte(0) : byte(0) & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; ++i) c = c << 6 | (byte(i) & 0x3F);
  return c;
}

size_t columns_of(uint32_t c) {
  struct Block {
    uint32_t first, last;
  };
  constexpr Block kCombining[] = {{0x300, 0x36F},   {0x591, 0x5BD},   {0x64B, 0x65F},   {0xE34, 0xE3A},
                                  {0xE47, 0xE4E},   {0x1160, 0x11FF}, {0x2060, 0x2060}, {0xFEFF, 0xFEFF},
                                  {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF},
                                  {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
  constexpr Block kWide[] = {{0x1100, 0x115F},   {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x2B50, 0x2B50},
                             {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
                             {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                             {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF},
                             {0x20000, 0x3FFFD}};
  const auto in = [c](const auto& blocks) {
    return std::any_of(std::begin(blocks), std::end(blocks), [c](Block b) { return b.first <= c && c <= b.last; });
  };
  return in(kCombining) ? 0 : in(kWide) ? 2 : 1;
}

}  // namespace

size_t terminal_columns(std::string_view text) {
  size_t columns = 0;
  each_character(text, [&](std::string_view c) { columns += columns_of(code_point(c)); });
  return columns;
}

std::string_view first_columns(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t n; bytes < text.size(); bytes += n) {
    n = std::max<size_t>(utf8_character(text.substr(bytes)), 1);
    const size_t wide = terminal_columns(text.substr(bytes, n));
    if (wide > columns) break;
    columns -= wide;
  }
  return text.substr(0, bytes);
}

std::string first_bytes(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (uint8_t(text[end]) & 0xC0) == 0x80) --end;  // inside of a character
  return std::string(text.substr(0, end)) + "...";
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
