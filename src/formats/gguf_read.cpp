#include <cmath>
#include <limits>
#include <unordered_map>

#include "gguf_parse.h"
#include "gguf_types.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/formats/gguf.h"
#include "toy/formats/mapped_file.h"

namespace toy::gguf {

struct File::Impl {
  std::string path;
  MappedFile mapping;  ///< empty after parse(): the bytes are the caller's
  std::span<const std::byte> bytes;
  Contents contents;
  std::unordered_map<std::string_view, size_t> index;  ///< tensor by name; the names are those of `contents`
  std::vector<std::shared_ptr<Impl>> others;           ///< the other parts of a split file
  std::optional<PagesAhead> ahead;                     ///< goes before the mapping

  static std::shared_ptr<Impl> open(const std::string& path) {
    auto impl = std::make_shared<Impl>();
    impl->path = path;
    impl->mapping = MappedFile::open(path);
    impl->bytes = impl->mapping.bytes();
    impl->contents = parse_contents(impl->bytes, path);
    return impl;
  }
  void add_parts();
  void make_index() {
    index.clear();
    index.reserve(contents.tensors.size());
    for (size_t i = 0; i < contents.tensors.size(); ++i) index.emplace(contents.tensors[i].name, i);
  }
  const Value* find(std::string_view key) const {
    const auto found = contents.metadata.find(key);
    return found == contents.metadata.end() ? nullptr : &found->second;
  }
  const Value& require(std::string_view key) const {
    const Value* value = find(key);
    check(value != nullptr, "{}: the metadata key {} is missing", path, in_quotes(key));
    return *value;
  }
  [[noreturn]] void fail_type(std::string_view key, std::string_view expected, const Value& value) const {
    fail("{}: metadata key {}: expected {}, found {}", path, in_quotes(key), expected, type_name_of(value));
  }
  template <class T>
  const T& get(std::string_view key, const Value& value) const {
    if (const T* exact = std::get_if<T>(&value)) return *exact;
    fail_type(key, name_of(value_type<T>()), value);
  }
  template <class T>
  const std::vector<T>& get_array(std::string_view key) const {
    const Value& value = require(key);
    if (const Array* array = std::get_if<Array>(&value))
      if (const auto* exact = std::get_if<std::vector<T>>(array)) return *exact;
    fail_type(key, fmt::format("array of {}", name_of(value_type<T>())), value);
  }
  uint32_t to_u32(std::string_view key, const Value& value) const;
  float to_f32(std::string_view key, const Value& value) const;
};

// Writers in the wild do not agree on the width and sign of counts, so any integer that fits is taken.
uint32_t File::Impl::to_u32(std::string_view key, const Value& value) const {
  return std::visit(
      [&](const auto& v) -> uint32_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          check(std::in_range<uint32_t>(v), "{}: metadata key {}: {} does not fit into u32", path, in_quotes(key), v);
          return uint32_t(v);
        } else {
          fail_type(key, "u32", value);
        }
      },
      value);
}

float File::Impl::to_f32(std::string_view key, const Value& value) const {
  if (const auto* wide = std::get_if<double>(&value)) {
    const bool fits = !std::isfinite(*wide) || std::abs(*wide) <= double(std::numeric_limits<float>::max());
    check(fits, "{}: metadata key {}: {} does not fit into f32", path, in_quotes(key), *wide);
    return float(*wide);
  }
  return get<float>(key, value);
}

// The tensors of all parts, under the metadata of the first, as if the file had never been split.
void File::Impl::add_parts() {
  constexpr const char *kCount = "split.count", *kNumber = "split.no", *kTensors = "split.tensors.count";
  const Value* value = find(kCount);
  const uint32_t count = value ? to_u32(kCount, *value) : 1;
  if (count <= 1) return;
  const std::optional<SplitName> name = find_split(path);
  check(name && uint32_t(name->parts) == count,
        "{}: one of {} parts of a model, whose names end with -00001-of-{:05}.gguf; give it the name it had", path,
        count, count);
  const int missing = name->missing();
  check(missing == 0, "{}: part {} of {} is missing, {}; download it into the same folder", path, missing, count,
        missing > 0 ? name->of(missing) : "");
  Contents all;
  for (int part = 1; part <= name->parts; ++part) {
    const std::string file = name->of(part);
    Contents* own = &contents;
    if (part != name->part) {
      std::shared_ptr<Impl> other;
      try {
        other = open(file);
      } catch (const Error& e) {
        fail("{}; it is part {} of the {} that the model is split over, which must lie in one folder", e.what(), part,
             count);
      }
      own = &other->contents;
      others.push_back(other);
    }
    const auto number = [&](const char* key) {
      const auto found = own->metadata.find(key);
      return found == own->metadata.end() ? 0 : to_u32(key, found->second);
    };
    check(number(kCount) == count && number(kNumber) + 1 == uint32_t(part),
          "{}: by its metadata it is part {} of {}; download the parts again", file, number(kNumber) + 1,
          number(kCount));
    if (part == 1) all.metadata = own->metadata;
    all.tensors.insert(all.tensors.end(), own->tensors.begin(), own->tensors.end());
  }
  contents = std::move(all);
  const Value* tensors = find(kTensors);
  check(!tensors || to_u32(kTensors, *tensors) == contents.tensors.size(),
        "{}: its {} parts have {} tensors, and by the metadata they should have {}; download them again", path, count,
        contents.tensors.size(), tensors ? to_u32(kTensors, *tensors) : 0);
  for (const char* key : {kCount, kNumber, kTensors}) contents.metadata.erase(key);
  make_index();
  for (const TensorInfo& t : contents.tensors)
    check(&contents.tensors[index.at(t.name)] == &t, "{}: the tensor {} is in two of its {} parts", path,
          in_quotes(t.name), count);
}

File File::open(const std::string& path) {
  auto impl = Impl::open(path);
  impl->add_parts();
  impl->make_index();
  File file;
  file.impl_ = std::move(impl);
  return file;
}

File File::parse(std::span<const std::byte> bytes, const std::string& name) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0)
    fail_internal("{}: gguf::File::parse needs 8-byte aligned bytes", name);
  auto impl = std::make_shared<Impl>();
  impl->path = name;
  impl->bytes = bytes;
  impl->contents = parse_contents(bytes, name);
  impl->make_index();
  File file;
  file.impl_ = std::move(impl);
  return file;
}

const std::string& File::path() const { return impl_->path; }
size_t File::file_bytes() const {
  size_t bytes = impl_->bytes.size();
  for (const auto& other : impl_->others) bytes += other->bytes.size();
  return bytes;
}
const std::map<std::string, Value, std::less<>>& File::metadata() const { return impl_->contents.metadata; }
const std::vector<TensorInfo>& File::tensors() const { return impl_->contents.tensors; }
void File::map_ahead() const {
  impl_->ahead.emplace(impl_->mapping);
  for (const auto& other : impl_->others) other->ahead.emplace(other->mapping);
}
std::shared_ptr<const void> File::keep_alive() const { return impl_; }

const TensorInfo* File::find(std::string_view name) const {
  const auto found = impl_->index.find(name);
  return found == impl_->index.end() ? nullptr : &impl_->contents.tensors[found->second];
}

const TensorInfo& File::require(std::string_view name) const {
  const TensorInfo* info = find(name);
  check(info != nullptr, "{}: the tensor {} is missing ({} tensors are there)", path(), in_quotes(name),
        tensors().size());
  return *info;
}

bool File::has(std::string_view key) const { return impl_->find(key) != nullptr; }

uint32_t File::get_u32(std::string_view key) const { return impl_->to_u32(key, impl_->require(key)); }

uint32_t File::get_u32(std::string_view key, uint32_t otherwise) const {
  const Value* value = impl_->find(key);
  return value ? impl_->to_u32(key, *value) : otherwise;
}

float File::get_f32(std::string_view key) const { return impl_->to_f32(key, impl_->require(key)); }

float File::get_f32(std::string_view key, float otherwise) const {
  const Value* value = impl_->find(key);
  return value ? impl_->to_f32(key, *value) : otherwise;
}

bool File::get_bool(std::string_view key, bool otherwise) const {
  const Value* value = impl_->find(key);
  return value ? impl_->get<bool>(key, *value) : otherwise;
}

std::string File::get_string(std::string_view key) const { return impl_->get<std::string>(key, impl_->require(key)); }

std::string File::get_string(std::string_view key, std::string_view otherwise) const {
  const Value* value = impl_->find(key);
  return value ? impl_->get<std::string>(key, *value) : std::string(otherwise);
}

const std::vector<std::string>& File::get_strings(std::string_view key) const {
  return impl_->get_array<std::string>(key);
}

const std::vector<float>& File::get_f32s(std::string_view key) const { return impl_->get_array<float>(key); }
const std::vector<int32_t>& File::get_i32s(std::string_view key) const { return impl_->get_array<int32_t>(key); }

}  // namespace toy::gguf
