// pad and repeat: other ops put together.
#include "ops/defs.h"

namespace toy {

Value pad(Value x, int axis, int64_t before, int64_t after, double value) {
  const TensorType t = x.type();
  check_axis("pad", axis, t);
  check(before >= 0 && after >= 0, "pad: {} elements before and {} after, expected 0 or more; slice() removes", before,
        after);
  const auto block = [&](int64_t count) {
    Shape s = t.shape;
    s[axis] = count;
    return broadcast_to(x.graph->scalar(value, t.dtype), s);
  };
  std::vector<Value> parts;
  if (before > 0) parts.push_back(block(before));
  parts.push_back(x);
  if (after > 0) parts.push_back(block(after));
  return parts.size() == 1 ? x : concat(parts, axis);
}

Value repeat(Value x, int axis, int64_t times) {
  const TensorType t = x.type();
  check_axis("repeat", axis, t);
  check(times >= 1, "repeat: {} times, expected 1 or more", times);
  check(axis != 0 || t.rows == 0, "repeat: run-time rows cannot be repeated; pick rows with embedding()");
  int64_t outer = 1, inner = 1;  // what stands before the axis (but for run-time rows), and from it on
  for (int i = t.rows ? 1 : 0; i < axis; ++i) outer *= t.shape[i];
  for (int i = axis; i < t.shape.rank(); ++i) inner *= t.shape[i];
  Shape one, many, result = t.shape;
  if (t.rows) one = many = {-1}, result[0] = -1;
  for (const int64_t d : {outer, int64_t(1), inner}) one.push_back(d);
  for (const int64_t d : {outer, times, inner}) many.push_back(d);
  const Value repeated = broadcast_to(reshape(x, one), many);  // throws where there are more than can be counted
  result[axis] *= times;
  return reshape(repeated, result);
}

}  // namespace toy
