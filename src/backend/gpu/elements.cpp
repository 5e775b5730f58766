// Ops that go element by element, and what moves elements.
#include <bit>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

int groups(int64_t n) { return blocks(n, ELEMENTS_OF_A_GROUP); }

// Where elements of up to three operands lie that run together over `shape`, broadcast where their size is 1.
// Dimensions that follow each other in all of them become one, so that most calls have a single one.
Strided walk(const Shape& shape, std::initializer_list<const View*> operands) {
  Strided s{{1, 1, 1, 1, 1}, {}, {}, {}};
  int64* const strides[] = {s.a, s.b, s.c};
  int at = 5;  // the dimension that was written last
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    int64_t own[3] = {};
    bool joins = at < 5;
    int o = 0;
    for (const View* v : operands) {
      const int from = d - shape.rank() + v->shape.rank();
      own[o] = from >= 0 && v->shape[from] != 1 ? v->stride[size_t(from)] : 0;
      joins = joins && own[o] == strides[o][at] * s.shape[at];
      ++o;
    }
    if (joins) {
      s.shape[at] *= shape[d];
      continue;
    }
    --at;
    s.shape[at] = shape[d];
    for (int i = 0; i < 3; ++i) strides[i][at] = own[i];
  }
  return s;
}

void element(Launches& to, const KernelCall& c, int function, float p = 0, float q = 0) {
  const bool two = c.in.size() > 1;
  const View& y = c.out[0];
  to.add(Kernel::elementwise, {groups(y.count())},
         {in(c, 0), in(c, 1), out(c, 0), out_type(c, 0), y.count(), function, p, q,
          walk(y.shape, {&c.in[0], &c.in[two ? 1 : 0]})});
}
template <int function>
void plain(Launches& to, const KernelCall& c) noexcept {
  element(to, c, function);
}
void scale(Launches& to, const KernelCall& c) noexcept {
  element(to, c, ELEMENT_SCALE, float(c.attrs->as<ScaleAttrs>().factor));
}
void clamp(Launches& to, const KernelCall& c) noexcept {
  element(to, c, ELEMENT_CLAMP, c.attrs->as<ClampAttrs>().lo, c.attrs->as<ClampAttrs>().hi);
}
template <int function>
void compare(Launches& to, const KernelCall& c) noexcept {
  const View& y = c.out[0];
  to.add(Kernel::compare, {groups(y.count())},
         {in(c, 0), in(c, 1), out(c, 0), y.count(), function, walk(y.shape, {&c.in[0], &c.in[1]})});
}
void where(Launches& to, const KernelCall& c) noexcept {
  const View& y = c.out[0];
  to.add(Kernel::where, {groups(y.count())},
         {in(c, 0), in(c, 1), in(c, 2), out(c, 0), y.count(), walk(y.shape, {&c.in[0], &c.in[1], &c.in[2]})});
}

void swiglu(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::swiglu, {groups(n)}, {in(c, 0), in(c, 1), out(c, 0), out_type(c, 0), n});
}
void swiglu_grad(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::swiglu_grad, {groups(n)},
         {in(c, 0), in(c, 1), in(c, 2), out(c, 0), out_type(c, 0), out(c, 1), out_type(c, 1), n});
}

void geglu(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::geglu, {groups(n)},
         {in(c, 0), in(c, 1), out(c, 0), out_type(c, 0), n, int(c.attrs->as<GegluAttrs>().kind == GeluKind::tanh)});
}
void geglu_grad(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::geglu_grad, {groups(n)},
         {in(c, 0), in(c, 1), in(c, 2), out(c, 0), out_type(c, 0), out(c, 1), out_type(c, 1), n,
          int(c.attrs->as<GegluAttrs>().kind == GeluKind::tanh)});
}

void dropout(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<DropoutAttrs>();
  const int64_t n = c.in[0].count();
  to.add(Kernel::dropout, {groups(n)},
         {in(c, 0), in(c, 1), out(c, 0), n, at.threshold(), float(at.gain()), int64_t(at.stream)});
}

void move(Launches& to, const View& x, const View& y) {
  to.add(Kernel::copy_strided, {groups(x.count())},
         {x.data, y.data, x.count(), int(size_of(x.dtype)), walk(x.shape, {&x, &y})});
}
void copy(Launches& to, const KernelCall& c) noexcept { move(to, c.in[0], c.out[0]); }
void concat(Launches& to, const KernelCall& c) noexcept {
  const int axis = c.attrs->as<AxisAttrs>().axis;
  View part = c.out[0];
  for (const View& x : c.in) {
    part.shape = x.shape;
    move(to, x, part);
    part.data = part.as<std::byte>() + size_t(x.shape[axis] * part.stride[size_t(axis)]) * size_of(x.dtype);
  }
}
bool moves(const KernelQuery& q) noexcept {
  const DType type = q.in[0].dtype;
  return !is_quantized(type) && (size_of(type) == 4 || size_of(type) == 2);
}

void cast(Launches& to, const KernelCall& c) noexcept {
  const DType from = c.in[0].dtype, type = c.out[0].dtype;
  const int64_t n = c.in[0].count();
  if (from == DType::i32 && type == DType::i32)
    move(to, c.in[0], c.out[0]);
  else if (from == DType::i32)
    to.add(Kernel::cast_from_int, {groups(n)}, {in(c, 0), out(c, 0), n});
  else if (type == DType::i32)
    to.add(Kernel::cast_to_int, {groups(n)}, {in(c, 0), out(c, 0), n});
  else
    to.add(Kernel::cast, {groups(n)}, {in(c, 0), out(c, 0), n, weight_type(from), weight_type(type)});
}
bool casts(const KernelQuery& q) noexcept {
  const DType from = q.in[0].dtype, type = q.out[0].dtype;
  if (from == DType::i32) return type == DType::i32 || type == DType::f32;
  if (type == DType::i32) return from == DType::f32;
  return weight_type(from) >= 0 && weight_type(type) >= 0 && !is_quantized(type);
}
void fill(Launches& to, const KernelCall& c) noexcept {
  const double value = c.attrs->as<FillAttrs>().value;
  const View& y = c.out[0];
  const uint32_t bits = y.dtype == DType::i32 ? uint32_t(int32_t(value)) : std::bit_cast<uint32_t>(float(value));
  to.add(Kernel::fill, {groups(y.count())}, {out(c, 0), y.count(), bits});
}

KernelRecord unary(std::string_view op, Code* code) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}}, .rounds = {0}, .code = code};
}
// In place only where the strides are those of the result, which the planner sees to.
KernelRecord binary(std::string_view op, Code* code) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}, {0, 1}}, .rounds = {0}, .code = code};
}

}  // namespace

KernelRecord add_kernel() { return binary("add", plain<ELEMENT_ADD>); }
KernelRecord sub_kernel() { return binary("sub", plain<ELEMENT_SUB>); }
KernelRecord mul_kernel() { return binary("mul", plain<ELEMENT_MUL>); }
KernelRecord div_kernel() { return binary("div", plain<ELEMENT_DIV>); }
KernelRecord maximum_kernel() { return binary("maximum", plain<ELEMENT_MAXIMUM>); }
KernelRecord minimum_kernel() { return binary("minimum", plain<ELEMENT_MINIMUM>); }
KernelRecord greater_kernel() { return {.op = "greater", .layout = Layout::any, .code = compare<ELEMENT_GREATER>}; }
KernelRecord equal_kernel() { return {.op = "equal", .layout = Layout::any, .code = compare<ELEMENT_EQUAL>}; }
KernelRecord where_kernel() {
  return {.op = "where", .layout = Layout::any, .in_place = {{0, 1}, {0, 2}}, .code = where};
}
KernelRecord neg_kernel() { return unary("neg", plain<ELEMENT_NEG>); }
KernelRecord abs_kernel() { return unary("abs", plain<ELEMENT_ABS>); }
KernelRecord sign_kernel() { return unary("sign", plain<ELEMENT_SIGN>); }
KernelRecord sqr_kernel() { return unary("sqr", plain<ELEMENT_SQR>); }
KernelRecord exp_kernel() { return unary("exp", plain<ELEMENT_EXP>); }
KernelRecord log_kernel() { return unary("log", plain<ELEMENT_LOG>); }
KernelRecord sqrt_kernel() { return unary("sqrt", plain<ELEMENT_SQRT>); }
KernelRecord rsqrt_kernel() { return unary("rsqrt", plain<ELEMENT_RSQRT>); }
KernelRecord tanh_kernel() { return unary("tanh", plain<ELEMENT_TANH>); }
KernelRecord sigmoid_kernel() { return unary("sigmoid", plain<ELEMENT_SIGMOID>); }
KernelRecord relu_kernel() { return unary("relu", plain<ELEMENT_RELU>); }
KernelRecord silu_kernel() { return unary("silu", plain<ELEMENT_SILU>); }
KernelRecord gelu_tanh_kernel() { return unary("gelu_tanh", plain<ELEMENT_GELU_TANH>); }
KernelRecord gelu_erf_kernel() { return unary("gelu_erf", plain<ELEMENT_GELU_ERF>); }
KernelRecord erf_kernel() { return unary("erf", plain<ELEMENT_ERF>); }
KernelRecord softplus_kernel() { return unary("softplus", plain<ELEMENT_SOFTPLUS>); }
KernelRecord sin_kernel() { return unary("sin", plain<ELEMENT_SIN>); }
KernelRecord cos_kernel() { return unary("cos", plain<ELEMENT_COS>); }
KernelRecord scale_kernel() { return unary("scale", scale); }
KernelRecord clamp_kernel() { return unary("clamp", clamp); }
KernelRecord swiglu_kernel() { return {.op = "swiglu", .in_place = {{0, 0}, {0, 1}}, .rounds = {0}, .code = swiglu}; }
KernelRecord swiglu_grad_kernel() {
  return {.op = "swiglu_grad", .in_place = {{0, 0}, {1, 1}}, .rounds = {0, 1}, .code = swiglu_grad};
}
KernelRecord geglu_kernel() { return {.op = "geglu", .in_place = {{0, 0}, {0, 1}}, .rounds = {0}, .code = geglu}; }
KernelRecord geglu_grad_kernel() {
  return {.op = "geglu_grad", .in_place = {{0, 0}, {1, 1}}, .rounds = {0, 1}, .code = geglu_grad};
}
KernelRecord dropout_kernel() { return {.op = "dropout", .in_place = {{0, 0}}, .code = dropout}; }
KernelRecord copy_kernel() { return {.op = "copy", .layout = Layout::any, .accepts = moves, .code = copy}; }
KernelRecord concat_kernel() { return {.op = "concat", .accepts = moves, .code = concat}; }
KernelRecord cast_kernel() { return {.op = "cast", .accepts = casts, .code = cast}; }
KernelRecord fill_kernel() { return {.op = "fill", .code = fill}; }

}  // namespace toy::gpu
