// Values as bytes, for messages between processes that run the same program.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "toy/base/error.h"

namespace toy {

/// Writes values one after another. What a type consists of is said once, in archive(a, value) or in its list of
/// options (toy/base/options.h), for writing and reading.
class Packer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void raw(const void* data, size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  template <class T>
  void put(const T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(&v, sizeof v);
    } else if constexpr (requires {
                           v.value();
                           v.has_value();
                         }) {
      put(v.has_value());
      if (v) put(*v);
    } else if constexpr (requires {
                           v.first;
                           v.second;
                         }) {
      put(v.first), put(v.second);
    } else if constexpr (requires {
                           v.size();
                           v.begin();
                         }) {
      put(uint64_t(v.size()));
      using Element = std::decay_t<decltype(*v.begin())>;
      if constexpr (requires { v.data(); } && (std::is_arithmetic_v<Element> || std::is_enum_v<Element>))
        raw(v.data(), v.size() * sizeof(Element));
      else
        for (const auto& e : v) put(e);
    } else {
      archive(*this, const_cast<T&>(v));
    }
  }
  std::vector<std::byte> bytes_;
};

/// Reads what Packer wrote. Throws Error{failure} for bytes that are too few.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

 private:
  void raw(void* data, size_t size) {
    if (size > bytes_.size()) fail_internal("ranks: a message of another version of toy");
    if (size > 0) std::memcpy(data, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  template <class T>
  void get(T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(&v, sizeof v);
    } else if constexpr (requires {
                           v.value();
                           v.has_value();
                         }) {
      bool there = false;
      get(there);
      v.reset();
      if (there) get(v.emplace());
    } else if constexpr (requires {
                           v.first;
                           v.second;
                         }) {
      get(v.first), get(v.second);
    } else if constexpr (requires { typename T::mapped_type; }) {
      uint64_t size = 0;
      get(size);
      for (uint64_t i = 0; i < size; ++i) {
        typename T::key_type key;
        get(key), get(v[key]);
      }
    } else if constexpr (requires {
                           v.size();
                           v.begin();
                         }) {
      uint64_t size = 0;
      get(size);
      if (size > bytes_.size()) fail_internal("ranks: a message of another version of toy");
      v.resize(size);
      using Element = std::decay_t<decltype(*v.begin())>;
      if constexpr (std::is_arithmetic_v<Element> || std::is_enum_v<Element>)
        raw(v.data(), v.size() * sizeof(Element));
      else
        for (auto& e : v) get(e);
    } else {
      archive(*this, v);
    }
  }
  std::span<const std::byte> bytes_;
};

}  // namespace toy
