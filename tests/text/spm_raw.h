// Builds SentencePiece .model files byte by byte, right or wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace toy::testing {

struct Proto {
  std::string bytes;

  Proto& varint(uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes += char(n | 0x80);
    bytes += char(n);
    return *this;
  }
  Proto& number(uint32_t field, int64_t value) { return varint(field << 3).varint(uint64_t(value)); }
  Proto& real(uint32_t field, float value) {
    varint(field << 3 | 5);
    char raw[4];
    std::memcpy(raw, &value, 4);
    bytes.append(raw, 4);
    return *this;
  }
  Proto& text(uint32_t field, std::string_view value) {
    varint(field << 3 | 2).varint(value.size());
    bytes += value;
    return *this;
  }
  Proto& message(uint32_t field, const Proto& value) { return text(field, value.bytes); }
  Proto& piece(std::string_view name, float score, int type = 1) {
    return message(1, Proto().text(1, name).real(2, score).number(3, type));
  }
};

/// <unk>, <s>, </s> and a few pieces; no byte tokens. `type`: 1 unigram, 2 BPE.
inline Proto small_pieces() {
  return Proto()
      .piece("<unk>", 0, 2)
      .piece("<s>", 0, 3)
      .piece("</s>", 0, 3)
      .piece("a", -1)
      .piece("b", -2)
      .piece("ab", -2.5f)
      .piece("\xE2\x96\x81", -3);
}
inline Proto small_trainer_spec(int type = 1) { return Proto().number(3, type).number(35, 0); }
inline Proto small_normalizer_spec() { return Proto().text(1, "identity").number(3, 0).number(4, 0); }
inline std::string small_model(int type = 1) {
  return small_pieces().message(2, small_trainer_spec(type)).message(3, small_normalizer_spec()).bytes;
}

}  // namespace toy::testing
