#include "hf/pieces.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/convert.h"

namespace toy::hf {
namespace {

constexpr int64_t kElements = int64_t(1) << 20;  // converted at a time

void store(const std::string& name, const View& from, const View& to) try {
  convert_finite(from, to);
} catch (const Error& e) {
  throw Error(e.code(), fmt::format("tensor '{}': {}", name, e.what()));
}

void apply(const Change& change, const std::string& name, std::span<float> values) {
  for (float& v : values) {
    const float x = v;
    if (change.function == Change::minus_exp) {
      v = float(-std::exp(double(x)));
      check(v < 0 && std::isfinite(v), "tensor '{}': -exp of {} would be {}, expected below 0", name, x, v);
    } else if (change.function == Change::log_minus) {
      check(x < 0 && std::isfinite(x), "tensor '{}': the logarithm of minus {}; expected a number below 0", name, x);
      v = float(std::log(-double(x)));
    }
    v = v * change.scale + change.add;
  }
}

// A part of a tensor, and where it is written to.
class Stream {
 public:
  Stream(const Output& out, const gguf::Writer::Sink& sink) : name_(out.name), stored_(out.stored), sink_(sink) {}

  void operator()(const Rows& part) const {
    const auto &rows = *part.rows, &columns = *part.columns;
    const int64_t wide = int64_t(columns.size()), step = std::max<int64_t>(1, kElements / wide);
    View matrix = part.matrix;
    const bool in_order =
        columns.back() - columns.front() == wide - 1 && std::is_sorted(columns.begin(), columns.end());
    if (in_order) {
      matrix.data = matrix.as<std::byte>() + bytes_of(matrix.dtype, columns[0] * matrix.stride[1]);
      matrix.shape[1] = wide;
    }
    const bool as_is = in_order && part.change.is_none();
    for (size_t first = 0; first < rows.size(); first += size_t(step)) {
      const std::span some(rows.data() + first, std::min(size_t(step), rows.size() - first));
      const Buffer buffer(bytes_of(stored_, int64_t(some.size()) * wide));
      const View to(buffer.data(), stored_, {int64_t(some.size()), wide});
      if (as_is) {
        copy(matrix, some, to);
      } else {
        std::vector<float> values(some.size() * size_t(matrix.shape[1])), picked;
        copy(matrix, some, View(values.data(), DType::f32, {to.shape[0], matrix.shape[1]}));
        if (!in_order) {
          for (auto row = values.begin(); row < values.end(); row += matrix.shape[1])
            for (const int64_t column : columns) picked.push_back(row[column]);
          values = std::move(picked);
        }
        apply(part.change, name_, values);
        store(name_, View(values.data(), DType::f32, to.shape), to);
      }
      sink_({to.as<std::byte>(), to.bytes()});
    }
  }

  void operator()(const Columns& part) const {
    const int64_t columns = part.sources[0].matrix.shape[1];
    std::vector<float> values, turned(size_t(columns * part.width));
    for (const auto& [matrix, at] : part.sources) {
      values.resize(size_t(matrix.count()));
      convert(matrix, View(values.data(), DType::f32, matrix.shape));
      for (size_t r = 0; r < at->size(); ++r)
        for (int64_t c = 0; c < columns; ++c)
          turned[size_t(c * part.width + (*at)[r])] = values[r * size_t(columns) + size_t(c)];
    }
    write(View(turned.data(), DType::f32, {columns, part.width}));
  }

  void operator()(const PackedRows& part) const {
    const int64_t columns = part.groups * info_of(DType::mxfp4).block;
    const size_t row_bytes = bytes_of(DType::mxfp4, columns);
    const auto step = size_t(std::max<int64_t>(1, kElements / columns));
    std::vector<std::byte> blocks;
    for (size_t first = 0; first < part.rows->size(); first += step) {
      const size_t count = std::min(step, part.rows->size() - first);
      blocks.resize(count * row_bytes);
      for (size_t r = 0; r < count; ++r) pack_row(part, (*part.rows)[first + r], blocks.data() + r * row_bytes);
      write(View(blocks.data(), DType::mxfp4, {int64_t(count), columns}));
    }
  }

 private:
  void write(const View& from) const {
    const Buffer buffer(bytes_of(stored_, from.shape));
    const View to(buffer.data(), stored_, from.shape);
    store(name_, from, to);
    sink_({to.as<std::byte>(), to.bytes()});
  }

  // Those rows of the matrix, as many at once as follow each other.
  void copy(const View& matrix, std::span<const int64_t> rows, const View& to) const {
    for (size_t i = 0, n = 0; i < rows.size(); i += n) {
      for (n = 1; i + n < rows.size() && rows[i + n] == rows[i] + int64_t(n);) ++n;
      View from = matrix;
      from.shape[0] = int64_t(n);
      from.data = matrix.as<std::byte>() + bytes_of(matrix.dtype, rows[i] * matrix.stride[0]);
      store(name_, from, View(to.as<std::byte>() + bytes_of(to.dtype, int64_t(i) * to.shape[1]), to.dtype, from.shape));
    }
  }

  // In a group, byte i has the elements 2i and 2i + 1. In a block of a GGUF, byte j has j and j + 16.
  static void pack_row(const PackedRows& part, int64_t row, std::byte* to) {
    constexpr int64_t kBytes = 16;
    for (int64_t g = row * part.groups, end = g + part.groups; g < end; ++g) {
      const std::byte* from = part.blocks + g * kBytes;
      const auto element = [from](int64_t i) { return from[i / 2] >> (i % 2 * 4) & std::byte(15); };
      *to++ = part.scales[g];
      for (int64_t j = 0; j < kBytes; ++j) *to++ = element(j) | element(j + 16) << 4;
    }
  }

  const std::string& name_;
  DType stored_;
  const gguf::Writer::Sink& sink_;
};

}  // namespace

Change Change::inverse() const {
  const Function back = function == minus_exp ? log_minus : function == log_minus ? minus_exp : identity;
  return {back, 1 / scale, -add / scale};
}

void Output::stream(const gguf::Writer::Sink& sink) const {
  for (const auto& [row, part] : parts) std::visit(Stream(*this, sink), part);
}

}  // namespace toy::hf
