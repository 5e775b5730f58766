#include "toy/graph/verify.h"

#include <gtest/gtest.h>

#include "testing/errors.h"
#include "toy/ops/ops.h"

namespace toy::verify_test {
namespace {

const TensorType kTable{DType::f32, {5, 3}, 0};

struct Fixture {
  Graph g;
  Value w = g.param("w", kTable), dy = g.input("dy", {DType::f32, {2, 3}, 0}),
        ids = g.input("ids", {DType::i32, {2}, 0}, 5);

  std::string message() const {
    return testing::error_of([&] { verify(g); });
  }
};

TEST(Verify, AnUpdateOfAParameterIsFine) {
  Fixture f;
  embedding_grad(f.dy, f.ids, embedding_grad(f.dy, f.ids, f.w));  // the second updates the new value
  EXPECT_EQ(f.message(), "no error");
}

TEST(Verify, ASecondUpdateIsRefused) {
  Fixture f;
  embedding_grad(f.dy, f.ids, f.w);
  const auto scope = f.g.scope("blk.3");
  embedding_grad(f.dy, f.ids, f.w);
  EXPECT_EQ(f.message(),
            "blk.3: embedding_grad: 'w' is updated a second time (first by embedding_grad); update the new "
            "value instead");
}

TEST(Verify, ASecondUpdateThroughAViewIsRefused) {
  Fixture f;
  embedding_grad(f.dy, f.ids, f.w);
  embedding_grad(f.dy, f.ids, reshape(f.w, {5, 3}));
  EXPECT_NE(f.message(), "no error");
}

TEST(Verify, AReadBeforeTheUpdateIsFine) {
  Fixture f;
  const Value updated = embedding_grad(f.dy, f.ids, f.w);
  exp(f.w);  // later in the graph, but it does not depend on the update: the planner runs it first
  exp(updated);
  EXPECT_EQ(f.message(), "no error");
}

TEST(Verify, AReadAfterTheUpdateIsRefused) {
  Fixture f;
  const Value updated = embedding_grad(f.dy, f.ids, f.w);
  const auto scope = f.g.scope("head");
  f.w + updated;
  EXPECT_EQ(f.message(), "head: add: reads 'w' after embedding_grad has updated it; read the updated value instead");
}

TEST(Verify, AReadAfterTheUpdateThroughAViewIsRefused) {
  Fixture f;
  const Value view = permute(f.w, {1, 0});
  const Value updated = embedding_grad(f.dy, f.ids, f.w);
  view + permute(exp(updated), {1, 0});
  EXPECT_EQ(f.message(), "add: reads %3 after embedding_grad has updated it; read the updated value instead");
}

TEST(Verify, InputsAndConstantsCannotBeUpdated) {
  Fixture f;
  embedding_grad(f.dy, f.ids, f.g.input("x", kTable));
  EXPECT_EQ(f.message(), "embedding_grad: 'x' cannot be updated: it is not a parameter");
  Fixture h;
  embedding_grad(h.dy, h.ids, h.g.constant(kTable, std::vector<double>(15, 0.0)));
  EXPECT_EQ(h.message(), "embedding_grad: %3 cannot be updated: it is not a parameter");
}

TEST(Verify, TemporariesCanBeUpdated) {
  Fixture f;
  embedding_grad(f.dy, f.ids, fill(f.g, {5, 3}, 0));
  EXPECT_EQ(f.message(), "no error");
}

}  // namespace
}  // namespace toy::verify_test
