#include "swish.h"

#include <cmath>

#include "toy/backend/extend.h"
#include "toy/backend/host_kernel.h"
#include "toy/ops/ops.h"

namespace own {
namespace {

using namespace toy;

// With s = sigmoid(beta x) and y = x s:  dx = dy (s + beta y (1 - s)),  dbeta = sum over rows of dy x y (1 - s).
void vjp(Vjp& c) {
  const Value x = c.in(0), beta = c.in(1), y = c.out(0), dy = c.grad(0);
  const Value s = sigmoid(x * beta), rest = y - y * s;
  if (c.needs(0)) c.give(0, dy * (s + beta * rest));
  if (c.needs(1)) c.give(1, sum_to(dy * x * rest, beta.type()));
}

Cost cost(const CostQuery& q) {
  const double n = double(q.out[0].count());
  return {.flops = 4 * n, .transcendentals = n};
}

// What the op means, in ops that every device has.
std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) {
  return {in[0] * sigmoid(in[0] * in[1])};
}

const OpDef& swish_def() {
  static const OpDef def{
      .signature = "swish(x:[*,D], beta:[D]) -> y:[*,D]", .vjp = vjp, .cost = cost, .decompose = decompose};
  return def;
}

// The kernel, for f64 (reference) and f32 (cpu). Every thread of the team is called with the same operands and does its
// share of the rows.
template <class T>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const T *x = args.in[0].as<const T>(), *beta = args.in[1].as<const T>();
  T* y = args.out[0].as<T>();
  const int64_t width = args.in[1].count();
  if (width == 0) return;
  const Range rows = ctx.share(args.out[0].count() / width);
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t i = 0; i < width; ++i) {
      const T v = x[row * width + i];
      y[row * width + i] = v / (1 + std::exp(-beta[i] * v));
    }
}

}  // namespace

toy::Value swish(toy::Value x, toy::Value beta) { return toy::apply(swish_def(), {x, beta}); }

std::unique_ptr<toy::Device> with_swish(std::unique_ptr<toy::Device> device) {
  const bool f64 = device->compute() == DType::f64;
  return extend_device(std::move(device),
                       {{.op = "swish", .in_place = {{0, 0}}, .code = f64 ? run<double> : run<float>}});
}

}  // namespace own
