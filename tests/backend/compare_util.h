// Compares a kernel of the cpu device with the reference kernel of the same op, or where there is none with what the
// reference device makes of the op: every instruction set, 1 to 3
// threads (bit-equal), AVX2 against AVX-512 (bit-equal), in place wherever the record allows it (bit-equal),
// guarded ends, and a tolerance for each element that the test derives from the numbers in it.
#pragma once

#include "backend/kernel_test_util.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/reference/kernels.h"
#include "toy/backend/devices.h"
#include "toy/graph/op_def.h"
#include "toy/ops/attrs/structs.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"
#include "toy/tensor/convert.h"

namespace toy::test {

inline constexpr double kUnit = 0x1p-24;       // largest relative error of one rounding to f32
inline constexpr double kSmallest = 0x1p-126;  // below it a result may be flushed to zero

inline double value_at(const View& v, int64_t i) { return element(v, i); }

inline void set_value(const View& v, int64_t i, double value) {
  switch (v.dtype) {
    case DType::f64:
      v.as<double>()[i] = value;
      break;
    case DType::f32:
      v.as<float>()[i] = float(value);
      break;
    case DType::f16:
      v.as<F16>()[i] = to_f16(float(value));
      break;
    case DType::bf16:
      v.as<BF16>()[i] = to_bf16(float(value));
      break;
    case DType::i32:
      v.as<int32_t>()[i] = int32_t(value);
      break;
    default:
      break;
  }
}

/// An operand of any dtype with guard bytes at both ends. `view` begins as the whole, contiguous; a test may
/// give it other strides or another shape within the memory.
class Tensor {
 public:
  Tensor() = default;  // absent
  Tensor(DType dtype, const Shape& shape) : count_(shape.count()), memory_(2 * kGuard + bytes_of(shape, dtype)) {
    std::memset(memory_.data(), 0xA5, memory_.bytes());
    view = View(memory_.data() + kGuard, dtype, shape);
  }
  /// A copy in a dtype, of the whole memory, with the same view of it.
  Tensor(const Tensor& other, DType dtype) {
    if (!other.view.data) return;
    *this = Tensor(dtype, {other.count_});
    View all = other.view;
    for (int64_t i = 0; i < count_; ++i) set_value(view, i, value_at(all, i));
    all.data = view.data, all.dtype = dtype;
    view = all;
  }
  bool intact() const {
    for (size_t i = 0; i < kGuard && view.data; ++i)
      if (memory_.data()[i] != std::byte{0xA5} || memory_.data()[memory_.bytes() - 1 - i] != std::byte{0xA5})
        return false;
    return true;
  }
  View view;

 private:
  static constexpr size_t kGuard = 64;
  static size_t bytes_of(const Shape& shape, DType dtype) { return size_t(shape.count()) * size_of(dtype); }
  int64_t count_ = 0;
  Buffer memory_;
};

/// Numbers that are even in [low, high), rounded to the dtype; integers for i32.
inline Tensor random_tensor(const Shape& shape, uint32_t seed, double low = -2, double high = 2,
                            DType dtype = DType::f32) {
  Tensor t(dtype, shape);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < shape.count(); ++i)
    set_value(t.view, i, std::floor((low + (high - low) * double(random()) * 0x1p-32) * 0x1p20) * 0x1p-20);
  return t;
}

/// A tensor of these values.
inline Tensor tensor_of(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f32) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < shape.count(); ++i) set_value(t.view, i, values[size_t(i)]);
  return t;
}

struct Comparison {
  KernelRecord cpu;
  KernelRecord reference = {};  ///< none: the device runs the op's decomposition
  std::vector<Tensor> in;
  std::vector<std::pair<DType, Shape>> out;
  Attrs attrs = {};
  /// Largest |cpu - reference| of element i of output o, whose reference value is `expected`.
  std::function<double(int o, int64_t i, double expected)> tolerance = [](int, int64_t, double) { return 0.0; };
  bool aliased = false;           ///< the op always works in place: every pair of the record's at once, and only so
  std::vector<bool> unused = {};  ///< outputs that are not wanted
};

namespace detail {

inline std::vector<View> views_of(const std::vector<Tensor>& tensors) {
  std::vector<View> views;
  for (const Tensor& t : tensors) views.push_back(t.view);
  return views;
}

inline std::vector<Tensor> copies(const std::vector<Tensor>& tensors, bool as_f64 = false) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.emplace_back(t, as_f64 && is_float(t.view.dtype) ? DType::f64 : t.view.dtype);
  return out;
}

inline std::vector<Tensor> outputs(const Comparison& c, bool as_f64 = false) {
  std::vector<Tensor> out;
  for (size_t o = 0; o < c.out.size(); ++o)
    if (o < c.unused.size() && c.unused[o])
      out.emplace_back();
    else
      out.emplace_back(as_f64 && is_float(c.out[o].first) ? DType::f64 : c.out[o].first, c.out[o].second);
  return out;
}

using Bits = std::vector<std::string>;  // the bytes of each output

inline Bits bits_of(const std::vector<View>& views) {
  Bits bits;
  for (const View& v : views) bits.emplace_back(v.data ? v.as<const char>() : "", v.data ? v.bytes() : 0);
  return bits;
}

// Runs on fresh copies, with the outputs of `pairs` in the memory of their inputs.
inline Bits run_once(const Comparison& c, int threads, const std::vector<InPlace>& pairs) {
  const std::vector<Tensor> in = copies(c.in), out = outputs(c);
  const std::vector<View> in_views = views_of(in);
  std::vector<View> out_views = views_of(out);
  for (const InPlace& p : pairs)
    if (out_views[size_t(p.out)].data) out_views[size_t(p.out)].data = in_views[size_t(p.in)].data;
  run_kernel(c.cpu, in_views, out_views, c.attrs, threads);
  for (const Tensor& t : in) EXPECT_TRUE(t.intact());
  for (const Tensor& t : out) EXPECT_TRUE(t.intact());
  return bits_of(out_views);
}

inline void expect_close(const Comparison& c, const Bits& bits, const std::vector<Tensor>& expected) {
  for (size_t o = 0; o < c.out.size(); ++o) {
    if (!expected[o].view.data) continue;
    Tensor actual(c.out[o].first, c.out[o].second);
    std::memcpy(actual.view.data, bits[o].data(), bits[o].size());
    for (int64_t i = 0; i < c.out[o].second.count(); ++i) {
      const double a = value_at(actual.view, i), e = value_at(expected[o].view, i);
      if (std::isnan(a) && std::isnan(e)) continue;
      if (a == e) continue;  // infinities too
      const double tolerance = c.tolerance(int(o), i, e);
      ASSERT_LE(std::fabs(a - e), tolerance)
          << c.cpu.op << " output " << o << " element " << i << ": " << a << ", not " << e;
    }
  }
}

// The op on the reference device: `in` into `out`, both contiguous.
inline void run_on_reference(const Comparison& c, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
  const auto device = make_reference_device();
  Graph g;
  ParamStore store(*device);
  std::vector<Value> operands(in.size()), wanted;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].view.data) continue;
    const std::string name = std::to_string(i);
    operands[i] = g.param(name, {c.in[i].view.dtype, c.in[i].view.shape, 0});
    store.add(name, operands[i].type());
    store.write(name, in[i].view);
  }
  const int id = g.apply(*find_op(c.cpu.op), operands, c.attrs);
  for (size_t o = 0; o < out.size(); ++o)
    if (out[o].view.data) wanted.push_back({&g, id, int(o)});
  Session session(*device, std::make_shared<const Plan>(compile(g, wanted, {}, *device)), {&store});
  session.run();
  for (size_t o = 0, i = 0; o < out.size(); ++o)
    if (out[o].view.data) convert(session.output(int(i++)).view(), out[o].view);
}

inline bool fits(const Comparison& c, const InPlace& p) {
  const auto o = size_t(p.out), i = size_t(p.in);
  return o < c.out.size() && i < c.in.size() && c.in[i].view.data && c.in[i].view.shape == c.out[o].second &&
         c.in[i].view.contiguous() && c.in[i].view.dtype == c.out[o].first;
}

}  // namespace detail

inline void compare(const Comparison& c) {
  using namespace detail;
  std::string trace(c.cpu.op);
  for (const Tensor& t : c.in) trace += " " + (t.view.data ? t.view.shape.str() : "-");
  SCOPED_TRACE(trace);
  const std::vector<InPlace> always = c.aliased ? c.cpu.in_place : std::vector<InPlace>{};
  std::vector<Tensor> in = copies(c.in, true), expected = outputs(c, true);
  for (const InPlace& p : always) expected[size_t(p.out)].view.data = in[size_t(p.in)].view.data;
  if (c.reference.op.empty()) {
    run_on_reference(c, in, expected);
  } else {
    ASSERT_EQ(c.cpu.op, c.reference.op);
    run_kernel(c.reference, views_of(in), views_of(expected), c.attrs);
  }

  Bits with_fma;
  for_each_target([&] {
    const Bits bits = run_once(c, 1, always);
    expect_close(c, bits, expected);
    for (const int threads : {2, 3}) EXPECT_EQ(run_once(c, threads, always), bits) << threads << " threads";
    if (!c.aliased)
      for (const InPlace& pair : c.cpu.in_place)
        if (fits(c, pair)) {
          EXPECT_EQ(run_once(c, 2, {pair}), bits) << "output " << pair.out << " on input " << pair.in;
        }
    if (!target_has_fma()) return;
    if (with_fma.empty()) with_fma = bits;
    EXPECT_EQ(bits, with_fma) << "differs from a wider instruction set";
  });
}

inline const std::vector<int64_t> kSizes = {1, 15, 16, 17, 31, 64, 1000, 5000};

}  // namespace toy::test
