#include "toy/runs/drawings.h"

#include <gtest/gtest.h>

#include "testing/step_graph.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"

namespace toy::drawings_test {
namespace {

TEST(Drawings, SvgOfPhasesAndResiduals) {
  Graph g;
  std::vector<Value> roots;
  testing::build_step(g, roots);
  const std::string text = to_svg(g, cost_of(g, roots), "a <title> & more");
  EXPECT_EQ(text.rfind("<svg ", 0), 0u);
  EXPECT_NE(text.find("a &lt;title&gt; &amp; more"), std::string::npos);
  for (const char* word : {">forward: ", ">backward: ", ">update: ", ">blk.0<", ">optimizer<", ">exp<", ">sgd<",
                           ">gradient of w<", ">op, type of its result, weight, FLOPs<"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  EXPECT_EQ(text.find("class=\"residual\""), std::string::npos);
  EXPECT_EQ(text.find("residual connection"), std::string::npos);  // the legend has what the drawing has
  EXPECT_EQ(text.find("drawn once"), std::string::npos);
}

TEST(Drawings, SvgFoldsLayersThatAreAlike) {
  Graph g;
  Value x = exp(g.input("x", {DType::f32, {3}, 0}));
  for (int i = 0; i < 5; ++i) {
    const auto block = g.block(i);
    x = x + sin(exp(x));
  }
  const auto layer = g.scope("output");
  const std::vector<Value> roots{exp(x)};
  const std::string text = to_svg(g, cost_of(g, roots), "five");
  EXPECT_NE(text.find(">blk.0 to blk.4: 5 times<"), std::string::npos) << text;
  EXPECT_EQ(text.find(">blk.1<"), std::string::npos);
  EXPECT_NE(text.find("class=\"residual\""), std::string::npos);
  EXPECT_NE(text.find("residual connection"), std::string::npos);
  EXPECT_NE(text.find("drawn once"), std::string::npos);
}

TEST(Drawings, MemoryHasItsPeak) {
  Graph g;
  std::vector<Value> roots;
  testing::build_step(g, roots);
  const auto device = make_reference_device();
  const MemoryProfile p = memory_profile(compile(g, roots, {}, *device));
  const std::string text = to_svg(p, "a <b>");
  EXPECT_NE(text.find(">step " + std::to_string(p.peak_step) + "<"), std::string::npos) << text;
  EXPECT_NE(text.find("a &lt;b&gt;"), std::string::npos);
}

}  // namespace
}  // namespace toy::drawings_test
