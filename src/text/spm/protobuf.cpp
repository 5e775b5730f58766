#include "text/spm/protobuf.h"

#include <bit>

#include "toy/base/error.h"

namespace toy::protobuf {
namespace {

const char* name_of(Wire wire) {
  switch (wire) {
    case Wire::varint:
      return "a varint";
    case Wire::fixed64:
      return "eight bytes";
    case Wire::bytes:
      return "a string or message";
    case Wire::fixed32:
      return "four bytes";
  }
  return "?";
}

/// Little-endian, whatever the machine.
uint64_t little_endian(std::string_view bytes) {
  uint64_t n = 0;
  for (size_t i = 0; i < bytes.size(); ++i) n |= uint64_t(uint8_t(bytes[i])) << (8 * i);
  return n;
}

}  // namespace

bool Reader::next() {
  field_at_ = at_;
  if (at_ == bytes_.size()) return false;
  const uint64_t key = read_varint();
  if (key >> 32 != 0 || key >> 3 == 0) refuse(fmt::format("{} is the number of no field", key >> 3));
  field_ = uint32_t(key >> 3);
  wire_ = Wire(key & 7);
  switch (wire_) {
    case Wire::varint:
      number_ = read_varint();
      return true;
    case Wire::fixed64:
      number_ = little_endian(read_bytes(8));
      return true;
    case Wire::fixed32:
      number_ = little_endian(read_bytes(4));
      return true;
    case Wire::bytes:
      value_ = read_bytes(read_varint());
      return true;
  }
  refuse(fmt::format("field {} has wire type {}, which no such file uses", field_, key & 7));  // groups, 6 and 7
}

uint64_t Reader::get_varint(const char* name) {
  expect(Wire::varint, name);
  return number_;
}

int32_t Reader::get_int32(const char* name) {
  const int64_t number = int64_t(get_varint(name));  // negative ones are written as 64 bits
  if (number != int32_t(number)) refuse(fmt::format("{} is {}, too large for 32 bits", name, number));
  return int32_t(number);
}

float Reader::get_float(const char* name) {
  expect(Wire::fixed32, name);
  return std::bit_cast<float>(uint32_t(number_));
}

std::string_view Reader::get_bytes(const char* name) {
  expect(Wire::bytes, name);
  return value_;
}

Reader Reader::get_message(const char* name) {
  expect(Wire::bytes, name);
  return Reader(source_, value_, offset_ + size_t(value_.data() - bytes_.data()));
}

void Reader::expect(Wire wire, const char* name) const {
  if (wire_ != wire) refuse(fmt::format("{} is {}, not {}", name, name_of(wire_), name_of(wire)));
}

uint64_t Reader::read_varint() {
  uint64_t number = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == bytes_.size()) refuse("a number is cut off");
    const uint8_t byte = uint8_t(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    number |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  refuse("a number has more than 64 bits");
}

std::string_view Reader::read_bytes(uint64_t n) {
  const size_t left = bytes_.size() - at_;
  if (n > left) refuse(fmt::format("{} bytes are announced, but {} are left", n, left));
  const std::string_view value = bytes_.substr(at_, size_t(n));
  at_ += size_t(n);
  return value;
}

void Reader::refuse(const std::string& reason) const {
  fail("{}: not a SentencePiece model: {} (at byte {})", source_, reason, offset_ + field_at_);
}

}  // namespace toy::protobuf
