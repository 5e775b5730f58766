// Depthwise causal convolution: values, gradients, state; and the same bits however a sequence is cut.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"

namespace toy::test::causal_conv_test {
namespace {

std::string rows(int n, int channels, int width, const std::string& bias, const std::string& tail,
                 const std::string& runs) {
  const std::string N = std::to_string(n), C = std::to_string(channels), W = std::to_string(width);
  const std::string ints = "i32[" + N + "]=" + runs;
  return "x:[" + N + "," + C + "] w:[" + C + "," + W + "] b:" + bias + " tail:" + tail + " seq:" + ints +
         " pos:" + ints;
}

// A chain of W products on a bias: any order of them is within W + 1 roundings of the sum of magnitudes.
const OpSuite kConv{
    .op = "causal_conv",
    .cases = {{rows(1, 1, 1, "none", "none", "runs(1@0)")},
              {rows(7, 3, 4, "[3]", "none", "runs(7@0)")},
              {rows(9, 5, 4, "none", "none", "runs(4@0,1@7,4@62)")},
              {rows(9, 5, 4, "[5]", "[3,3,5]", "runs(4@0,1@7,4@2)")},
              {rows(12, 17, 2, "none", "[2,1,17]", "runs(7@1,5@0)")},
              {rows(9, 33, 11, "[33]", "[2,10,33]", "runs(4@3,5@20)")},
              {"x:[40,9]@(1,0) w:[3,40]@(1,0) b:none tail:none seq:i32[9]=runs(5@0,4@0) pos:i32[9]=runs(5@0,4@0)"},
              {rows(150, 300, 4, "none", "[2,3,300]", "runs(70@0,80@30)")},
              // Filters of more than 8 taps have another kernel, of more than 64 their gradient is in pieces.
              {rows(9, 3, 40, "[3]", "none", "runs(9@0)")},
              {rows(20, 17, 9, "[17]", "[2,8,17]", "runs(9@0,11@3)")},
              {rows(70, 5, 64, "none", "none", "runs(3@0,67@0)")},
              {rows(100, 80, 70, "[80]", "[3,69,80]", "runs(1@5,90@0,9@200)")},
              {rows(150, 20, 130, "none", "[2,129,20]", "runs(70@0,80@30)")}},
    .bad = {{rows(4, 3, 4, "none", "[1,4,3]", "runs(4@0)"), "causal_conv: tail has M=4, a filter of W=4 needs 3"},
            {rows(4, 3, 4, "none", "[1,3,2]", "runs(4@0)"), "causal_conv: tail has C=2, x has C=3"},
            {rows(4, 3, 4, "[4]", "none", "runs(4@0)"), "causal_conv: b has C=4, x has C=3"},
            {rows(4, 3, 0, "none", "none", "runs(4@0)"), "causal_conv: w has W=0, expected at least 1"},
            {"x:[4,3] w:[2,4] b:none tail:none seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "causal_conv: w has C=2, x has C=3"}},
    .bound = of_magnitudes([](const Run& r) { return double(r.shape(1)[1]) + 1; }),
    .no_gradient = {"tail"},
    .rows = {"x", "seq", "pos"}};

std::string grad_rows(int n, int channels, int width, const std::string& tail, const std::string& runs) {
  const std::string text = rows(n, channels, width, "none", tail, runs);
  const std::string dy = "dy:[" + std::to_string(n) + "," + std::to_string(channels) + "]";
  return text.substr(0, text.find("b:none")) + dy + text.substr(text.find("b:none") + 6);
}

const OpSuite kConvGrad{
    .op = "causal_conv_grad",
    .cases = {{grad_rows(1, 1, 1, "none", "runs(1@0)")},
              {grad_rows(7, 3, 4, "none", "runs(7@0)")},
              {grad_rows(9, 5, 4, "none", "runs(4@0,1@7,4@62)")},
              {grad_rows(9, 5, 4, "[3,3,5]", "runs(4@0,1@7,4@2)")},
              {grad_rows(9, 33, 11, "[2,10,33]", "runs(4@3,5@20)")},
              {grad_rows(150, 300, 4, "[2,3,300]", "runs(70@0,80@30)")},
              {grad_rows(9, 3, 40, "none", "runs(9@0)")},
              {grad_rows(20, 17, 9, "[2,8,17]", "runs(9@0,11@3)")},
              {grad_rows(70, 5, 64, "none", "runs(3@0,67@0)")},
              {grad_rows(100, 80, 70, "[3,69,80]", "runs(1@5,90@0,9@200)")},
              {grad_rows(150, 20, 130, "[2,129,20]", "runs(70@0,80@30)")}},
    .bad = {{grad_rows(4, 3, 4, "[1,2,3]", "runs(4@0)"), "causal_conv_grad: tail has M=2, a filter of W=4 needs 3"}},
    .bound = of_magnitudes([](const Run& r) { return double(r.shape(1)[1]) + double(r.shape(0)[0]) / 64 + 66; }),
    .rows = {"x", "dy", "seq", "pos"},
    .row_wise = false};

const OpSuite kAppend{
    .op = "conv_append",
    .cases = {{"tail:[1,1,1] x:[1,1] seq:i32[1]=list(0) pos:i32[1]=list(0)"},
              {"tail:[3,3,5] x:[9,5] seq:i32[9]=runs(4@0,1@7,4@2) pos:i32[9]=runs(4@0,1@7,4@2)"},
              {"tail:[2,10,33] x:[9,33] seq:i32[9]=runs(4@3,5@20) pos:i32[9]=runs(4@3,5@20)"},
              {"tail:[2,3,9000] x:[3,9000] seq:i32[3]=runs(2@0,1@8) pos:i32[3]=runs(2@0,1@8)"}},
    .bad = {{"tail:[1,3,2] x:[4,3] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)", "conv_append: x has C=3, tail has C=2"}},
    .bound = exact(),
    .rows = {"x", "seq", "pos"},
    .row_wise = false};

const bool kDone = register_suite(kConv) && register_suite(kConvGrad) && register_suite(kAppend);

constexpr int64_t kRows = 19, kChannels = 37;

// Two sequences whose rows come in pieces of `cut` of each, with the tails carried along; what was in the tails before
// position 0 must not matter.
Results in_pieces(Device& device, const Feed& whole, int width, int64_t cut) {
  Results y(2);
  Feed carried{{"tail", std::vector<double>(size_t(2 * (width - 1) * kChannels), 1e30)}};
  for (int64_t begin = 0; begin < kRows; begin += cut) {
    const int64_t n = std::min(cut, kRows - begin);
    auto operands =
        parse_operands(rows(int(2 * n), kChannels, width, "[37]", "[2," + std::to_string(width - 1) + ",37]",
                            "runs(" + std::to_string(n) + "@" + std::to_string(begin) + "," + std::to_string(n) + "@" +
                                std::to_string(begin) + ")"));
    operands[1].values = whole.at("w"), operands[2].values = whole.at("b"), operands[3].values = carried["tail"];
    for (int64_t s = 0; s < 2; ++s)
      std::copy_n(whole.at("x").begin() + (s * kRows + begin) * kChannels, n * kChannels,
                  operands[0].values.begin() + s * n * kChannels);
    Built b = build_operands(operands);
    const auto& o = b.operands;
    b.outputs = {causal_conv(o[0], o[1], o[2], o[3], o[4], o[5]), conv_append(o[3], o[0], o[4], o[5])};
    const Results piece = Program(b, device).run();
    for (int64_t s = 0; s < 2; ++s)
      y[size_t(s)].insert(y[size_t(s)].end(), piece[0].begin() + s * n * kChannels,
                          piece[0].begin() + (s + 1) * n * kChannels);
    carried["tail"] = piece[1];
  }
  return y;
}

TEST(CausalConv, TheSameBitsHoweverASequenceIsCut) {
  for (const int width : {2, 4, 8, 9, 16, 19, 70}) {
    const Built whole =
        build_op(*find_op("causal_conv"),
                 parse_operands(rows(2 * kRows, kChannels, width, "[37]", "none", "runs(19@0,19@0)")), {});
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
      const Results expected = Program(whole, *device).run();
      for (const int64_t cut : {19, 7, 2, 1}) {
        const Results y = in_pieces(*device, whole.feed, width, cut);
        for (size_t s = 0; s < 2; ++s)
          expect_same(
              y[s],
              {expected[0].begin() + int64_t(s) * kRows * kChannels,
               expected[0].begin() + int64_t(s + 1) * kRows * kChannels},
              std::string(device->name()) + ", W=" + std::to_string(width) + ", pieces of " + std::to_string(cut));
      }
    }
  }
}

TEST(CausalConv, OtherSequencesDoNotMatter) {
  for (const int width : {4, 20}) {
    const Built b =
        build_op(*find_op("causal_conv"), parse_operands(rows(9, 5, width, "none", "none", "runs(4@0,5@0)")), {});
    const Built grad =
        build_op(*find_op("causal_conv_grad"), parse_operands(grad_rows(9, 5, width, "none", "runs(4@0,5@0)")), {});
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]})
      for (const Built* of : {&b, &grad}) {
        Program program(*of, *device);
        const Results before = program.run();
        Feed feed = of->feed;
        std::fill_n(feed["x"].begin(), 4 * 5, NAN);
        if (of == &grad) std::fill_n(feed["dy"].begin(), 4 * 5, NAN);
        const Results after = program.run(feed);
        for (size_t i = 4 * 5; i < 9 * 5; ++i)
          EXPECT_EQ(after[0][i], before[0][i]) << device->name() << " " << width << " " << i;
      }
  }
}

TEST(CausalConv, NoRows) {
  for (const int width : {4, 20}) {
    const auto run = [&](Device& device, const std::string& op, const std::string& text) {
      return Program(build_op(*find_op(op), parse_operands(text), {}), device).run();
    };
    const std::string W = std::to_string(width);
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
      const std::string ints = " seq:i32[0] pos:i32[0]";
      EXPECT_TRUE(run(*device, "causal_conv", "x:[0,5] w:[5," + W + "] b:[5] tail:none" + ints)[0].empty());
      const Results grad = run(*device, "causal_conv_grad", "x:[0,5] w:[5," + W + "] dy:[0,5] tail:none" + ints);
      EXPECT_EQ(grad[1], std::vector<double>(size_t(5 * width))) << device->name();
      EXPECT_EQ(grad[2], std::vector<double>(5)) << device->name();
    }
  }
}

TEST(CausalConv, SequencesWithoutATailAreNamed) {
  const Built conv = build_op(*find_op("causal_conv"),
                              parse_operands("x:[2,3] w:[3,4] b:none tail:[1,3,3] seq:i32[2]=list(0,1) "
                                             "pos:i32[2]=list(0,0)"),
                              {});
  const Built append = build_op(*find_op("conv_append"),
                                parse_operands("tail:[1,3,3] x:[2,3] seq:i32[2]=list(0,-1) pos:i32[2]=list(0,0)"), {});
  const auto message = [](const Built& b, Device& device) {
    return toy::testing::error_of([&] { Program(b, device).run(); });
  };
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    EXPECT_EQ(message(conv, *device), "causal_conv: row 1 has sequence 1");
    EXPECT_EQ(message(append, *device), "conv_append: row 1 has sequence -1");
  }
}

TEST(CausalConv, ASequenceWithoutATailGivesZerosAndTouchesNoOtherRow) {
  const auto conv = [](const std::string& seq, const std::string& pos) {
    return build_op(
        *find_op("causal_conv"),
        parse_operands("x:[2,3] w:[3,4] b:none tail:[1,3,3] seq:i32[2]=list(" + seq + ") pos:i32[2]=list(" + pos + ")"),
        {});
  };
  const Built good = conv("0,0", "0,1"), bad = conv("0,1", "0,0");
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    Feed feed = bad.feed;
    for (const char* name : {"seq", "pos"}) feed[name] = good.feed.at(name);
    const Results expected = Program(good, *device).run(feed);
    Program program(bad, *device);
    EXPECT_THROW(program.run(), Error);
    const std::vector<float> y = program.session().values(0);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(y[i], float(expected[0][i])) << device->name() << " " << i;
      EXPECT_EQ(y[3 + i], 0) << device->name() << " " << i;
    }
  }
}

}  // namespace
}  // namespace toy::test::causal_conv_test
