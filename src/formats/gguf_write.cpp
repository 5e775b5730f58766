#include <algorithm>
#include <span>
#include <vector>

#include "gguf_types.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/formats/gguf.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/convert.h"

namespace toy::gguf {
namespace {

constexpr size_t kMaxName = 63;      // GGML_MAX_NAME less its final zero: llama.cpp refuses longer names
constexpr size_t kMaxKey = 65535;    // the GGUF specification
constexpr int64_t kChunk = 1 << 16;  // elements converted at a time, into at most 512 KiB; whole blocks of any type

uint64_t padded(uint64_t n) { return (n + kDefaultAlignment - 1) / kDefaultAlignment * kDefaultAlignment; }

/// The part of the file before the data.
class HeaderWriter {
 public:
  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_string(std::string_view s) {
    put(uint64_t(s.size()));
    bytes_ += s;
  }
  void put_raw(std::string_view s) { bytes_ += s; }
  void put_value(const Value& value) {
    std::visit(
        [&]<class T>(const T& v) {
          put(uint32_t(value_type<T>()));
          put_plain(v);
        },
        value);
  }
  void pad() { bytes_.resize(padded(bytes_.size()), '\0'); }
  const std::string& bytes() const { return bytes_; }

 private:
  void put_plain(bool v) { put(uint8_t(v)); }
  void put_plain(const std::string& v) { put_string(v); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void put_plain(T v) { put(v); }
  void put_plain(const Array& array) {
    std::visit(
        [&]<class T>(const std::vector<T>& elements) {
          put(uint32_t(value_type<T>()));
          put(uint64_t(elements.size()));
          for (const auto& e : elements) put_plain(static_cast<const T&>(e));
        },
        array);
  }

  std::string bytes_;
};

void write_data(AtomicFile& out, const View& data, DType stored) {
  auto* from = static_cast<std::byte*>(data.data);
  if (data.dtype == stored) return out.write({from, data.bytes()});
  const int64_t count = data.count();
  const Buffer buffer(bytes_of(stored, std::min(kChunk, count)));
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t n = std::min(kChunk, count - first);
    const View to(buffer.data(), stored, {n});
    convert(View(from + bytes_of(data.dtype, first), data.dtype, {n}), to);
    out.write({buffer.data(), to.bytes()});
  }
}

void check_view(const std::string& name, const View& data, DType stored) {
  check(data.data != nullptr, "gguf: tensor {}: the view has no memory", in_quotes(name));
  check(data.contiguous(), "gguf: tensor {}: the view {} is not contiguous; copy it first", in_quotes(name),
        data.shape.str());
  check((data.dtype == DType::i32) == (stored == DType::i32),
        "gguf: tensor {}: {} cannot be stored as {}; i32 is stored as i32, other types as each other", in_quotes(name),
        toy::name_of(data.dtype), toy::name_of(stored));
}

}  // namespace

Writer::Writer(std::string architecture) : architecture_(std::move(architecture)) {
  check(!architecture_.empty(), "gguf: the architecture is empty");
}

bool Writer::has(std::string_view key) const {
  return key == kArchitectureKey ||
         std::any_of(metadata_.begin(), metadata_.end(), [&](const auto& item) { return item.first == key; });
}

void Writer::set(std::string key, Value value) {
  check(!key.empty() && key.size() <= kMaxKey, "gguf: metadata key {}: a key has 1 to {} bytes, not {}", in_quotes(key),
        kMaxKey, key.size());
  if (key == kAlignmentKey) {
    const auto* alignment = std::get_if<uint32_t>(&value);
    check(alignment && *alignment == kDefaultAlignment,
          "gguf: metadata key '{}': data is written at {}-byte alignment; leave the key out", key, kDefaultAlignment);
  }
  if (key == kArchitectureKey) {
    auto* name = std::get_if<std::string>(&value);
    check(name && !name->empty(), "gguf: metadata key '{}': expected a string that is not empty", key);
    architecture_ = std::move(*name);
    return;
  }
  for (auto& [known, old] : metadata_)
    if (known == key) {
      old = std::move(value);
      return;
    }
  metadata_.emplace_back(std::move(key), std::move(value));
}

void Writer::add(std::string name, const View& data, DType stored) {
  add(std::move(name), std::span(&data, 1), stored);
}

void Writer::check_new(const std::string& name, const Shape& shape, DType stored) const {
  check(!name.empty() && name.size() <= kMaxName, "gguf: tensor {}: a name has 1 to {} bytes, not {}", in_quotes(name),
        kMaxName, name.size());
  const bool twice = std::any_of(items_.begin(), items_.end(), [&](const Item& item) { return item.name == name; });
  check(!twice, "gguf: tensor {}: added twice", in_quotes(name));
  check(shape.rank() >= 1 && shape.rank() <= kMaxFileRank,
        "gguf: tensor {}: {} has {} dimensions; a file holds 1 to {}", in_quotes(name), shape.str(), shape.rank(),
        kMaxFileRank);
  check(*std::min_element(shape.begin(), shape.end()) >= 1,
        "gguf: tensor {}: {} has no elements; a file cannot hold that", in_quotes(name), shape.str());
  check_rows(stored, shape, "gguf: tensor " + in_quotes(name));
}

void Writer::add(std::string name, std::span<const View> parts, DType stored) {
  check(!parts.empty(), "gguf: tensor {}: there is no view", in_quotes(name));
  Shape shape = parts.front().shape;
  for (const View& part : parts) {
    check_new(name, part.shape, stored);
    check_view(name, part, stored);
  }
  for (const View& part : parts.subspan(1)) {
    Shape like = shape;
    like[0] = part.shape[0];
    check(part.shape == like, "gguf: tensor {}: rows of {} cannot follow {}", in_quotes(name), part.shape.str(),
          shape.str());
    shape[0] += part.shape[0];
  }
  items_.push_back({std::move(name), {parts.begin(), parts.end()}, shape, stored, {}});
}

void Writer::add(std::string name, const Shape& shape, DType stored, std::function<void(const Sink&)> source) {
  check_new(name, shape, stored);
  items_.push_back({std::move(name), {}, shape, stored, std::move(source)});
}

uint64_t Writer::finish(const std::string& path, FileAccess access) {
  HeaderWriter header;
  header.put_raw(kMagic);
  header.put(kVersion);
  header.put(uint64_t(items_.size()));
  header.put(uint64_t(metadata_.size() + 1));
  header.put_string(kArchitectureKey);
  header.put_value(architecture_);
  for (const auto& [key, value] : metadata_) {
    header.put_string(key);
    header.put_value(value);
  }
  uint64_t offset = 0;
  for (const Item& item : items_) {
    header.put_string(item.name);
    header.put(uint32_t(item.shape.rank()));
    for (int i = 0; i < item.shape.rank(); ++i) header.put(uint64_t(item.shape.back(i)));  // innermost first
    header.put(ggml_type_of(item.stored).number);
    header.put(offset);
    offset = padded(offset + bytes_of(item.stored, item.shape));
  }
  header.pad();

  AtomicFile out(path, access);
  out.write(header.bytes());
  for (const Item& item : items_) {
    const uint64_t end = out.bytes_written() + bytes_of(item.stored, item.shape);
    for (const View& part : item.parts) write_data(out, part, item.stored);
    if (item.source) item.source([&](std::span<const std::byte> bytes) { out.write(bytes); });
    if (out.bytes_written() != end)
      fail_internal("gguf: tensor {}: its source ended {} bytes off", in_quotes(item.name),
                    int64_t(out.bytes_written() - end));
    const std::string padding(padded(out.bytes_written()) - out.bytes_written(), '\0');
    out.write(padding);
  }
  out.commit();
  return out.bytes_written();
}

}  // namespace toy::gguf
