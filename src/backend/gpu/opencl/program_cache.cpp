#include "backend/gpu/opencl/program_cache.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "toy/base/atomic_file.h"
#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/user_cache.h"

namespace toy::gpu::opencl {
namespace {

std::string folder() {
  const std::string cache = user_cache();
  return cache.empty() ? "" : cache + "/opencl";
}

std::string path_of(const std::string& key) { return folder() + "/" + checksum_text(xxh64(key)) + ".bin"; }

std::string_view as_text(const unsigned char* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

}  // namespace

// A file: the checksum of the rest, the key's length and the key, the binary.
std::vector<unsigned char> load_program(const std::string& key) {
  if (folder().empty()) return {};
  std::ifstream file(path_of(key), std::ios::binary);
  std::vector<unsigned char> all((std::istreambuf_iterator<char>(file)), {});
  const size_t before = 2 * sizeof(uint64_t) + key.size();
  if (all.size() <= before) return {};
  uint64_t head[2];
  std::memcpy(head, all.data(), sizeof head);
  const bool whole = head[0] == xxh64(as_text(all.data() + sizeof head[0], all.size() - sizeof head[0])) &&
                     head[1] == key.size() && as_text(all.data() + sizeof head, key.size()) == key;
  if (!whole) return {};
  all.erase(all.begin(), all.begin() + std::ptrdiff_t(before));
  return all;
}

bool can_store_programs() { return !folder().empty() && make_writable(folder()); }

void store_program(const std::string& key, const std::vector<unsigned char>& binary) {
  const uint64_t length = key.size();
  std::string rest(reinterpret_cast<const char*>(&length), sizeof length);
  rest += key;
  rest += as_text(binary.data(), binary.size());
  const uint64_t checksum = xxh64(rest);
  try {
    AtomicFile file(path_of(key));
    file.write(std::as_bytes(std::span(&checksum, 1)));
    file.write(rest);
    file.commit();
  } catch (const Error&) {  // a full disk: it is compiled again the next time
  }
}

}  // namespace toy::gpu::opencl
