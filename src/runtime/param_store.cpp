#include <algorithm>
#include <utility>

#include "toy/runtime/session.h"
#include "toy/tensor/convert.h"

namespace toy {

View ParamStore::add(const std::string& name, const TensorType& type) {
  check(!has(name), "parameters: the name '{}' is taken", name);
  const DType stored = device_->storage(type.dtype);
  const size_t bytes = size_t(type.count()) * size_of(stored);
  const View v(allocate(bytes), stored, type.shape);
  entries_.emplace(name, Entry{.type = type, .view = v, .bytes = bytes});
  return v;
}

// Tensors lie together in few large buffers, which huge pages can hold: of each tensor alone, only what happens to fill
// a page of 2 MiB would. Buffers grow with the store; of large ones, what is not touched yet costs nothing.
std::byte* ParamStore::allocate(size_t bytes) {
  constexpr size_t kSmallest = size_t(1) << 16, kLargest = size_t(1) << 28, kAlign = 64;
  const size_t size = std::clamp(this->bytes(), kSmallest, kLargest), wanted = (bytes + kAlign - 1) / kAlign * kAlign;
  if (wanted > size / 2) return full_.emplace_back(wanted).data();
  if (used_ + wanted > shared_.bytes()) {
    full_.push_back(std::exchange(shared_, Buffer(size)));
    used_ = 0;
  }
  return shared_.data() + std::exchange(used_, used_ + wanted);
}

void ParamStore::bind(const std::string& name, const View& host, std::shared_ptr<const void> keep_alive) {
  check(host.data || host.count() == 0, "store: tensor '{}' has no data", name);
  check(host.contiguous(), "store: tensor '{}' is a strided view of {}; give a contiguous one", name, host.shape.str());
  const TensorType type{host.dtype, host.shape, 0};
  if (device_->storage(host.dtype) != host.dtype) {
    convert(host, add(name, type));
    return;
  }
  check(!has(name), "parameters: the name '{}' is taken", name);
  Entry e{.type = type, .view = host, .keep_alive = std::move(keep_alive), .frozen = true};
  entries_.emplace(name, std::move(e));
}

const ParamStore::Entry& ParamStore::entry(std::string_view name) const {
  const auto it = entries_.find(name);
  check(it != entries_.end(), "parameters: there is no tensor '{}'", name);
  return it->second;
}

View ParamStore::get(std::string_view name) const { return entry(name).view; }

std::vector<float> ParamStore::read(std::string_view name) const {
  const View& v = entry(name).view;
  std::vector<float> out(size_t(v.count()));
  convert(v, View(out.data(), DType::f32, v.shape));
  return out;
}

void ParamStore::write(std::string_view name, std::span<const float> values) {
  const Entry& e = entry(name);
  check(!e.frozen, "parameters: '{}' is mapped from a file and cannot be written", name);
  check(int64_t(values.size()) == e.view.count(), "parameters: {} values for '{}' of type {}", values.size(), name,
        e.type.str());
  convert(View(const_cast<float*>(values.data()), DType::f32, e.view.shape), e.view);
}

std::vector<std::string> ParamStore::names() const {
  std::vector<std::string> result;
  for (const auto& [name, e] : entries_) result.push_back(name);
  return result;
}

size_t ParamStore::bytes() const {
  size_t n = 0;
  for (const auto& [name, e] : entries_) n += e.bytes;
  return n;
}

}  // namespace toy
