// The elementwise functions as types, one struct each: its call operator takes and gives one vector of elements, and
// nothing else is known about it, so that one function, or a chain of them, can be put into any loop. Those with
// attributes are made from them: function_of<F>(attrs). elementwise.def lists them with the names of their ops.
//
// i32 operands (what comparisons give, the condition of where) are 32-bit lanes too and travel as the bits of a VF.
//
// Errors, with u = 2^-24: neg, abs, sign, relu, clamp, maximum, minimum, greater, equal, where are exact; add, sub,
// mul, div, sqr, sqrt are rounded once; scale rounds its factor to f32 and then the product, 2u; the others are in
// vec-inl.h and math-inl.h.
#if defined(TOY_CPU_ELEMENTWISE_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_ELEMENTWISE_INL_H_
#undef TOY_CPU_ELEMENTWISE_INL_H_
#else
#define TOY_CPU_ELEMENTWISE_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// The functor F of a node with these attributes.
template <class F>
HWY_INLINE F function_of(const Attrs& attrs) {
  if constexpr (std::is_constructible_v<F, const Attrs&>)
    return F(attrs);
  else
    return F();
}

// ---- of one element. NaN gives NaN in all of them.

struct Neg {
  HWY_INLINE VF operator()(VF x) const { return hn::Neg(x); }
};
struct Abs {
  HWY_INLINE VF operator()(VF x) const { return hn::Abs(x); }
};
struct Sign {
  HWY_INLINE VF operator()(VF x) const {
    const VF zero = hn::Zero(kF32);
    return hn::IfThenElse(hn::Gt(x, zero), set(1.0f), hn::IfThenElse(hn::Lt(x, zero), set(-1.0f), x));
  }
};
struct Sqr {
  HWY_INLINE VF operator()(VF x) const { return hn::Mul(x, x); }
};
struct Exp {
  HWY_INLINE VF operator()(VF x) const { return exp(x); }
};
struct Log {
  HWY_INLINE VF operator()(VF x) const { return log(x); }
};
struct Sqrt {
  HWY_INLINE VF operator()(VF x) const { return hn::Sqrt(x); }
};
struct Rsqrt {
  HWY_INLINE VF operator()(VF x) const { return rsqrt(x); }
};
struct Sin {
  HWY_INLINE VF operator()(VF x) const { return sin(x); }
};
struct Cos {
  HWY_INLINE VF operator()(VF x) const { return cos(x); }
};
struct Tanh {
  HWY_INLINE VF operator()(VF x) const { return tanh(x); }
};
struct Erf {
  HWY_INLINE VF operator()(VF x) const { return erf(x); }
};
struct Sigmoid {
  HWY_INLINE VF operator()(VF x) const { return sigmoid(x); }
};
struct Softplus {
  HWY_INLINE VF operator()(VF x) const { return softplus(x); }
};
struct Relu {
  HWY_INLINE VF operator()(VF x) const { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kF32)), x); }
};
struct Silu {
  HWY_INLINE VF operator()(VF x) const { return silu(x); }
};
struct GeluTanh {
  HWY_INLINE VF operator()(VF x) const { return gelu_tanh(x); }
};
struct GeluErf {
  HWY_INLINE VF operator()(VF x) const { return gelu_erf(x); }
};
struct Scale {
  VF factor;
  HWY_INLINE explicit Scale(const Attrs& a) : factor(set(float(a.as<ScaleAttrs>().factor))) {}
  HWY_INLINE VF operator()(VF x) const { return hn::Mul(x, factor); }
};
struct Clamp {
  VF lo, hi;
  HWY_INLINE explicit Clamp(const Attrs& a) : lo(set(a.as<ClampAttrs>().lo)), hi(set(a.as<ClampAttrs>().hi)) {}
  HWY_INLINE VF operator()(VF x) const {
    return hn::IfThenElse(hn::Lt(x, lo), lo, hn::IfThenElse(hn::Gt(x, hi), hi, x));
  }
};

// ---- of two elements

struct Add {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::Add(a, b); }
};
struct Sub {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::Sub(a, b); }
};
struct Mul {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::Mul(a, b); }
};
struct Div {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::Div(a, b); }
};
// NaN if either is. Equal operands: a.
struct Maximum {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a); }
};
struct Minimum {
  HWY_INLINE VF operator()(VF a, VF b) const { return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a); }
};
// The i32 1 where the mask is set, else 0, as bits.
template <class Mask>
HWY_INLINE VF one_where(Mask mask) {
  return hn::IfThenElseZero(mask, hn::BitCast(kF32, hn::Set(kI32, 1)));
}
struct Greater {
  HWY_INLINE VF operator()(VF a, VF b) const { return one_where(hn::Gt(a, b)); }
};
struct Equal {
  HWY_INLINE VF operator()(VF a, VF b) const { return one_where(hn::Eq(a, b)); }
};

// ---- of three elements

struct Where {
  HWY_INLINE VF operator()(VF cond, VF a, VF b) const {
    const auto is_zero = hn::Eq(hn::BitCast(kI32, cond), hn::Zero(kI32));
    return hn::IfThenElse(hn::RebindMask(kF32, is_zero), b, a);
  }
};

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_ELEMENTWISE_INL_H_
