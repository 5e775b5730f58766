#include <algorithm>
#include <utility>

#include "runtime/arena.h"
#include "toy/base/memory.h"
#include "toy/runtime/session.h"
#include "toy/tensor/convert.h"

namespace toy {

void ParamStore::add(const std::vector<std::pair<std::string, TensorType>>& tensors) {
  const auto bytes = [this](const TensorType& t) { return bytes_of(device_->storage(t.dtype), t.shape); };
  size_t all = 0;
  for (const auto& [name, type] : tensors) {
    check(!has(name), "parameters: the name '{}' is taken", name);
    check_rows(type.dtype, type.shape, "parameters: tensor '" + name + "'");
    all += round_up(bytes(type), device_->alignment());
  }
  Place at = allocate(all);
  for (const auto& [name, type] : tensors) {
    const bool added = entries_.emplace(name, Entry{.type = type, .at = at}).second;
    check(added, "parameters: the name '{}' is given twice", name);
    bytes_ += bytes(type);
    at = at + round_up(bytes(type), device_->alignment());
  }
}

// Tensors lie together in few large buffers, which huge pages can hold: of each tensor alone, only what happens to fill
// a page of 2 MiB would. Buffers grow with the store; of large ones, what is not touched yet costs the host nothing,
// but other devices hold all of it.
Place ParamStore::allocate(size_t bytes) {
  const size_t largest = size_t(1) << (device_->host_visible() ? 28 : 22);
  const size_t size = std::clamp(bytes_, size_t(1) << 16, largest);
  if (bytes > size / 2) return full_.emplace_back(*device_, bytes).at();
  if (used_ + bytes > shared_.bytes()) {
    // No more than is needed where memory is short.
    if (!device_->host_visible() && size > device_->memory().free / 8) return full_.emplace_back(*device_, bytes).at();
    full_.push_back(std::exchange(shared_, DeviceBuffer(*device_, size)));
    used_ = 0;
  }
  return shared_.at(std::exchange(used_, used_ + bytes));
}

void ParamStore::bind(const std::string& name, const View& host, std::shared_ptr<const void> keep_alive, bool mapped) {
  check(host.data || host.count() == 0, "store: tensor '{}' has no data", name);
  check(host.contiguous(), "store: tensor '{}' is a strided view of {}; give a contiguous one", name, host.shape.str());
  const TensorType type{host.dtype, host.shape, 0};
  if (!device_->host_visible() || device_->storage(host.dtype) != host.dtype) {
    add(name, type);
    write(name, host);
  } else {
    check(!has(name), "parameters: the name '{}' is taken", name);
    entries_.emplace(
        name,
        Entry{.type = type, .at = {host.data}, .keep_alive = std::move(keep_alive), .frozen = true, .mapped = mapped});
  }
}

void ParamStore::release(std::string_view name) const {
  const Entry& e = entry(name);
  if (e.mapped) release_mapped({device_->host(e.at), bytes_of(stored(name), e.type.shape)});
}

const ParamStore::Entry& ParamStore::entry(std::string_view name) const {
  const auto it = entries_.find(name);
  check(it != entries_.end(), "parameters: there is no tensor '{}'", name);
  return it->second;
}

const ParamStore::Entry& ParamStore::writable(std::string_view name) const {
  const Entry& e = entry(name);
  check(!e.frozen, "parameters: '{}' is mapped from a file and cannot be written", name);
  return e;
}

HostTensor ParamStore::host(std::string_view name) const {
  const Entry& e = entry(name);
  return {*device_, e.at, View(nullptr, stored(name), e.type.shape)};
}

std::vector<float> ParamStore::read(std::string_view name) const {
  const HostTensor t = host(name);
  std::vector<float> out(size_t(t.view().count()));
  convert(t.view(), View(out.data(), DType::f32, t.view().shape));
  return out;
}

void ParamStore::write(std::string_view name, const View& values) {
  const Entry& e = writable(name);
  check(values.count() == e.type.count(), "parameters: {} values for '{}' of type {}", values.count(), name,
        e.type.str());
  check(values.contiguous(), "parameters: the values for '{}' are a strided view; give a contiguous one", name);
  store_values(*device_, e.at, stored(name), View(values.data, values.dtype, e.type.shape));
}

void ParamStore::write(std::string_view name, std::span<const float> values) {
  write(name, View(const_cast<float*>(values.data()), DType::f32, {int64_t(values.size())}));
}

void ParamStore::clear(std::string_view name) {
  const Entry& e = writable(name);
  device_->fill(e.at, std::byte{0}, bytes_of(stored(name), e.type.shape));
}

void ParamStore::clear() {
  for (const DeviceBuffer& b : full_) device_->fill(b.at(), std::byte{0}, b.bytes());
  if (used_ > 0) device_->fill(shared_.at(), std::byte{0}, used_);
}

std::vector<std::string> ParamStore::names() const {
  std::vector<std::string> result;
  for (const auto& [name, e] : entries_) result.push_back(name);
  return result;
}

}  // namespace toy
