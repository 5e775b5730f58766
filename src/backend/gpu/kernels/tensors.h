// Kernels with a table of tensors go over all of them in one launch: each group has elements of one tensor.
#ifndef TOY_GPU_TENSORS_H
#define TOY_GPU_TENSORS_H
#include "dialect.h"

// The tensor that this group belongs to: the last one whose first group is not behind it.
DEVICE TensorPlace tensor_of_group(GLOBAL const TensorPlace* tensors, int count) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tensors[middle].first <= GROUP_X)
      low = middle;
    else
      high = middle;
  }
  return tensors[low];
}
// Where this group's elements begin and end, `size` to a group.
DEVICE int64 begin_of_group(const TensorPlace* t, int size) { return (int64)(GROUP_X - t->first) * size; }
DEVICE int64 end_of_group(const TensorPlace* t, int size) {
  const int64 end = begin_of_group(t, size) + size;
  return end < t->n ? end : t->n;
}
#endif
