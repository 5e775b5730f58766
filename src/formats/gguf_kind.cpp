#include <fstream>
#include <map>

#include "gguf_cursor.h"
#include "gguf_types.h"
#include "toy/formats/gguf.h"

namespace toy::gguf {
namespace {

// The strings among the first keys, up to the first array. Throws where the bytes end before.
void read_strings(Cursor& c, std::map<std::string, std::string>& strings) {
  std::string magic(kMagic.size(), ' ');
  c.read_into(magic.data(), magic.size(), "magic");
  if (magic != kMagic) return;
  c.read<uint32_t>("version"), c.read<uint64_t>("number of tensors");
  for (auto keys = c.read<uint64_t>("number of keys"); keys > 0; --keys) {
    const std::string key = c.read_string("key");
    switch (ValueType(c.read<uint32_t>("type"))) {
      case ValueType::u8:
      case ValueType::i8:
      case ValueType::boolean:
        c.read<uint8_t>("value");
        break;
      case ValueType::u16:
      case ValueType::i16:
        c.read<uint16_t>("value");
        break;
      case ValueType::u32:
      case ValueType::i32:
      case ValueType::f32:
        c.read<uint32_t>("value");
        break;
      case ValueType::u64:
      case ValueType::i64:
      case ValueType::f64:
        c.read<uint64_t>("value");
        break;
      case ValueType::string:
        strings[key] = c.read_string("value");
        break;
      default:
        return;
    }
  }
}

}  // namespace

std::string type_of_file(const std::string& path) {
  std::vector<std::byte> bytes(size_t(64) << 10);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  bytes.resize(size_t(in.gcount()));
  std::map<std::string, std::string> strings;
  Cursor cursor(bytes, path);
  try {
    read_strings(cursor, strings);
  } catch (const Error&) {  // what follows the first bytes says nothing
  }
  return strings[std::string(kArchitectureKey)] == "clip" ? "mmproj" : strings["general.type"];
}

}  // namespace toy::gguf
