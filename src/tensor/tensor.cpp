#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "toy/base/error.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/shape.h"

namespace toy {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  for (const int64_t d : dims) push_back(d);
}

void Shape::push_back(int64_t dim) {
  check(rank_ < kMaxRank, "shape: more than {} dimensions", kMaxRank);
  dims_[rank_++] = dim;
}

int64_t Shape::count() const {
  int64_t n = 1;
  for (const int64_t d : *this) n *= d;
  return n;
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string Shape::str() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i ? "," : "") + std::to_string(dims_[i]);
  return s + "]";
}

void fail_without_element_size(DType t) { fail_internal("{}: a quantized type has no elements of a size", name_of(t)); }

void check_rows(DType type, const Shape& shape, std::string_view who) {
  const int64_t width = shape.rank() > 0 ? shape.back() : 1;
  check(width % info_of(type).block == 0, "{}: row length {} is not a multiple of {}, the block size of {}", who, width,
        info_of(type).block, name_of(type));
}

View::View(void* data_in, DType dtype_in, const Shape& shape_in) : data(data_in), dtype(dtype_in), shape(shape_in) {
  if (is_quantized(dtype)) check_rows(dtype, shape, "a view");
  int64_t s = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    stride[i] = s;
    s *= shape[i];
  }
}

bool View::contiguous() const {
  int64_t s = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && stride[i] != s) return false;
    s *= shape[i];
  }
  return true;
}

bool View::rows_contiguous() const {
  const int r = shape.rank();
  return r == 0 || shape[r - 1] <= 1 || stride[r - 1] == 1;
}

namespace {

constexpr size_t kHugePage = size_t(1) << 21;  // buffers of a huge page and more are mapped
constexpr size_t kPage = size_t(1) << 16;      // other pages are at most so large

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// From the start of a huge page on, so that nearly all of it can lie in huge pages: a 4 KiB page costs a walk of tables
// each time the processor has forgotten it, and the hardware fetches ahead only to its end.
std::byte* map_pages(size_t bytes) {
  const size_t wanted = round_up(bytes, kPage), mapped = wanted + kHugePage;
  void* const p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  std::byte* const base = static_cast<std::byte*>(p);
  const size_t before =
      round_up(size_t(reinterpret_cast<uintptr_t>(base)), kHugePage) - reinterpret_cast<uintptr_t>(base);
  if (before > 0) munmap(base, before);
  munmap(base + before + wanted, mapped - before - wanted);
  madvise(base + before, wanted, MADV_HUGEPAGE);
  return base + before;
}

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes >= kHugePage) {  // zeroed by the system, page by page when touched
    data_ = map_pages(bytes);
  } else {
    const size_t padded = round_up(bytes, 64);
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, padded));
    if (data_) std::memset(data_, 0, padded);
  }
  if (!data_) fail_internal("memory: the system refused {} MiB", bytes >> 20);
}

Buffer::~Buffer() {
  if (!data_) return;
  if (bytes_ >= kHugePage)
    munmap(data_, round_up(bytes_, kPage));
  else
    std::free(data_);
}

}  // namespace toy
