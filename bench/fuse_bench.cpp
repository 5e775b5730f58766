// What fusing a chain of elementwise ops brings: a session with and without, in turn, best of several runs.
//   fuse_bench [threads] [cpu]     cpu: one thread's own time, on a busy machine
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cpu/peak/peak.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::bench {
namespace {

using Chain = Value (*)(Value x, Value y, Value row);

void measure(const char* name, Chain chain, const Shape& shape, int threads) {
  const auto device = make_cpu_device(threads);
  Graph g;
  const TensorType type{DType::f32, shape, 0};
  const Value x = g.input("x", type), y = g.input("y", type), row = g.input("row", {DType::f32, {shape.back()}, 0});
  const std::vector<Value> outputs{chain(x, y, row)};
  const ParamStore none(*device);
  std::vector<float> values(size_t(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i * 2654435761u >> 16 & 0xffff) / 65536.0f;
  double best[2] = {1e9, 1e9};
  std::vector<std::unique_ptr<Session>> sessions;
  for (const bool fused : {false, true}) {
    const auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, *device, {.fuse = fused}));
    sessions.push_back(std::make_unique<Session>(*device, plan, std::initializer_list<const ParamStore*>{&none}));
    for (const char* input : {"x", "y"}) sessions.back()->set(input, values);
    sessions.back()->set("row", std::span(values).first(size_t(shape.back())));
  }
  for (int r = 0; r < 20; ++r)
    for (size_t f = 0; f < 2; ++f) {
      const double before = now();
      sessions[f]->run();
      best[f] = std::min(best[f], now() - before);
    }
  std::printf("%-34s %-13s one by one %8.3f ms  fused %8.3f ms  x%.2f  (%.1f GB/s of operands)\n", name,
              shape.str().c_str(), best[0] * 1e3, best[1] * 1e3, best[0] / best[1],
              sessions[1]->plan().cost().bytes * 1e-9 / best[1]);
}

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) {
  using namespace toy;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  bench::cpu_time = argc > 2;
  const bench::Chain cheap = [](Value x, Value y, Value) { return scale((x * y + x) * y - y, 0.5); };
  const bench::Chain rows = [](Value x, Value y, Value row) { return scale((x * row + y) * row - y, 0.5); };
  const bench::Chain dear = [](Value x, Value y, Value) { return exp(neg(sigmoid(x * y) + x)); };
  for (const Shape& shape : {Shape{4096, 1024}, Shape{16384, 256}, Shape{65536, 64}, Shape{256, 576}}) {
    bench::measure("mul, add, mul, sub, scale", cheap, shape, threads);
    bench::measure("the same with a row [D]", rows, shape, threads);
    bench::measure("mul, sigmoid, add, neg, exp", dear, shape, threads);
  }
}
