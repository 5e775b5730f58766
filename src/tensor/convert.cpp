#include "toy/tensor/convert.h"

#include <algorithm>
#include <cstring>

#include "toy/base/error.h"
#include "toy/tensor/quantize.h"

namespace toy {
namespace {

double load(const void* p, DType t, int64_t i) {
  switch (t) {
    case DType::f32:
      return static_cast<const float*>(p)[i];
    case DType::f64:
      return static_cast<const double*>(p)[i];
    case DType::f16:
      return to_float(static_cast<const F16*>(p)[i]);
    case DType::bf16:
      return to_float(static_cast<const BF16*>(p)[i]);
    case DType::i32:
      return static_cast<const int32_t*>(p)[i];
    default:
      fail_without_element_size(t);
  }
}

void store(void* p, DType t, int64_t i, double v) {
  switch (t) {
    case DType::f32:
      static_cast<float*>(p)[i] = float(v);
      break;
    case DType::f64:
      static_cast<double*>(p)[i] = v;
      break;
    case DType::f16:
      static_cast<F16*>(p)[i] = to_f16(float(v));
      break;
    case DType::bf16:
      static_cast<BF16*>(p)[i] = to_bf16(float(v));
      break;
    case DType::i32:
      static_cast<int32_t*>(p)[i] = int32_t(v);
      break;
    default:
      fail_without_element_size(t);
  }
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
  int64_t target = 0;
  convert_dim(from, to, 0, 0, target);
}

double element(const View& v, int64_t i) {
  if (!is_quantized(v.dtype)) return load(v.data, v.dtype, i);
  float block[256];
  const int64_t width = info_of(v.dtype).block;
  dequantize(v.dtype, v.as<std::byte>() + bytes_of(v.dtype, i / width * width), {block, size_t(width)});
  return block[i % width];
}

}  // namespace toy
