// The gated delta rule on this machine: microseconds per token and value head, forward, backward and in decoding.
//   gated_delta_bench [threads] [cpu]     cpu: the threads' own time, on a busy machine
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak.h"
#include "toy/base/philox.h"
#include "toy/ops/attrs/structs.h"
#include "toy/tensor/buffer.h"

namespace toy::bench {
namespace {

struct Operand {
  Buffer memory;
  View view;
  Operand(DType t, const Shape& shape) : memory(bytes_of(t, shape)), view(memory.data(), t, shape) {}
  // Uniform in [lo, hi); rows of the last dimension are then divided by `length` times their length, if that is not 0.
  Operand(const char* name, const Shape& shape, double lo, double hi, double length = 0) : Operand(DType::f32, shape) {
    const Philox random(1, name);
    const int64_t width = shape.back();
    float* x = view.as<float>();
    for (int64_t i = 0; i < shape.count(); ++i) x[i] = float(lo + (hi - lo) * random.uniform(uint64_t(i)));
    for (int64_t at = 0; length > 0 && at < shape.count(); at += width) {
      double sum = 0;
      for (int64_t i = at; i < at + width; ++i) sum += double(x[i]) * double(x[i]);
      for (int64_t i = at; i < at + width; ++i) x[i] = float(double(x[i]) / (length * std::sqrt(sum)));
    }
  }
};

struct Bench {
  ThreadPool pool;
  explicit Bench(int threads) : pool(threads) {}

  // Best of several calls, in seconds: of its slowest thread.
  double time(const KernelRecord& record, const std::vector<View>& in, const std::vector<View>& out, int reps) {
    const Attrs attrs = DeltaRuleAttrs{};
    std::vector<OperandDesc> in_desc, out_desc;
    for (const View& v : in) in_desc.push_back({v.data != nullptr, v.dtype, v.shape});
    for (const View& v : out) out_desc.push_back({v.data != nullptr, v.dtype, v.shape});
    Buffer workspace(record.workspace({in_desc, out_desc, attrs, pool.size()}));
    KernelError error;
    double best = 1e9;
    for (int r = 0; r < reps; ++r) {
      std::vector<double> spent(static_cast<size_t>(pool.size()));
      pool.run([&](int t) {
        const double t0 = now();
        record.run({t, pool.size(), &pool, &error}, {in, out, attrs, workspace.data()});
        spent[size_t(t)] = now() - t0;
      });
      best = std::min(best, *std::max_element(spent.begin(), spent.end()));
    }
    return best;
  }

  // `sequences` of `length` rows each: forward from states to states, and backward.
  void run(int64_t sequences, int64_t length, int64_t heads, int64_t keys, int64_t width, bool vector_gate,
           bool backward) {
    const int64_t n = sequences * length;
    const Shape key{n, keys, width}, value{n, heads, width}, gates = vector_gate ? value : Shape{n, heads},
                                                             state{sequences, heads, width, width};
    Operand q("q", key, -1, 1, std::sqrt(double(width))), k("k", key, -1, 1, 1), v("v", value, -1, 1),
        g("g", gates, -0.2, 0), beta("beta", {n, heads}, 0, 1), s("s", state, -1, 1), o(DType::f32, value),
        seq(DType::i32, {n}), pos(DType::i32, {n});
    for (int64_t i = 0; i < n; ++i) {
      seq.view.as<int32_t>()[i] = int32_t(i / length);
      pos.view.as<int32_t>()[i] = int32_t(i % length + 1);
    }
    const double flops = double(n * heads * width * width), per = 1e6 / double(n * heads);
    const int reps = int(std::clamp(2e10 / flops / 7, 5.0, 500.0));
    const double f =
        time(cpu::gated_delta_rule_update_kernel(),
             {s.view, q.view, k.view, v.view, g.view, beta.view, seq.view, pos.view}, {s.view, o.view}, reps);
    std::printf("P=V=%-3ld %s B=%-4ld T=%-4ld H=%-2ld K=%-2ld forward %6.3f us", long(width),
                vector_gate ? "vector" : "scalar", long(sequences), long(length), long(heads), long(keys), f * per);
    if (backward) {
      Operand s0("s0", state, -1, 1), d_o("do", value, -1, 1), ds("ds", state, -1, 1), dq(DType::f32, key),
          dk(DType::f32, key), dv(DType::f32, value), dg(DType::f32, gates), dbeta(DType::f32, {n, heads}),
          ds0(DType::f32, state);
      const double b = time(cpu::gated_delta_rule_grad_kernel(),
                            {q.view, k.view, v.view, g.view, beta.view, s0.view, d_o.view, ds.view, seq.view, pos.view},
                            {dq.view, dk.view, dv.view, dg.view, dbeta.view, ds0.view}, std::max(5, reps / 4));
      std::printf("   backward %6.3f us", b * per);
    }
    std::printf("\n");
  }
};

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) {
  toy::bench::cpu_time = argc > 2;
  toy::bench::Bench bench(argc > 1 ? std::atoi(argv[1]) : 0);
  std::printf("%d threads, fma %.0f GFLOP/s; per token and value head\n", bench.pool.size(),
              toy::bench::fma_gflops(bench.pool));
  for (const int64_t width : {128, 64})
    for (const bool vector_gate : {false, true}) {
      for (const int64_t length : {1, 2, 4, 16, 64}) bench.run(1, length, 4, 4, width, vector_gate, false);
      for (const int64_t length : {64, 256, 2048}) bench.run(1, length, 4, 4, width, vector_gate, true);
      bench.run(8, 256, 4, 2, width, vector_gate, true);
      for (const int64_t sequences : {8, 64}) bench.run(sequences, 1, 32, 16, width, vector_gate, false);
    }
}
