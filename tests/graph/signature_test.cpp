#include "toy/graph/signature.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "toy/ops/attrs/structs.h"

namespace toy::signature_test {
namespace {

using testing::error_of;
using Types = std::vector<TensorType>;

Types infer(const Signature& s, const std::vector<TensorType>& in, const Attrs& attrs = {}) {
  std::vector<const TensorType*> pointers;
  for (const TensorType& t : in) pointers.push_back(&t);
  return s.infer(pointers, attrs);
}

std::string broken(const char* text) {
  try {
    const Signature s(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::failure) << text;  // a defect of the op's author
    return e.what();
  }
  return "no error";
}

TEST(Signature, ReadsEveryFeatureOfItsGrammar) {
  const Signature s(
      "f(x:[*,D], n:i32[N,3], w!:float[@rank,D], b?:any[...], gs...:f32[]) -> w!:[*], y?:[N,D], z:f32[2]");
  EXPECT_EQ(s.name(), "f");
  ASSERT_EQ(s.inputs().size(), 5u);
  ASSERT_EQ(s.outputs().size(), 3u);
  const auto& in = s.inputs();
  EXPECT_EQ(in[0].dims[0].kind, DimSpec::star);
  EXPECT_EQ(in[0].dims[1].kind, DimSpec::letter);
  EXPECT_EQ(in[0].dtypes, OperandSpec::same);
  EXPECT_EQ(in[1].dtypes, OperandSpec::fixed);
  EXPECT_EQ(in[1].dtype, DType::i32);
  EXPECT_EQ(in[1].dims[1].kind, DimSpec::number);
  EXPECT_EQ(in[1].dims[1].size, 3);
  EXPECT_TRUE(in[2].donated);
  EXPECT_EQ(in[2].dtypes, OperandSpec::any_float);
  EXPECT_EQ(in[2].dims[0].kind, DimSpec::attribute);
  EXPECT_EQ(in[2].dims[0].name, "rank");
  EXPECT_TRUE(in[3].optional && in[3].free_shape);
  EXPECT_EQ(in[3].dtypes, OperandSpec::any);
  EXPECT_TRUE(in[4].variadic);
  EXPECT_TRUE(in[4].dims.empty());
  EXPECT_TRUE(s.outputs()[1].optional);
  EXPECT_EQ(s.donor_of(0), 2);
  EXPECT_EQ(s.donor_of(1), -1);
  EXPECT_EQ(s.input_index("n"), 1);
  EXPECT_EQ(s.input_index("nobody"), -1);
  EXPECT_EQ(&s.input_spec(7), &s.inputs()[4]);
}

TEST(Signature, NamesTheColumnOfADefect) {
  EXPECT_EQ(broken("f"), "signature 'f': expected ( at column 1");
  EXPECT_EQ(broken("(x:[N]) -> y:[N]"), "signature '(x:[N]) -> y:[N]': expected a name at column 0");
  EXPECT_EQ(broken("f(x[N]) -> y:[N]"), "signature 'f(x[N]) -> y:[N]': expected : at column 3");
  EXPECT_EQ(broken("f(x:N]) -> y:[N]"),
            "signature 'f(x:N]) -> y:[N]': expected float, weight, any, f32 or i32 at column 5");
  EXPECT_EQ(broken("f(x:[N]) y:[N]"), "signature 'f(x:[N]) y:[N]': expected -> at column 9");
  EXPECT_EQ(broken("f(x:[...,N]) -> y:[N]"), "signature 'f(x:[...,N]) -> y:[N]': expected ] at column 8");
  EXPECT_EQ(broken("f(w!?:[N]) -> w!:[N]"),
            "signature 'f(w!?:[N]) -> w!:[N]': expected a donated operand that is always there, once at column 5");
  EXPECT_EQ(broken("f(x:[N"), "signature 'f(x:[N': expected a name at column 6");
  EXPECT_EQ(broken("f(x:f64[N]) -> y:[N]"),
            "signature 'f(x:f64[N]) -> y:[N]': expected float, weight, any, f32 or i32 at column 7");
}

TEST(Signature, BindsLettersAndStars) {
  const Signature s("f(x:[*,D], w:[O,D]) -> y:[*,O]");
  EXPECT_EQ(infer(s, {{DType::f32, {2, 3, 5}}, {DType::f32, {7, 5}}}), (Types{{DType::f32, {2, 3, 7}}}));
  EXPECT_EQ(infer(s, {{DType::bf16, {5}}, {DType::bf16, {7, 5}}}), (Types{{DType::bf16, {7}}}));
  EXPECT_EQ(error_of([&] { infer(s, {{DType::f32, {2, 4}}, {DType::f32, {7, 5}}}); }), "f: w has D=5, x has D=4");
  EXPECT_EQ(error_of([&] {
              infer(s, {{DType::f32, {}}, {DType::f32, {7, 5}}});
            }),
            "f: x has 0 dimensions [], expected at least 1");
  EXPECT_EQ(error_of([&] {
              infer(s, {{DType::f32, {5}}, {DType::f32, {5}}});
            }),
            "f: w has 1 dimensions [5], expected 2");
  const Signature two("f(x:[*], y:[*]) -> z:[*]");
  EXPECT_EQ(error_of([&] {
              infer(two, {{DType::f32, {2, 4}}, {DType::f32, {4}}});
            }),
            "f: y has leading dimensions [4], x has [2,4]");
}

TEST(Signature, CarriesRunTimeRows) {
  const Signature s("f(x:[N,D], y:[N,D]) -> z:[N], w:[D,N], u:[*]");
  const TensorType rows{DType::f32, {8, 3}, 1}, other{DType::f32, {8, 3}, 2}, fixed{DType::f32, {8, 3}, 0};
  const Signature letters("f(x:[N,D], y:[N,D]) -> z:[N], w:[D]");
  EXPECT_EQ(infer(letters, {rows, rows}), (Types{{DType::f32, {8}, 1}, {DType::f32, {3}, 0}}));
  EXPECT_EQ(error_of([&] { infer(letters, {rows, other}); }), "f: N of y and of x have different run-time row counts");
  EXPECT_EQ(error_of([&] { infer(letters, {rows, fixed}); }), "f: N of y and of x have different run-time row counts");
  const Signature star("f(x:[*,D], y:[*,D]) -> z:[*]");
  EXPECT_EQ(infer(star, {rows, rows}), (Types{{DType::f32, {8}, 1}}));
  EXPECT_NE(error_of([&] { infer(star, {rows, fixed}); }), "no error");
}

TEST(Signature, ChecksDtypes) {
  const Signature s("f(x:[N], w:float[N], ids:i32[N], any:any[N]) -> y:[N], n:i32[N]");
  const auto types = [](DType x, DType w, DType ids, DType any) {
    return Types{{x, {2}}, {w, {2}}, {ids, {2}}, {any, {2}}};
  };
  EXPECT_EQ(infer(s, types(DType::f32, DType::f16, DType::i32, DType::i32)),
            (Types{{DType::f32, {2}}, {DType::i32, {2}}}));
  EXPECT_EQ(error_of([&] { infer(s, types(DType::i32, DType::f16, DType::i32, DType::i32)); }),
            "f: x is i32, expected a float type");
  EXPECT_EQ(error_of([&] { infer(s, types(DType::f32, DType::i32, DType::i32, DType::i32)); }),
            "f: w is i32, expected a float type");
  EXPECT_EQ(error_of([&] { infer(s, types(DType::f32, DType::f16, DType::f32, DType::i32)); }),
            "f: ids is f32, expected i32");
  EXPECT_EQ(error_of([&] {
              infer(Signature("g(w:float[N], x:any[N]) -> y:[N]"), {{DType::q8_0, {32}}, f32({32})});
            }),
            "g: w is q8_0, a quantized type, which it does not take");
  EXPECT_EQ(error_of([&] {
              infer(Signature("g(w:float[N], x:any[N]) -> y:[N]"), {f32({32}), {DType::q8_0, {32}}});
            }),
            "g: x is q8_0, a quantized type, which it does not take");
  const Signature same("f(x:[N], y:[N]) -> z:[N]");
  EXPECT_EQ(error_of([&] {
              infer(same, {{DType::f32, {2}}, {DType::f16, {2}}});
            }),
            "f: y is f16, x is f32; cast one of them");
}

TEST(Signature, OptionalVariadicAndAttributes) {
  const Signature optional("f(x:[N], b?:[N]) -> y:[N]");
  const TensorType t{DType::f32, {2}};
  const TensorType* with_hole[] = {&t, nullptr};
  EXPECT_EQ(optional.infer(with_hole, {}), (Types{t}));
  const TensorType* without_x[] = {nullptr, &t};
  EXPECT_EQ(error_of([&] { optional.infer(without_x, {}); }), "f: input x is missing");
  EXPECT_EQ(error_of([&] { infer(optional, {t}); }), "f: 1 inputs given, expected f(x:[N], b?:[N]) -> y:[N]");

  const Signature variadic("f(gs...:[N]) -> y:[N]");
  EXPECT_EQ(infer(variadic, {t, t, t}), (Types{t}));
  EXPECT_EQ(error_of([&] { infer(variadic, {}); }), "f: 0 inputs given, expected f(gs...:[N]) -> y:[N]");
  EXPECT_EQ(error_of([&] { infer(variadic, {t, {DType::f32, {3}}}); }), "f: gs[1] has N=3, gs[0] has N=2");

  const Signature attribute("f(ids:i32[N]) -> y:[N,@classes], z:[@classes]");
  EXPECT_EQ(infer(attribute, {{DType::i32, {2}}}, OneHotAttrs{9}), (Types{{DType::f32, {2, 9}}, {DType::f32, {9}}}));
  EXPECT_EQ(error_of([&] { infer(attribute, {{DType::i32, {2}}}); }), "f: the attributes have no integer 'classes'");
  const Signature number("f(x:[N,2]) -> y:[N]");
  EXPECT_EQ(error_of([&] { infer(number, {{DType::f32, {4, 3}}}); }), "f: x has 3 in dimension 1, expected 2");
}

TEST(Signature, DonatedOutputsHaveTheDonorsType) {
  const Signature s("f(g:[N], cache!:any[...]) -> cache!:[...]");
  EXPECT_EQ(infer(s, {{DType::f32, {2}}, {DType::bf16, {4, 5}, 1}}), (Types{{DType::bf16, {4, 5}, 1}}));
}

TEST(Signature, TypesPrint) {
  EXPECT_EQ((TensorType{DType::f32, {}, 0}).str(), "f32[]");
  EXPECT_EQ((TensorType{DType::bf16, {2, 3}, 0}).str(), "bf16[2,3]");
  EXPECT_EQ((TensorType{DType::i32, {256, 576}, 1}).str(), "i32[<=256,576]");
}

}  // namespace
}  // namespace toy::signature_test
