#include "toy/tensor/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "toy/base/error.h"
#include "toy/tensor/quantize.h"

namespace toy {
namespace {

/// Calls f.template operator()<T>() for the storage of a type.
template <class F>
auto with_storage(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<F16>();
    case DType::bf16:
      return f.template operator()<BF16>();
    case DType::i32:
      return f.template operator()<int32_t>();
    default:
      fail_without_element_size(t);
  }
}

template <class T>
double load_as(const void* p, int64_t i) {
  const T v = static_cast<const T*>(p)[i];
  if constexpr (std::is_arithmetic_v<T>)
    return double(v);
  else
    return double(to_float(v));
}

template <class T>
void store_as(void* p, int64_t i, double v) {
  T& to = static_cast<T*>(p)[i];
  if constexpr (std::is_same_v<T, F16>)
    to = to_f16(float(v));
  else if constexpr (std::is_same_v<T, BF16>)
    to = to_bf16(float(v));
  else
    to = T(v);
}

double load(const void* p, DType t, int64_t i) {
  return with_storage(t, [&]<class T>() { return load_as<T>(p, i); });
}

void store(void* p, DType t, int64_t i, double v) {
  with_storage(t, [&]<class T>() { store_as<T>(p, i, v); });
}

void convert_contiguous(const View& from, const View& to) {
  with_storage(from.dtype, [&]<class From>() {
    with_storage(to.dtype, [&]<class To>() {
      for (int64_t i = 0, n = from.count(); i < n; ++i) store_as<To>(to.data, i, load_as<From>(from.data, i));
    });
  });
}

void convert_dim(const View& from, const View& to, int dim, int64_t source, int64_t& target) {
  if (dim == from.shape.rank()) {
    store(to.data, to.dtype, target++, load(from.data, from.dtype, source));
    return;
  }
  for (int64_t i = 0; i < from.shape[dim]; ++i)
    convert_dim(from, to, dim + 1, source + i * from.stride[size_t(dim)], target);
}

// By way of f32, and so many values at a time, which are whole blocks of any type.
void convert_quantized(const View& from, const View& to) {
  check(from.contiguous(), "convert: a strided view of {}", name_of(from.dtype));
  constexpr int64_t kPiece = 4096;
  float values[kPiece];
  for (int64_t first = 0, count = from.count(); first < count; first += kPiece) {
    const std::span<float> piece(values, size_t(std::min(kPiece, count - first)));
    auto at = [&](const View& v) {
      return View(v.as<std::byte>() + bytes_of(v.dtype, first), v.dtype, {int64_t(piece.size())});
    };
    const View f32(values, DType::f32, {int64_t(piece.size())});
    if (is_quantized(from.dtype))
      dequantize(from.dtype, at(from).data, piece);
    else
      convert(at(from), f32);
    if (is_quantized(to.dtype))
      quantize(to.dtype, piece, {}, at(to).data);
    else
      convert(f32, at(to));
  }
}

}  // namespace

void convert(const View& from, const View& to) {
  check(from.shape == to.shape && to.contiguous(), "convert: {} to {}", from.shape.str(), to.shape.str());
  if (from.dtype == to.dtype && from.contiguous()) {
    if (from.bytes()) std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  if (is_quantized(from.dtype) || is_quantized(to.dtype)) return convert_quantized(from, to);
  if (from.contiguous()) return convert_contiguous(from, to);
  int64_t target = 0;
  convert_dim(from, to, 0, 0, target);
}

void convert_finite(const View& from, const View& to) {
  convert(from, to);
  if (to.dtype != DType::f16 || from.dtype == DType::f16) return;
  const std::span halves(to.as<F16>(), size_t(to.count()));
  const auto is_infinite = [](F16 h) { return (h.bits & 0x7FFF) == 0x7C00; };
  if (std::none_of(halves.begin(), halves.end(), is_infinite)) return;
  std::vector<double> values(halves.size());
  convert(from, View(values.data(), DType::f64, from.shape));
  for (size_t i = 0; i < halves.size(); ++i)
    check(!is_infinite(halves[i]) || !std::isfinite(values[i]), "a value of {} is too large for f16; use bf16 or f32",
          values[i]);
}

double element(const View& v, int64_t i) {
  if (!is_quantized(v.dtype)) return load(v.data, v.dtype, i);
  float block[256];
  const int64_t width = info_of(v.dtype).block;
  dequantize(v.dtype, v.as<std::byte>() + bytes_of(v.dtype, i / width * width), {block, size_t(width)});
  return block[i % width];
}

}  // namespace toy
