// SHA-256, and the SHA-1 by which git names a file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace toy::fetch {

/// A digest that is fed in pieces.
class Digest {
 public:
  enum Kind { sha256, git_blob };
  /// `bytes`: how many will come, which git counts in.
  Digest(Kind kind, uint64_t bytes);
  ~Digest();
  void update(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal digits; call it once, last.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toy::fetch
