// Embedder, stack and head of a model, each apart from the others.
#include "toy/models/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/models/model.h"
#include "toy/runtime/session.h"

namespace toy::transformer_test {
namespace {

constexpr int64_t kRows = 12, kPositions = 32;

class TransformerParts : public ::testing::Test {
 protected:
  struct Inputs {
    Value x;  // tokens, or rows of no tokens
    nn::Batch batch;
  };
  Inputs inputs(Graph& g, const TensorType& x, bool turns = false) const {
    const TensorType ids{DType::i32, {kRows}, 0};
    Inputs in{g.input("x", x, x.dtype == DType::i32 ? model_.spec.vocab : 0),
              {.sequence = g.input("sequence", ids), .position = g.input("position", ids, kPositions)}};
    if (turns) in.batch.turn = g.input("turn", ids, kPositions);
    return in;
  }
  // Outputs of a graph for two sequences of six rows, of which rows are turned by `turn`.
  template <class X>
  std::vector<std::vector<float>> run(Graph& g, const std::vector<Value>& outputs, const ParamStore& store,
                                      const std::vector<X>& x, const std::array<int32_t, kRows>& turn = {}) const {
    Session s(*device_, std::make_shared<const Plan>(compile(g, outputs, {}, *device_)), {&store});
    s.set("x", x);
    s.set("sequence", std::array<int32_t, kRows>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
    s.set("position", kPosition);
    if (g.find("turn")) s.set("turn", turn);
    s.run();
    std::vector<std::vector<float>> values;
    for (size_t i = 0; i < outputs.size(); ++i) values.push_back(s.values(i));
    return values;
  }
  static Weights weights(Graph& g) {
    return Weights(g, [](const std::string&) { return DType::f32; });
  }

  static constexpr std::array<int32_t, kRows> kPosition{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(model_spec("tiny"), *device_, 3);
  std::vector<int32_t> ids_{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
};

// As the encoder of an image is a stack of its own beside the language model's, on rows that are no tokens.
TEST_F(TransformerParts, AStackOfItsOwnInTheSameFile) {
  Graph parts, whole;
  const Inputs in = inputs(parts, {DType::i32, {kRows}, 0}), same = inputs(whole, {DType::i32, {kRows}, 0});
  const nn::Context ctx{.batch = in.batch};
  const Transformer model(model_.spec, weights(parts), kPositions), called(model_.spec, weights(whole), kPositions);
  const Embedded rows = model.embedder(in.x, ctx);
  const Value out = model.stack(rows, ctx), final = model.head.norm(out);
  const auto expected = run(parts, {rows.x, out, final}, *model_.params, ids_);
  EXPECT_EQ(run(whole, {called(same.x, {.batch = same.batch})}, *model_.params, ids_)[0], expected[2]);

  ParamStore store(*device_);
  for (const std::string& name : model_.params->names())
    if (name.starts_with("blk.")) {
      store.add("v." + name, model_.params->type(name));
      store.write("v." + name, model_.params->read(name));
    }
  Graph apart;
  const Inputs own = inputs(apart, {DType::f32, {kRows, model_.spec.d_model}, 0});
  const Weights w = weights(apart);
  const Stack stack(model_.spec, w, kPositions, "v.blk.");
  EXPECT_EQ(w.declared().size(), store.names().size());
  EXPECT_EQ(run(apart, {stack({own.x}, {.batch = own.batch})}, store, expected[0])[0], expected[1]);
  EXPECT_TRUE(apart.find("v.blk.3.out"));
}

TEST_F(TransformerParts, RowsTurnByOtherNumbersThanTheirPositions) {
  Graph g, turned;
  const Inputs in = inputs(g, {DType::i32, {kRows}, 0}), apart = inputs(turned, {DType::i32, {kRows}, 0}, true);
  const std::vector<Value> by_position{Transformer(model_.spec, weights(g), kPositions)(in.x, {.batch = in.batch})};
  const std::vector<Value> by_turn{
      Transformer(model_.spec, weights(turned), kPositions)(apart.x, {.batch = apart.batch})};
  const std::vector<float> expected = run(g, by_position, *model_.params, ids_)[0];
  EXPECT_EQ(run(turned, by_turn, *model_.params, ids_, kPosition)[0], expected);
  std::array<int32_t, kRows> later = kPosition;
  for (int32_t& t : later) t += 9;  // only differences count
  const std::vector<float> moved = run(turned, by_turn, *model_.params, ids_, later)[0];
  double furthest = 0, changed = 0;
  const std::vector<float> none = run(turned, by_turn, *model_.params, ids_)[0];
  for (size_t i = 0; i < expected.size(); ++i) {
    furthest = std::max(furthest, double(std::abs(moved[i] - expected[i])));
    changed = std::max(changed, double(std::abs(none[i] - expected[i])));
  }
  EXPECT_LT(furthest, 1e-4);
  EXPECT_GT(changed, 1e-3);
}

// Gradients of x are added in the order of the maps. It is that of the source, with every compiler.
TEST(GatedMlp, MapsAreInOneOrder) {
  Graph g;
  const auto map = [&](const char* name, int64_t rows, int64_t columns) -> nn::Linear {
    return {g.param(name, {DType::f32, {rows, columns}})};
  };
  const nn::GatedMlp mlp{map("gate", 8, 4), map("up", 8, 4), map("down", 4, 8)};
  mlp(g.input("x", {DType::f32, {3, 4}}));
  std::vector<Value> weights;
  for (const Node& node : g.nodes())
    for (const Value& in : node.inputs)
      for (const nn::Linear& l : {mlp.gate, mlp.up, mlp.down})
        if (in == l.weight) weights.push_back(in);
  EXPECT_EQ(weights, (std::vector<Value>{mlp.up.weight, mlp.gate.weight, mlp.down.weight}));
}

}  // namespace
}  // namespace toy::transformer_test
