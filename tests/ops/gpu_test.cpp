// What the kernels of GPUs promise beyond the suites of the ops.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy::test::gpu_test {
namespace {

constexpr int64_t kRows = 70, kColumns = 11, kWidth = 2304;  // more than 32 blocks of 64 k

std::vector<float> numbers(const std::string& name, int64_t n) {
  const Philox random(3, name);
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(2 * random.uniform(i) - 1);
  return x;
}

class GpuWeights : public ::testing::TestWithParam<DType> {};

// A row alone has the bits that it has among others, though another kernel computes it; and the values are those of the
// type's blocks.
TEST_P(GpuWeights, FewRowsAndManyHaveEqualBits) {
  const DType type = GetParam();
  const std::vector<float> x = numbers("x", kRows * kWidth), w = numbers("w", kColumns * kWidth);
  const Shape shape{kColumns, kWidth};
  Buffer blocks(bytes_of(type, shape));
  std::vector<float> exact = w;
  if (is_quantized(type)) {
    quantize(type, w, {}, blocks.data());
    dequantize(type, blocks.data(), exact);
  } else {
    convert(View(const_cast<float*>(w.data()), DType::f32, shape), View(blocks.data(), type, shape));
    convert(View(blocks.data(), type, shape), View(exact.data(), DType::f32, shape));
  }
  Graph g;
  const int rows = g.declare_rows("N", kRows);
  const Value of_w = g.param("w", {type, shape, 0}), of_x = g.param("x", {DType::f32, {kRows, kWidth}, rows});
  const std::vector<Value> wanted{linear(of_x, of_w), embedding(of_w, g.input("ids", {DType::i32, {2}, 0}))};
  Device& device = *emulated_devices()[2];
  ParamStore store(device);
  const auto plan = std::make_shared<const Plan>(compile(g, wanted, {}, device));
  for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);
  store.write("w", View(blocks.data(), type, shape)), store.write("x", x);
  Session session(device, plan, {&store});
  session.set("ids", std::vector<int32_t>{7, 3});
  session.run();
  const std::vector<float> y = session.values(0), looked_up = session.values(1);
  for (int64_t k = 0; k < kWidth; ++k) ASSERT_EQ(looked_up[size_t(k)], exact[size_t(7 * kWidth + k)]) << k;
  for (int64_t n = 0; n < kRows; ++n)
    for (int64_t o = 0; o < kColumns; ++o) {
      double sum = 0, magnitudes = 0;
      for (int64_t k = 0; k < kWidth; ++k) {
        const double term = double(x[size_t(n * kWidth + k)]) * exact[size_t(o * kWidth + k)];
        sum += term, magnitudes += std::fabs(term);
      }
      ASSERT_NEAR(y[size_t(n * kColumns + o)], sum, (64 + kWidth / 64 + 3) * 0x1p-24 * magnitudes) << n << " " << o;
    }
  for (const int64_t few : {1, 8, 9}) {
    session.set_rows("N", few);
    session.run();
    const std::vector<float> some = session.values(0);
    ASSERT_EQ(some, std::vector<float>(y.begin(), y.begin() + few * kColumns)) << few << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuWeights,
                         ::testing::Values(DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0,
                                           DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k,
                                           DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4),
                         [](const auto& of) { return std::string(name_of(of.param)); });

// Every op has a kernel, or each part of its decomposition has one.
TEST(Gpu, RunsEveryOp) {
  for (const OpSuite* s : all_suites()) {
    const Case& c = s->cases.front();
    const Built b = build_op(*find_op(s->op), operands_of(*s, c), c.attrs);
    EXPECT_NO_THROW(compile(*b.graph, b.outputs, {}, *emulated_devices()[0])) << s->op;
  }
}

// More groups than a GPU has are refused, not launched.
TEST(Gpu, LaunchesThatAreTooLarge) {
  Graph g;
  const int64_t batch = 65536;
  const std::vector<Value> wanted{matmul(g.param("a", f32({batch, 1, 1})), g.param("b", f32({batch, 1, 1})))};
  Device& device = *emulated_devices()[0];
  const auto plan = std::make_shared<const Plan>(compile(g, wanted, {}, device));
  ParamStore store(device);
  for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);
  try {
    Session session(device, plan, {&store});
    session.run();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "matmul: operands are too large for one launch: kernel product_wide would have 1 x 65536 groups along y and "
        "z, at most 65535 each; use a smaller batch");
  }
}

// Rows that are written to pages, rounded to their type, and read back have the bits of attention on rounded rows; also
// heads so wide that several groups share their columns.
TEST(Gpu, PagesOfEachType) {
  for (const std::string width : {"32", "288"})
    for (const auto& [type, by_queries] : {std::pair(DType::f32, false), std::pair(DType::f16, false),
                                           std::pair(DType::q8_0, false), std::pair(DType::q8_0, true)}) {
      const std::string ints = "seq:i32[72]=runs(4@0,68@0) pos:i32[72]=runs(4@0,68@0)";
      auto operands =
          parse_operands("q:[72,2," + width + "] k:[72,1," + width + "] v:[72,1," + width + "] " + ints + " kc:[3,1," +
                         width + ",64]=const(0) vc:[3,1,64," + width + "]=const(0) table:i32[2,2]=list(0,1,2,1)");
      operands[5].dtype = operands[6].dtype = type;
      const AttentionAttrs attrs{0.25, 0};
      Built b = build_operands(operands);
      const auto& o = b.operands;
      const KvPages pages = kv_append({o[5], o[6]}, o[1], o[2], o[3], o[4], o[7], by_queries ? o[0] : Value{});
      b.outputs = {attention_paged(o[0], pages, o[3], o[4], o[7], attrs)};
      auto rounded = std::vector<OperandData>(operands.begin(), operands.begin() + 5);
      rounded.push_back(parse_operands("until:none").front());
      for (const size_t i : {1, 2})
        for (size_t at = 0; at < rounded[i].values.size(); at += 32) {
          float block[32];
          int8_t level[32];
          std::copy_n(rounded[i].values.begin() + int64_t(at), 32, block);
          const float scale = to_float(round_q8_0(block, level));
          for (size_t k = 0; k < 32 && type != DType::f32; ++k)
            rounded[i].values[at + k] =
                type == DType::f16 ? to_float(to_f16(block[k])) : double(scale * float(level[k]));
        }
      const size_t P = size_t(std::stoi(width));
      for (size_t at = 0; at < 72 * P && by_queries; at += P) {
        const auto floats = [](const std::vector<double>& x, size_t begin, size_t n) {
          return std::vector<float>(x.begin() + int64_t(begin), x.begin() + int64_t(begin + n));
        };
        std::vector<F16> scale(P / 32);
        std::vector<int8_t> level(P);
        round_key_q8_0(floats(operands[1].values, at, P), floats(operands[0].values, 2 * at, 2 * P), scale.data(),
                       level.data());
        for (size_t k = 0; k < P; ++k) rounded[1].values[at + k] = to_float(scale[k / 32]) * float(level[k]);
      }
      for (Device* device : {emulated_devices()[0], emulated_devices()[2]})
        expect_same(Program(b, *device).run()[0],
                    Program(build_op(*find_op("attention"), rounded, attrs), *device).run()[0],
                    std::string(name_of(type)) + " " + width);
    }
}

// Angles of any size, and those next to multiples of pi/2, within 4u; what is no angle gives NaN.
TEST(Gpu, SinesOfAnyAngle) {
  std::vector<double> x{0, 1e-30, 32767.99, 32768, -32768, 16367173e20, 3.4e38, -3.4e38, 5.27e7, -1e10, INFINITY, NAN};
  for (double turns = 1; turns < 1e38; turns *= 3) x.push_back(turns * 1.5707963267948966);
  for (double& v : x) v = double(float(v));
  for (const char* op : {"sin", "cos"}) {
    Built b = build_op(*find_op(op), parse_operands("x:[" + std::to_string(x.size()) + "]"), {});
    b.feed["x"] = x;
    const Results y = Program(b, *emulated_devices()[0]).run();
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = op == std::string("sin") ? std::sin(x[i]) : std::cos(x[i]);
      if (std::isfinite(x[i]))
        EXPECT_NEAR(y[0][i], expected, 4 * 0x1p-24 * std::fabs(expected)) << op << " " << x[i];
      else
        EXPECT_TRUE(std::isnan(y[0][i])) << op << " " << x[i];
    }
  }
}

// What is wrong with the data is said as the cpu says it, and nothing outside of a buffer is touched.
TEST(Gpu, FaultsAreNamed) {
  const std::string pages = "q:[2,1,4] kc:[2,1,4,64] vc:[2,1,64,4] seq:i32[2]=list(0,1) pos:i32[2]=list(3,64) ";
  const std::pair<const char*, std::string> cases[] = {
      {"embedding", "table:[3,4] ids:i32[2]=list(1,3)"},
      {"embedding", "table:[3,4] ids:i32[2]=list(1,-1)"},
      {"attention_paged", pages + "table:i32[2,2]=list(0,1,1,7)"},
      {"attention_paged", pages + "table:i32[2,2]=list(0,1,-1,1)"},
      {"attention_paged", pages + "table:i32[1,2]=list(0,1)"},
      {"attention_paged", pages + "table:i32[2,1]=list(0,1)"},
  };
  for (const auto& [op, operands] : cases) {
    Attrs attrs;
    if (op == std::string("attention_paged")) attrs = AttentionAttrs{1, 0};
    const Built b = build_op(*find_op(op), parse_operands(operands), attrs);
    const auto message = [&](Device& device) { return toy::testing::error_of([&] { Program(b, device).run(); }); };
    EXPECT_EQ(message(*emulated_devices()[0]), message(cpu_device(1))) << operands;
    EXPECT_NE(message(cpu_device(1)), "") << operands;
  }
}

// Operands that a GPU's kernels do not take are named when the plan is compiled.
TEST(Gpu, OperandsThatNoKernelTakes) {
  const Built b = build_op(*find_op("gated_delta_rule_update"),
                           parse_operands("s:[1,1,2049,1] q:[1,1,2049] k:[1,1,2049] v:[1,1,1] g:[1,1] beta:[1,1] "
                                          "seq:i32[1]=list(0) pos:i32[1]=list(0)"),
                           DeltaRuleAttrs{});
  try {
    compile(*b.graph, b.outputs, {}, *emulated_devices()[0]);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(
        std::string(e.what()).rfind("gated_delta_rule_update: device 'emulated' has no kernel for these operands", 0),
        0u)
        << e.what();
  }
}

}  // namespace
}  // namespace toy::test::gpu_test
