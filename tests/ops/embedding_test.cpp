// Rows of a table, exactly, and the scatter-add that is their gradient: at most N additions to one row.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"

namespace toy::test::embedding_test {
namespace {

const OpSuite kEmbedding{
    .op = "embedding",
    .cases = {{"table:[1,1] ids:i32[1]=below(1)"},
              {"table:[5,3] ids:i32[7]=below(5)"},
              {"table:[3,5]@(1,0) ids:i32[7]=below(5)"},
              {"table:f16[11,9] ids:i32[4]=below(11)"},
              {"table:bf16[11,9] ids:i32[4]=below(11)"},
              {"table:[5,3] ids:i32[7,2]=below(5)"},
              {"table:[200,67] ids:i32[131]=below(200)"}},
    .bad = {{"table:[5,3] ids:[2]", "embedding: ids is f32, expected i32"},
            {"table:i32[5,3]=below(2) ids:i32[2]=below(5)", "embedding: table is i32, expected a float type"}},
    .bound = exact(),
    .rows = {"ids"}};

const OpSuite kEmbeddingGrad{
    .op = "embedding_grad",
    .cases = {{"dy:[1,1] ids:i32[1]=below(1) acc:[1,1]"},
              {"dy:[7,3] ids:i32[7]=below(4) acc:[4,3]"},
              {"dy:[3,7]@(1,0) ids:i32[7]=list(2,2,2,2,2,2,2) acc:[4,3]"},
              {"dy:[7,2,3] ids:i32[7,2]=below(4) acc:[4,3]"},
              {"dy:[131,67] ids:i32[131]=below(40) acc:[40,67]"}},
    .bad = {{"dy:[7,3] ids:i32[6]=below(4) acc:[4,3]", "embedding_grad: ids has leading dimensions [6], dy has [7]"},
            {"dy:[7,3] ids:i32[7]=below(4) acc:[4,2]", "embedding_grad: acc has D=2, dy has D=3"}},
    .bound = of_magnitudes([](const Run& r) { return double(r.shape(1).count()); }),
    .rows = {"dy", "ids"}};

const OpSuite kOneHot{.op = "one_hot",
                      .cases = {{"ids:i32[3,2]=below(4)", OneHotAttrs{4}},
                                {"ids:i32[1]=list(0)", OneHotAttrs{1}},
                                {"ids:i32[4]=list(2,-1,0,4)", OneHotAttrs{5}},
                                {"ids:i32[67]=targets(131)", OneHotAttrs{131}}},
                      .bad = {{"ids:[4]", "one_hot: ids is f32, expected i32", OneHotAttrs{5}}},
                      .bound = exact(),
                      .rows = {"ids"}};

const bool kDone = register_suite(kEmbedding) && register_suite(kEmbeddingGrad) && register_suite(kOneHot);

std::string message_of_run(const char* op, const char* operands, const Attrs& attrs, Device& device) {
  const Built b = build_op(*find_op(op), parse_operands(operands), attrs);
  return toy::testing::error_of([&] { Program(b, device).run(); });
}

TEST(Embedding, IdsOutsideOfTheTableAreNamed) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    EXPECT_EQ(message_of_run("embedding", "table:[5,3] ids:i32[3]=list(0,5,1)", {}, *device),
              "embedding: row 1 has id 5");
    EXPECT_EQ(message_of_run("embedding", "table:[5,3] ids:i32[3]=list(0,1,-7)", {}, *device),
              "embedding: row 2 has id -7");
    EXPECT_EQ(message_of_run("embedding_grad", "dy:[2,3] ids:i32[2]=list(0,5) acc:[5,3]", {}, *device),
              "embedding_grad: row 1 has id 5");
    EXPECT_EQ(message_of_run("one_hot", "ids:i32[2]=list(0,5)", OneHotAttrs{5}, *device), "one_hot: row 1 has id 5");
  }
}

// Rows of one id are added in their order: (1e8 + 1) - 1e8 is 0 in f32, 1e8 - 1e8 + 1 is 1.
TEST(EmbeddingGrad, AddsRowsOfOneIdInOrder) {
  for (const auto& [dy, expected] : {std::pair("1e8,1,-1e8", 0.0), std::pair("1e8,-1e8,1", 1.0)})
    for (int threads = 1; threads <= 3; ++threads) {
      const std::string text = "dy:[3,1]=list(" + std::string(dy) + ") ids:i32[3]=list(1,1,1) acc:[2,1]=const(0)";
      const Results y =
          Program(build_op(*find_op("embedding_grad"), parse_operands(text), {}), cpu_device(threads)).run();
      EXPECT_EQ(y[0][1], expected);
    }
}

// A tied table: the product's gradient is complete before rows are added to it, whichever was used first.
TEST(Embedding, RowsAreAddedLast) {
  for (const bool embedding_first : {true, false}) {
    Graph g;
    const Value table = g.param("table", {DType::f32, {5, 3}, 0}), ids = g.input("ids", {DType::i32, {4}, 0});
    const Value x = g.param("x", {DType::f32, {4, 3}, 0});
    Value rows, logits;
    if (embedding_first) rows = embedding(table, ids);
    logits = linear(x, table);
    if (!embedding_first) rows = embedding(table, ids);
    const std::vector<Value> wrt{table};
    const Node& last = g.node(gradients(sum_all(rows) + sum_all(logits), wrt)[0]);
    ASSERT_EQ(last.op->name(), "embedding_grad");
    EXPECT_EQ(g.node(last.inputs[2]).op->name(), "linear_grad_w");
  }
}

}  // namespace
}  // namespace toy::test::embedding_test
