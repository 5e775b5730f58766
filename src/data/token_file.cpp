#include "data/token_file.h"

#include <array>
#include <bit>
#include <cstring>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::string_view kMagic = "toytok1\n";
constexpr size_t kFooter = 6 * sizeof(uint64_t);

uint64_t padding(uint64_t bytes) { return (8 - bytes % 8) % 8; }

}  // namespace

TokenFileWriter::TokenFileWriter(int width, Write write) : width_(width), write_(std::move(write)) {
  put(std::as_bytes(std::span(kMagic)));
}

void TokenFileWriter::put(std::span<const std::byte> bytes) {
  sum_.update(bytes);
  write_(bytes);
  bytes_ += bytes.size();
}

void TokenFileWriter::add(std::span<const int32_t> ids) {
  tokens_ += int64_t(ids.size());
  if (width_ == 4) return put(std::as_bytes(ids));
  narrow_.assign(ids.begin(), ids.end());
  put(std::as_bytes(std::span(narrow_)));
}

void TokenFileWriter::finish(uint64_t fingerprint, const nlohmann::ordered_json& about) {
  constexpr std::array<std::byte, 8> kZeros{};
  put(std::span(kZeros).first(padding(bytes_)));
  put(std::as_bytes(std::span(documents_)));
  const std::string text = json_text(about);
  put(std::as_bytes(std::span(text)));
  const std::array<uint64_t, 5> footer{fingerprint, uint64_t(width_), uint64_t(tokens_), documents_.size(),
                                       text.size()};
  put(std::as_bytes(std::span(footer)));
  const std::array<uint64_t, 1> sum{sum_.digest()};
  write_(std::as_bytes(std::span(sum)));
}

std::string open_token_file(std::span<const std::byte> bytes, TokenFileView& view, const std::function<void()>& read) {
  if (bytes.size() < kMagic.size() + kFooter) return "it is too short";
  std::array<uint64_t, 6> footer;
  std::memcpy(footer.data(), bytes.data() + bytes.size() - kFooter, kFooter);
  Xxh64 sum;
  constexpr size_t kStretch = size_t(8) << 20;
  const std::span<const std::byte> summed = bytes.first(bytes.size() - sizeof(uint64_t));
  for (size_t at = 0; at < summed.size(); at += kStretch) {
    sum.update(summed.subspan(at, std::min(kStretch, summed.size() - at)));
    if (read) read();
  }
  const auto [fingerprint, width, tokens, documents, about, digest] = footer;
  if (sum.digest() != digest) return "its checksum is wrong";
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return "it is of another version of toy";
  // Every count is below the length, so that their sum cannot overflow.
  const uint64_t size = bytes.size(), head = kMagic.size();
  if ((width != 2 && width != 4) || tokens > size / width || documents > size / 8 || about > size)
    return "its footer is wrong";
  const uint64_t ids_end = head + tokens * width, begins = ids_end + padding(ids_end), text = begins + documents * 8;
  if (text + about + kFooter != size) return "its footer is wrong";
  view.fingerprint = fingerprint;
  view.ids = {bytes.data() + head, int(width), int64_t(tokens)};
  view.documents = {reinterpret_cast<const uint64_t*>(bytes.data() + begins), size_t(documents)};
  const auto* first = reinterpret_cast<const char*>(bytes.data() + text);
  view.about = parse_json<nlohmann::ordered_json>({first, size_t(about)});
  return view.about.is_object() ? "" : "its list of files is wrong";
}

}  // namespace toy
