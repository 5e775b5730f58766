// XXH64, the 64-bit checksum that detects damaged files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace toy {

/// XXH64 with seed 0 (Collet, "xxHash fast digest algorithm", specification 0.1.1, section XXH64), fed in pieces.
/// Chosen because plain C++ runs it near the speed of memory, so large checkpoints cost little
/// time, and it misses accidental damage once in 2^64. A CRC of 32 bits is weaker, SHA-256 ten times slower. It does
/// not protect against forgery.
class Xxh64 {
 public:
  /// Appends; the digest does not depend on how the bytes are split.
  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far.
  uint64_t digest() const;

 private:
  void stripe(const std::byte* at);
  std::array<uint64_t, 4> lanes_ = {0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0, 0x61c8864e7a143579};
  std::array<std::byte, 32> rest_{};  // the first total_ % 32 bytes wait for more
  uint64_t total_ = 0;
};

/// Of one piece.
uint64_t xxh64(std::string_view bytes);
/// Of a complete file, read with read(2); `bytes` becomes its length. Throws Error{bad_input} naming the path when it
/// cannot be read.
uint64_t xxh64_of_file(const std::string& path, uint64_t& bytes);
/// 16 hexadecimal digits, the way checksums are written.
std::string checksum_text(uint64_t digest);

}  // namespace toy
