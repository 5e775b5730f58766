// Arrays of numpy, and of all that speak DLPack.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "module.h"
#include "toy/backend/device.h"
#include "toy/base/error.h"

inline std::vector<size_t> shape_of(const toy::Shape& shape) {
  std::vector<size_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(size_t(shape[i]));
  return sizes;
}

/// An array that owns its values.
template <class T>
nb::object array_of(std::vector<T> values, const std::vector<size_t>& shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

/// numpy's name of a dtype; throws for those that it does not have.
inline nb::dlpack::dtype dtype_of(toy::DType dtype, const std::string& name) {
  switch (dtype) {
    case toy::DType::f32:
      return nb::dtype<float>();
    case toy::DType::f64:
      return nb::dtype<double>();
    case toy::DType::i32:
      return nb::dtype<int32_t>();
    case toy::DType::f16:
      return {uint8_t(nb::dlpack::dtype_code::Float), 16, 1};
    default:
      toy::fail("tensor '{}' is {}, which numpy does not have; use dequantize()", name, toy::name_of(dtype));
  }
}

/// A view of a tensor without a copy, which keeps `owner` alive.
template <class Owner>
nb::object look_at(Owner owner, toy::HostTensor tensor, const std::string& name, bool may_write) {
  struct Looked {
    Owner owner;  // destroyed last
    toy::HostTensor tensor;
  };
  auto looked = std::make_unique<Looked>(Looked{std::move(owner), std::move(tensor)});
  const toy::View view = looked->tensor.view();
  const nb::dlpack::dtype type = dtype_of(view.dtype, name);
  const std::vector<size_t> shape = shape_of(view.shape);
  const nb::capsule kept(looked.release(), [](void* p) noexcept { delete static_cast<Looked*>(p); });
  if (may_write) return nb::cast(nb::ndarray<nb::numpy>(view.data, shape.size(), shape.data(), kept, nullptr, type));
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, shape.size(), shape.data(), kept, nullptr, type));
}

/// What an array of any library looks at. Throws Error{bad_input} where it is not on the CPU, not contiguous, or of a
/// dtype that a graph does not have. The array must outlive the view.
inline toy::View view_of(const std::string& name, const nb::ndarray<nb::ro>& array) {
  toy::check(array.device_type() == nb::device::cpu::value, "'{}' is an array on another device; copy it to the CPU",
             name);
  toy::check(array.ndim() <= size_t(toy::kMaxRank), "'{}' has {} dimensions; there are at most {}", name, array.ndim(),
             toy::kMaxRank);
  std::vector<int64_t> sizes;
  int64_t stride = 1;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(int64_t(array.shape(i)));
  for (size_t i = array.ndim(); i-- > 0; stride *= sizes[i])
    toy::check(array.stride(i) == stride || sizes[i] <= 1 || array.size() == 0,
               "'{}' is a strided view; give a contiguous array, such as numpy.ascontiguousarray() makes", name);
  std::optional<toy::DType> dtype;
  for (const toy::DType t : {toy::DType::f32, toy::DType::i32, toy::DType::f16, toy::DType::f64})
    if (array.dtype() == dtype_of(t, name)) dtype = t;
  if (!dtype && array.dtype() == nb::dlpack::dtype{uint8_t(nb::dlpack::dtype_code::Bfloat), 16, 1})
    dtype = toy::DType::bf16;
  toy::check(bool(dtype), "'{}' has elements of a dtype that graphs do not have; use float32 or int32", name);
  return {const_cast<void*>(array.data()), *dtype, toy::Shape(std::span<const int64_t>(sizes))};
}
