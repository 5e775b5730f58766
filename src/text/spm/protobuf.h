// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding), as far as reading a
// SentencePiece model needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace toy::protobuf {

enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One message, field by field. Nothing outside `bytes` is ever touched; whatever is no message throws
/// Error{bad_input} with the file's name, the offset in the file, and the reason.
class Reader {
 public:
  /// `offset`: of `bytes` in the file, for messages.
  Reader(std::string source, std::string_view bytes, size_t offset = 0)
      : source_(std::move(source)), bytes_(bytes), offset_(offset) {}

  /// Goes on to the next field; a value that was not asked for is skipped. False at the end.
  bool next();
  uint32_t field() const { return field_; }

  // The value of the field; `name` is for messages. A field of another wire type is refused: the protobuf
  // library would take it for an unknown one and go on with a default.
  uint64_t get_varint(const char* name);
  int32_t get_int32(const char* name);
  bool get_bool(const char* name) { return get_varint(name) != 0; }
  float get_float(const char* name);
  std::string_view get_bytes(const char* name);
  Reader get_message(const char* name);

 private:
  void expect(Wire wire, const char* name) const;
  uint64_t read_varint();
  std::string_view read_bytes(uint64_t n);
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string source_;
  std::string_view bytes_;
  size_t offset_, at_ = 0, field_at_ = 0;
  uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
  // Of the field at hand; read by next(), so that a broken value is found even where nobody asks for it.
  uint64_t number_ = 0;
  std::string_view value_;
};

}  // namespace toy::protobuf
