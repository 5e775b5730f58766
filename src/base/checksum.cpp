#include "toy/base/checksum.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "toy/base/error.h"

namespace toy {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87, kPrime2 = 0xc2b2ae3d27d4eb4f, kPrime3 = 0x165667b19e3779f9,
                   kPrime4 = 0x85ebca77c2b2ae63, kPrime5 = 0x27d4eb2f165667c5;
constexpr size_t kStripe = 32;

// The specification reads little-endian words, as every machine that toy runs on does.
static_assert(std::endian::native == std::endian::little);
template <class T>
uint64_t word(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

}  // namespace

void Xxh64::stripe(const std::byte* at) {
  for (size_t i = 0; i < 4; ++i) lanes_[i] = round(lanes_[i], word<uint64_t>(at + 8 * i));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  const size_t held = size_t(total_ % kStripe);
  total_ += bytes.size();
  if (held > 0) {
    const size_t n = std::min(kStripe - held, bytes.size());
    std::copy_n(bytes.begin(), n, rest_.begin() + ptrdiff_t(held));
    bytes = bytes.subspan(n);
    if (held + n < kStripe) return;
    stripe(rest_.data());
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) stripe(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

uint64_t Xxh64::digest() const {
  uint64_t h = kPrime5;
  if (total_ >= kStripe) {
    h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) h = (h ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  h += total_;
  const std::byte* at = rest_.data();
  size_t left = size_t(total_ % kStripe);
  for (; left >= 8; left -= 8, at += 8) h = std::rotl(h ^ round(0, word<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    h = std::rotl(h ^ (word<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    left -= 4, at += 4;
  }
  for (; left > 0; --left, ++at) h = std::rotl(h ^ (uint64_t(*at) * kPrime5), 11) * kPrime1;
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}

uint64_t xxh64(std::string_view bytes) {
  Xxh64 x;
  x.update(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return x.digest();
}

uint64_t xxh64_of_file(const std::string& path, uint64_t& bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check(fd >= 0, "{}: cannot be read: {}", path, std::generic_category().message(errno));
  Xxh64 x;
  std::vector<std::byte> chunk(size_t(1) << 20);
  int error = 0;
  for (bytes = 0;;) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    x.update(std::span(chunk).first(size_t(got)));
    bytes += uint64_t(got);
  }
  ::close(fd);
  check(error == 0, "{}: cannot be read: {}", path, std::generic_category().message(error));
  return x.digest();
}

std::string checksum_text(uint64_t digest) { return fmt::format("{:016x}", digest); }

}  // namespace toy
