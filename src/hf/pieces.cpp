#include "hf/pieces.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "toy/base/error.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/convert.h"

namespace toy::hf {
namespace {

constexpr int64_t kElements = int64_t(1) << 20;  // converted at a time, or one head

// `count` rows from `first` on. Quantized rows are dequantized into `values`.
View slice(const View& rows, int64_t first, int64_t count, std::vector<float>& values) {
  View part = rows;
  part.shape[0] = count;
  const int64_t at = first * rows.stride[0];
  part.data = static_cast<std::byte*>(rows.data) + bytes_of(rows.dtype, at);
  if (!is_quantized(rows.dtype)) return part;
  values.resize(size_t(part.count()));
  const View out(values.data(), DType::f32, part.shape);
  convert(View(part.data, part.dtype, part.shape), out);
  return out;
}

// Rows of whole heads in their new order, copied to `bytes`. Of a head's `width` rows, the first `turned` move.
View reordered(const View& rows, Piece::Order order, int64_t width, int64_t turned, std::vector<std::byte>& bytes) {
  const size_t row = bytes_of(rows.dtype, rows.shape[1]);
  bytes.resize(row * size_t(rows.shape[0]));
  for (int64_t r = 0; r < rows.shape[0]; ++r) {
    const int64_t in_head = r % width, half = turned / 2;
    const int64_t from = in_head >= turned       ? in_head
                         : order == Piece::pairs ? in_head % 2 * half + in_head / 2
                                                 : in_head % half * 2 + in_head / half;
    const int64_t source = (r - in_head + from) * rows.stride[0];
    std::memcpy(bytes.data() + size_t(r) * row, static_cast<std::byte*>(rows.data) + bytes_of(rows.dtype, source), row);
  }
  return {bytes.data(), rows.dtype, rows.shape};
}

// The columns of a matrix in their new order.
View with_columns(const View& rows, const Piece::Columns& c) {
  View v = rows;
  const int64_t in_group = rows.shape[1] / (c.groups * c.width), column = rows.stride[1];
  v.shape = {rows.shape[0], in_group, c.groups, c.width};
  v.stride = {rows.stride[0], c.width * column, in_group * c.width * column, column};
  return v;
}

View transposed(const View& rows) {
  View v = rows;
  v.shape = {rows.shape[1], rows.shape[0]};
  v.stride = {rows.stride[1], rows.stride[0]};
  return v;
}

void store(const std::string& name, const View& from, const View& to) try {
  convert_finite(from, to);
} catch (const Error& e) {
  throw Error(e.code(), fmt::format("tensor '{}': {}", name, e.what()));
}

void apply(const Piece& piece, const std::string& name, std::span<float> values) {
  for (float& v : values) {
    const float x = v;
    if (piece.function == Piece::minus_exp) {
      v = float(-std::exp(double(x)));
      check(v < 0 && std::isfinite(v), "tensor '{}': -exp of {} would be {}, expected below 0", name, x, v);
    } else if (piece.function == Piece::log_minus) {
      check(x < 0 && std::isfinite(x), "tensor '{}': the logarithm of minus {}; expected a number below 0", name, x);
      v = float(std::log(-double(x)));
    }
    v = v * piece.scale + piece.add;
  }
}

void stream_piece(const Piece& piece, const std::string& name, DType stored, const gguf::Writer::Sink& sink) {
  const int64_t rows = piece.rows.shape[0], width = rows / piece.heads;
  const int64_t unit = piece.transposed ? rows : piece.order == Piece::as_is ? 1 : width;
  const int64_t step = std::max<int64_t>(1, kElements / (unit * piece.rows.shape[1])) * unit;
  const bool changes = piece.scale != 1 || piece.add != 0 || piece.function != Piece::identity;
  std::vector<float> values, changed;
  std::vector<std::byte> moved;
  for (int64_t first = 0; first < rows; first += step) {
    View from = slice(piece.rows, first, std::min(step, rows - first), values);
    if (piece.order != Piece::as_is)
      from = reordered(from, piece.order, width, piece.turned > 0 ? piece.turned : width, moved);
    if (piece.transposed) from = transposed(from);
    if (piece.columns.groups > 0) from = with_columns(from, piece.columns);
    const Buffer buffer(bytes_of(stored, from.count()));
    const View to(buffer.data(), stored, from.shape);
    if (changes) {
      changed.resize(size_t(from.count()));
      const View between(changed.data(), DType::f32, from.shape);
      convert(from, between);
      apply(piece, name, changed);
      store(name, between, to);
    } else {
      store(name, from, to);
    }
    sink({static_cast<const std::byte*>(to.data), to.bytes()});
  }
}

// Of a row: in a group, byte i has the elements 2i and 2i + 1. In a block of a GGUF, byte j has j and j + 16.
void pack_row(const Piece::Packed& p, int64_t row, std::byte* to) {
  constexpr int64_t kBytes = 16;
  for (int64_t g = row * p.step * p.groups, end = g + p.groups; g < end; ++g) {
    const std::byte* from = p.blocks + g * kBytes;
    const auto element = [from](int64_t i) { return from[i / 2] >> (i % 2 * 4) & std::byte(15); };
    *to++ = p.scales[g];
    for (int64_t j = 0; j < kBytes; ++j) *to++ = element(j) | element(j + 16) << 4;
  }
}

void stream_packed(const Piece::Packed& p, const std::string& name, DType stored, const gguf::Writer::Sink& sink) {
  const int64_t columns = p.groups * info_of(DType::mxfp4).block;
  const size_t row_bytes = bytes_of(DType::mxfp4, columns);
  const int64_t step = std::max<int64_t>(1, kElements / columns);
  std::vector<std::byte> blocks;
  for (int64_t first = 0; first < p.rows; first += step) {
    const int64_t count = std::min(step, p.rows - first);
    blocks.resize(size_t(count) * row_bytes);
    for (int64_t r = 0; r < count; ++r) pack_row(p, first + r, blocks.data() + size_t(r) * row_bytes);
    const Buffer buffer(bytes_of(stored, count * columns));
    const View to(buffer.data(), stored, {count, columns});
    store(name, View(blocks.data(), DType::mxfp4, {count, columns}), to);
    sink({static_cast<const std::byte*>(to.data), to.bytes()});
  }
}

void stream_columns(std::span<const Piece> pieces, const std::string& name, DType stored,
                    const gguf::Writer::Sink& sink) {
  const int64_t rows = pieces[0].rows.shape[0], columns = pieces[0].rows.shape[1], n = int64_t(pieces.size());
  std::vector<float> values(size_t(rows * columns)), turned(size_t(n * rows * columns));
  for (int64_t k = 0; k < n; ++k) {
    const View& from = pieces[size_t(k)].rows;
    convert(from, View(values.data(), DType::f32, from.shape));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) turned[size_t((c * rows + r) * n + k)] = values[size_t(r * columns + c)];
  }
  const Shape shape{int64_t(turned.size())};
  const Buffer buffer(bytes_of(stored, shape));
  const View to(buffer.data(), stored, shape);
  store(name, View(turned.data(), DType::f32, shape), to);
  sink({static_cast<const std::byte*>(to.data), to.bytes()});
}

}  // namespace

View every(View rows, int64_t step) {
  rows.stride[0] *= step;
  return rows;
}

View rows_of(const View& t, int64_t first, int64_t count) {
  View rows = t;
  if (t.shape.rank() == 1) rows.shape = Shape{t.shape[0], 1}, rows.stride = {t.stride[0], 1};
  rows.shape[0] = count;
  rows.data = static_cast<std::byte*>(t.data) + bytes_of(t.dtype, first * rows.stride[0]);
  return rows;
}

View columns_of(const View& t, int64_t first, int64_t count) {
  View rows = t;
  rows.shape = Shape{count, t.shape[0]};
  rows.stride = {t.stride[1], t.stride[0]};
  rows.data = static_cast<std::byte*>(t.data) + bytes_of(t.dtype, first * t.stride[1]);
  return rows;
}

void Output::stream(const gguf::Writer::Sink& sink) const {
  if (as_columns > 0) {
    for (size_t i = 0; i < pieces.size(); i += size_t(as_columns))
      stream_columns({pieces.data() + i, size_t(as_columns)}, name, stored, sink);
    return;
  }
  for (const Piece& piece : pieces) {
    if (piece.packed)
      stream_packed(*piece.packed, name, stored, sink);
    else
      stream_piece(piece, name, stored, sink);
  }
}

}  // namespace toy::hf
