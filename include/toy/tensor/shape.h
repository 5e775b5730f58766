// Shapes (row-major, outermost first) and strided views of memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "toy/tensor/dtype.h"

namespace toy {

inline constexpr int kMaxRank = 5;

/// Sizes of up to kMaxRank dimensions, outermost first. Rank 0 is a scalar.
class Shape {
 public:
  Shape() = default;
  /// Throws Error{bad_input} for more than kMaxRank dimensions.
  Shape(std::initializer_list<int64_t> dims);
  /// @copydoc Shape(std::initializer_list<int64_t>)
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  /// Counted from the end: back(0) is the innermost.
  int64_t back(int i = 0) const { return dims_[rank_ - 1 - i]; }
  /// Product of all dimensions; 1 for a scalar.
  int64_t count() const;
  /// Appends an innermost dimension.
  void push_back(int64_t dim);
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b);
  /// "[2,3]"
  std::string str() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Throws Error{bad_input} naming `who` ("tensor 'x'") unless rows of this shape are whole blocks of the type.
void check_rows(DType type, const Shape& shape, std::string_view who);
/// Bytes of a contiguous tensor. Throws as check_rows.
inline size_t bytes_of(DType type, const Shape& shape) {
  if (is_quantized(type)) check_rows(type, shape, "a tensor");
  return bytes_of(type, shape.count());
}

/// Typed strided memory, not owned. Strides are in elements. Rows of a quantized type are contiguous, whole blocks.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::array<int64_t, kMaxRank> stride{};

  View() = default;
  /// Contiguous row-major. Throws as check_rows.
  View(void* data_in, DType dtype_in, const Shape& shape_in);

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t count() const { return shape.count(); }
  size_t bytes() const { return bytes_of(dtype, shape); }
  bool contiguous() const;
  /// The innermost dimension has stride 1 (or there is at most one element in it).
  bool rows_contiguous() const;
};

}  // namespace toy
