#include "toy/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "sniff.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::safetensors {
namespace {

using nlohmann::json;

constexpr size_t kLength = 8;                     // of the number in front of the header
constexpr size_t kMaxHeader = 100 * 1000 * 1000;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

json parse_header(const std::string& path, std::span<const std::byte> file) {
  check(file.size() >= kLength, "{}: not a safetensors file: it has {} bytes", path, file.size());
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLength);
  const bool fits = length <= kMaxHeader && length <= file.size() - kLength;
  if (!fits && file.size() > kLength && file[kLength] != std::byte('{'))
    if (const std::string other = describe_foreign_file(file); !other.empty())
      fail("{}: not a safetensors file: {}", path, other);
  check(fits, "{}: not a safetensors file, or cut off: a header of {} bytes in a file of {}", path, length,
        file.size());
  const char* text = reinterpret_cast<const char*>(file.data() + kLength);
  json header = read_json<json>(path, {text, size_t(length)});
  check(header.is_object(), "{}: the header is not a JSON object", path);
  return header;
}

// Bytes of a shape, or -1 where they do not fit into `most`.
int64_t bytes_of(const Shape& shape, int64_t bytes, int64_t most) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t d : shape) {
    if (d < 0 || d > most / bytes) return -1;
    bytes *= d;
  }
  return bytes;
}

// The format knows no blocks.
std::optional<DType> type_of(const std::string& name) {
  for (const DTypeInfo& t : kDTypes)
    if (t.kind != DTypeInfo::quantized && type_name(t.type) == name) return t.type;
  return std::nullopt;
}

// Bytes of an element of types that no View has; 0: not known.
int64_t other_element(const std::string& type) {
  for (const auto& [name, bytes] :
       {std::pair("BOOL", 1), std::pair("U8", 1), std::pair("I8", 1), std::pair("F8_E4M3", 1), std::pair("F8_E5M2", 1),
        std::pair("I16", 2), std::pair("U16", 2), std::pair("U32", 4), std::pair("I64", 8), std::pair("U64", 8)})
    if (type == name) return bytes;
  return 0;
}

struct Entry {
  std::optional<DType> type;  // none: another one
  Shape shape;
  std::string type_name;
  int64_t begin = 0, end = 0;
  int64_t element() const { return type ? int64_t(size_of(*type)) : other_element(type_name); }
};

Entry parse_entry(const std::string& path, const std::string& name, const json& j, int64_t data_bytes) {
  const auto integers = [&](const char* key) {
    std::vector<int64_t> list;
    const bool there = j.is_object() && j.contains(key) && j.at(key).is_array();
    check(there, "{}: tensor '{}' has no list '{}'", path, name, key);
    for (const json& v : j.at(key)) {
      check(v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t(INT64_MAX),
            "{}: tensor '{}': '{}' holds {}, expected whole numbers", path, name, key, json_text(v));
      list.push_back(v.get<int64_t>());
    }
    return list;
  };
  const std::vector<int64_t> dims = integers("shape"), offsets = integers("data_offsets");
  check(dims.size() <= size_t(kMaxRank), "{}: tensor '{}' has {} dimensions, at most {} are known", path, name,
        dims.size(), kMaxRank);
  check(j.contains("dtype") && j.at("dtype").is_string(), "{}: tensor '{}' has no dtype", path, name);
  const std::string type = j.at("dtype");
  Entry e{type_of(type), Shape{std::span<const int64_t>(dims)}, type};
  check(e.element() > 0, "{}: tensor '{}' has the dtype {}, which is not known", path, name, type);
  check(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_bytes &&
            offsets[1] - offsets[0] == bytes_of(e.shape, e.element(), data_bytes),
        "{}: tensor '{}': {} {} does not lie at {} in {} bytes", path, name, type, e.shape.str(),
        json_text(j.at("data_offsets")), data_bytes);
  e.begin = offsets[0], e.end = offsets[1];
  return e;
}

}  // namespace

std::string type_name(DType t) {
  std::string name(name_of(t));
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return name;
}

void Writer::add(const std::string& name, const View& data) {
  check(data.contiguous(), "safetensors: tensor '{}': the view is not contiguous; copy it first", name);
  add(name, data.dtype, data.shape, {});
  items_.back().view.data = data.data;
}

void Writer::add(const std::string& name, DType type, const Shape& shape, std::function<void(const Sink&)> source) {
  check(name != kMetadata, "safetensors: '{}' is not a name for a tensor", name);
  const bool taken = std::any_of(items_.begin(), items_.end(), [&](const Item& t) { return t.name == name; });
  check(!taken, "safetensors: tensor '{}': added twice", name);
  check(!is_quantized(type), "safetensors: tensor '{}': the format has no type {}", name, name_of(type));
  items_.push_back({name, View(nullptr, type, shape), std::move(source)});
}

void Writer::finish(const std::string& path) const {
  // The widest first, so that every tensor is aligned without gaps, which the format does not allow.
  std::vector<const Item*> sorted;
  for (const Item& item : items_) sorted.push_back(&item);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Item* a, const Item* b) { return size_of(a->view.dtype) > size_of(b->view.dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  for (const Item* item : sorted) {
    const View& view = item->view;
    header[item->name] = {{"dtype", type_name(view.dtype)},
                          {"shape", std::vector<int64_t>(view.shape.begin(), view.shape.end())},
                          {"data_offsets", {at, at + view.bytes()}}};
    at += view.bytes();
  }
  std::string text = json_text(header);
  text.resize((text.size() + kLength - 1) / kLength * kLength, ' ');
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::string(reinterpret_cast<const char*>(&length), kLength) + text);
  for (const Item* item : sorted) {
    const View& view = item->view;
    const uint64_t end = file.bytes_written() + view.bytes();
    if (item->source)
      item->source([&](std::span<const std::byte> bytes) { file.write(bytes); });
    else if (view.count() > 0)
      file.write({static_cast<const std::byte*>(view.data), view.bytes()});
    if (file.bytes_written() != end)
      fail_internal("safetensors: tensor '{}': its source ended {} bytes off", item->name,
                    int64_t(file.bytes_written() - end));
  }
  file.commit();
}

File File::open(const std::string& path) {
  MappedFile mapping = MappedFile::open(path);
  File f = parse(mapping.bytes(), path);
  f.mapping_ = std::move(mapping);
  return f;
}

File File::parse(std::span<const std::byte> file, const std::string& path) {
  File f;
  f.path_ = path;
  const json header = parse_header(path, file);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLength);
  const std::span<const std::byte> data = file.subspan(kLength + size_t(length));
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (const auto& [name, j] : header.items()) {
    if (name == kMetadata) continue;
    const Entry e = parse_entry(path, name, j, int64_t(data.size()));
    covered.emplace_back(e.begin, e.end);
    if (e.type)
      f.tensors_.emplace(name, View(const_cast<std::byte*>(data.data()) + e.begin, *e.type, e.shape));
    else
      f.bytes_.emplace(name, Bytes{data.data() + e.begin, e.shape, e.type_name});
  }
  std::sort(covered.begin(), covered.end());
  int64_t at = 0;
  for (const auto& [begin, end] : covered) {
    check(begin == at, "{}: the tensors leave a gap or overlap at byte {} of the data", path, at);
    at = end;
  }
  check(at == int64_t(data.size()), "{}: {} bytes after the last tensor", path, int64_t(data.size()) - at);
  for (auto& [name, view] : f.tensors_) {
    if (reinterpret_cast<uintptr_t>(view.data) % size_of(view.dtype) == 0 || view.count() == 0) continue;
    const Buffer& copy = f.copies_.emplace_back(view.bytes());
    std::memcpy(copy.data(), view.data, view.bytes());
    view.data = copy.data();
  }
  return f;
}

}  // namespace toy::safetensors
