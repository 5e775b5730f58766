// The file of a data cache, in memory or on disk:
//   "toytok1\n" | ids, 2 or 4 bytes each | zeros up to a multiple of 8 | where documents begin, u64 | what is known
//   about them, JSON | footer of u64: fingerprint, width, tokens, documents, bytes of the JSON, XXH64 of all bytes
//   before it.
// Little-endian. The footer stands at the end because it is known last.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "toy/base/checksum.h"
#include "toy/data/token_view.h"

namespace toy {

/// Writes one, front to back.
class TokenFileWriter {
 public:
  using Write = std::function<void(std::span<const std::byte>)>;
  /// Ids of `width` bytes, 2 or 4.
  TokenFileWriter(int width, Write write);
  void add(std::span<const int32_t> ids);
  /// The next id is the first of a document.
  void begin_document() { documents_.push_back(uint64_t(tokens_)); }
  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return int64_t(documents_.size()); }
  void finish(uint64_t fingerprint, const nlohmann::ordered_json& about);

 private:
  void put(std::span<const std::byte> bytes);
  int width_;
  Write write_;
  Xxh64 sum_;
  uint64_t bytes_ = 0;
  int64_t tokens_ = 0;
  std::vector<uint64_t> documents_;
  std::vector<uint16_t> narrow_;
};

/// What lies in one.
struct TokenFileView {
  uint64_t fingerprint = 0;
  TokenView ids;
  std::span<const uint64_t> documents;  ///< first tokens
  nlohmann::ordered_json about;
};

/// Reads and checks all of it. Returns what is wrong, or "" and the view. `read` is called every 8 MiB.
std::string open_token_file(std::span<const std::byte> bytes, TokenFileView& view,
                            const std::function<void()>& read = {});

}  // namespace toy
