#include "gguf_parse.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_set>

#include "gguf_cursor.h"
#include "gguf_types.h"
#include "sniff.h"
#include "toy/base/error.h"

namespace toy::gguf {
namespace {

struct Header {
  uint64_t tensors = 0, keys = 0;
};

// A tensor's place in the file, before the start of the data is known.
struct TensorEntry {
  uint64_t offset = 0;  // from the start of the data
  size_t at = 0;        // of its entry in the file
};

void check_magic(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMagic.size()));
  if (text == kMagic) return;
  if (kMagic.starts_with(text)) fail("{}: the file ends after {} bytes; copy or download it again", file, bytes.size());
  std::string guess = describe_foreign_file(bytes);
  if (guess.empty()) guess = "it may be damaged; copy or download it again";
  if (guess.find(';') == guess.npos) guess += "; give a .gguf file, a run, or a folder of Hugging Face";
  fail("{}: not a GGUF file: it starts with {}, not 'GGUF'; {}", file, in_quotes(text), guess);
}

Header read_header(Cursor& in) {
  in.read<uint32_t>("the magic");
  const auto version = in.read<uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0)
    in.fail("version {} is byte-swapped: a big-endian GGUF file; only little-endian files are supported",
            __builtin_bswap32(version));
  if (version == 1)
    in.fail(
        "GGUF version 1 is not supported (versions 2 and 3 are); convert the model again with a current "
        "llama.cpp");
  if (version != 2 && version != 3) in.fail("GGUF version {} is not supported (versions 2 and 3 are)", version);
  Header header;
  header.tensors = in.read<uint64_t>("the number of tensors");
  in.check_count(header.tensors, 32, "tensors");  // name length, rank, one dimension, type, offset
  header.keys = in.read<uint64_t>("the number of metadata keys");
  in.check_count(header.keys, 13, "metadata keys");  // key length, type, one byte
  return header;
}

ValueType read_type(Cursor& in, std::string_view what) {
  const auto type = in.read<uint32_t>(what);
  if (type >= kValueTypes) in.fail("unknown type {} of {}", type, what);
  return ValueType(type);
}

bool read_bool(Cursor& in) {
  const auto byte = in.read<uint8_t>("a bool");
  if (byte > 1) in.fail("a bool is 0 or 1, not {}", byte);
  return byte == 1;
}

template <class T>
Array read_elements(Cursor& in, uint64_t count) {
  std::vector<T> out;
  if constexpr (std::is_same_v<T, std::string>) {
    in.check_count(count, sizeof(uint64_t), "strings");
    out.reserve(size_t(count));
    for (uint64_t i = 0; i < count; ++i) out.push_back(in.read_string("a string"));
  } else {
    in.check_count(count, sizeof(T), "array elements");
    out.resize(size_t(count));
    if constexpr (std::is_same_v<T, bool>) {
      for (uint64_t i = 0; i < count; ++i) out[i] = read_bool(in);
    } else {
      in.read_into(out.data(), size_t(count), "an array");
    }
  }
  return out;
}

Array read_array(Cursor& in) {
  const ValueType type = read_type(in, "the array's elements");
  if (type == ValueType::array) in.fail("arrays of arrays are not supported");
  const auto count = in.read<uint64_t>("the array's length");
  return with_type(type, [&]<class T>(std::type_identity<T>) { return read_elements<T>(in, count); });
}

Value read_value(Cursor& in) {
  const ValueType type = read_type(in, "the value");
  if (type == ValueType::array) return read_array(in);
  return with_type(type, [&]<class T>(std::type_identity<T>) -> Value {
    if constexpr (std::is_same_v<T, bool>)
      return read_bool(in);
    else if constexpr (std::is_same_v<T, std::string>)
      return in.read_string("a string");
    else
      return in.read<T>("the value");
  });
}

void read_metadata(Cursor& in, uint64_t keys, Contents& contents) {
  for (uint64_t i = 0; i < keys; ++i) {
    in.set_context(fmt::format("metadata key {} of {}", i + 1, keys));
    std::string key = in.read_string("the key");
    if (key.empty()) in.fail("the key is empty");
    in.set_context(fmt::format("metadata key {}", in_quotes(key)));
    if (contents.metadata.contains(key)) in.fail("the key occurs twice");
    Value value = read_value(in);
    contents.metadata.emplace(std::move(key), std::move(value));
  }
}

uint64_t alignment_of(const Contents& contents, const std::string& file) {
  const auto found = contents.metadata.find(kAlignmentKey);
  if (found == contents.metadata.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<uint32_t>(&found->second);
  check(alignment != nullptr, "{}: metadata key '{}': expected u32, found {}", file, kAlignmentKey,
        type_name_of(found->second));
  check(std::has_single_bit(*alignment) && *alignment % 8 == 0,
        "{}: metadata key '{}': {} is not a power of two that is a multiple of 8", file, kAlignmentKey, *alignment);
  return *alignment;
}

// On disk the innermost dimension comes first; Shape has it last.
Shape read_shape(Cursor& in) {
  const auto rank = in.read<uint32_t>("the number of dimensions");
  if (rank < 1 || rank > uint32_t(kMaxFileRank)) in.fail("{} dimensions; 1 to {} are supported", rank, kMaxFileRank);
  int64_t dims[kMaxFileRank];
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    dims[rank - 1 - i] = in.read<int64_t>("a dimension");
    if (dims[rank - 1 - i] < 1) in.fail("dimension {} is {}; it must be at least 1", i, dims[rank - 1 - i]);
    if (__builtin_mul_overflow(count, dims[rank - 1 - i], &count))
      in.fail("the number of elements does not fit into 63 bits");
  }
  return Shape(std::span<const int64_t>(dims, rank));
}

void read_type(Cursor& in, TensorInfo& info) {
  info.ggml_type = in.read<uint32_t>("the type");
  const GgmlType* type = find_ggml_type(info.ggml_type);
  if (!type && is_retired(info.ggml_type))
    in.fail("type {} was removed from ggml; convert or quantize the model again with a current llama.cpp",
            info.ggml_type);
  if (!type) in.fail("unknown type {}; the file may be newer than this program", info.ggml_type);
  info.type_name = type->name;
  info.dtype = type->dtype;
  if (info.shape.back() % type->block != 0)
    in.fail("row length {} is not a multiple of {}, the block size of {}", info.shape.back(), type->block, type->name);
  if (__builtin_mul_overflow(uint64_t(info.shape.count()) / type->block, uint64_t(type->bytes), &info.bytes))
    in.fail("the size in bytes of {} {} does not fit into 64 bits", type->name, info.shape.str());
}

std::vector<TensorEntry> read_tensors(Cursor& in, uint64_t tensors, Contents& contents) {
  std::vector<TensorEntry> places;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    in.set_context(fmt::format("tensor {} of {}", i + 1, tensors));
    const size_t at = in.position();
    TensorInfo info;
    info.name = in.read_string("the name");
    if (info.name.empty()) in.fail("the name is empty");
    in.set_context(fmt::format("tensor {}", in_quotes(info.name)));
    if (!names.insert(info.name).second) in.fail("the name occurs twice");
    info.shape = read_shape(in);
    read_type(in, info);
    places.push_back({in.read<uint64_t>("the data's offset"), at});
    contents.tensors.push_back(std::move(info));
  }
  return places;
}

// Points every tensor at its data, all of which lies inside the file.
void place_data(std::span<const std::byte> bytes, size_t header_end, uint64_t alignment, const std::string& file,
                const std::vector<TensorEntry>& places, Contents& contents) {
  const uint64_t start = (uint64_t(header_end) + alignment - 1) / alignment * alignment;
  const uint64_t available = start < bytes.size() ? bytes.size() - start : 0;
  for (size_t i = 0; i < places.size(); ++i) {
    TensorInfo& info = contents.tensors[i];
    const TensorEntry& place = places[i];
    check(place.offset % alignment == 0,
          "{}: tensor {} at offset {}: its data's offset {} is not a multiple of the alignment {}", file,
          in_quotes(info.name), place.at, place.offset, alignment);
    check(place.offset <= available && info.bytes <= available - place.offset,
          "{}: tensor {} at offset {}: its {} bytes at offset {} of the data end after the file's end ({} "
          "bytes of data "
          "are there); the file is truncated, copy or download it again",
          file, in_quotes(info.name), place.at, info.bytes, place.offset, available);
    info.data = bytes.data() + start + place.offset;
  }
}

void check_overlaps(const std::string& file, const std::vector<TensorEntry>& places, const Contents& contents) {
  std::vector<size_t> order(places.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return places[a].offset < places[b].offset; });
  for (size_t k = 1; k < order.size(); ++k) {
    const size_t a = order[k - 1], b = order[k];
    // place_data() has shown that the sum does not overflow. No tensor is empty, so equal offsets overlap
    // too.
    check(places[a].offset + contents.tensors[a].bytes <= places[b].offset,
          "{}: the data of tensors {} and {} overlap at offset {} of the data; the file is damaged", file,
          in_quotes(contents.tensors[a].name), in_quotes(contents.tensors[b].name), places[b].offset);
  }
}

}  // namespace

Contents parse_contents(std::span<const std::byte> bytes, const std::string& file) {
  check_magic(bytes, file);
  Contents contents;
  Cursor in(bytes, file);
  const Header header = read_header(in);
  read_metadata(in, header.keys, contents);
  const uint64_t alignment = alignment_of(contents, file);
  const std::vector<TensorEntry> places = read_tensors(in, header.tensors, contents);
  place_data(bytes, in.position(), alignment, file, places, contents);
  check_overlaps(file, places, contents);
  return contents;
}

}  // namespace toy::gguf
