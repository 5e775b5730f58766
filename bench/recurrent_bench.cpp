// Recurrent layers on this machine: the gated delta rule and Mamba-2's state space in nanoseconds per token and value
// head, and causal convolutions, forward, backward and in decoding.
//   recurrent_bench [threads] [cpu]     cpu: the threads' own time, on a busy machine
//   recurrent_bench [threads] delta     only what bench/peers/gated_delta.py compares
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak/peak.h"
#include "toy/backend/host_kernel.h"
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
  double time(const KernelRecord& record, const std::vector<View>& in, const std::vector<View>& out, const Attrs& attrs,
              int reps) {
    std::vector<OperandDesc> in_desc, out_desc;
    for (const View& v : in) in_desc.push_back({v.data != nullptr, v.dtype, v.shape});
    for (const View& v : out) out_desc.push_back({v.data != nullptr, v.dtype, v.shape});
    Buffer workspace(record.workspace ? record.workspace({in_desc, out_desc, attrs, pool.size()}) : 0);
    KernelError error;
    double best = 1e9;
    for (int r = 0; r < reps; ++r) {
      std::vector<double> spent(static_cast<size_t>(pool.size()));
      pool.run([&](int t) {
        const double t0 = now();
        record.code.as<HostKernel>()({t, pool.size(), &pool, &error, {}}, {in, out, attrs, workspace.data()});
        spent[size_t(t)] = now() - t0;
      });
      best = std::min(best, *std::max_element(spent.begin(), spent.end()));
    }
    return best;
  }

  // Rows of `sequences` of `length` rows each, from position 1 on.
  static void number(const View& seq, const View& pos, int64_t length) {
    for (int64_t i = 0; i < seq.count(); ++i) {
      seq.as<int32_t>()[i] = int32_t(i / length);
      pos.as<int32_t>()[i] = int32_t(i % length + 1);
    }
  }

  // `sequences` of `length` rows each: forward from states to states, and backward.
  void run(int64_t sequences, int64_t length, int64_t heads, int64_t keys, int64_t width, int64_t values,
           bool vector_gate, bool delta, bool backward) {
    const int64_t n = sequences * length;
    const Attrs attrs = DeltaRuleAttrs{HeadMap::interleave, delta};
    const Shape key{n, keys, width}, value{n, heads, values},
        gates = vector_gate ? Shape{n, heads, width} : Shape{n, heads}, state{sequences, heads, width, values};
    Operand q("q", key, -1, 1, std::sqrt(double(width))), k("k", key, -1, 1, 1), v("v", value, -1, 1),
        g("g", gates, -0.2, 0), beta("beta", {n, heads}, 0, 1), s("s", state, -1, 1), o(DType::f32, value),
        seq(DType::i32, {n}), pos(DType::i32, {n});
    number(seq.view, pos.view, length);
    const double flops = double(n * heads * width * values), per = 1e9 / double(n * heads);
    const int reps = int(std::clamp(2e10 / flops / 7, 5.0, 500.0));
    const double f =
        time(cpu::gated_delta_rule_update_kernel(),
             {s.view, q.view, k.view, v.view, g.view, beta.view, seq.view, pos.view}, {s.view, o.view}, attrs, reps);
    std::printf("%s P=%-3ld V=%-3ld %s B=%-4ld T=%-4ld H=%-2ld K=%-2ld forward %6.0f ns", delta ? "delta" : "ssm  ",
                long(width), long(values), vector_gate ? "vector" : "scalar", long(sequences), long(length),
                long(heads), long(keys), f * per);
    if (backward) {
      Operand s0("s0", state, -1, 1), d_o("do", value, -1, 1), ds("ds", state, -1, 1), dq(DType::f32, key),
          dk(DType::f32, key), dv(DType::f32, value), dg(DType::f32, gates), dbeta(DType::f32, {n, heads}),
          ds0(DType::f32, state);
      const double b = time(cpu::gated_delta_rule_grad_kernel(),
                            {q.view, k.view, v.view, g.view, beta.view, s0.view, d_o.view, ds.view, seq.view, pos.view},
                            {dq.view, dk.view, dv.view, dg.view, dbeta.view, ds0.view}, attrs, std::max(5, reps / 4));
      std::printf("   backward %6.0f ns", b * per);
    }
    std::printf("\n");
  }

  // Convolutions of `sequences` of `length` rows with their tails.
  void conv(int64_t sequences, int64_t length, int64_t channels, int64_t width, bool backward) {
    const int64_t n = sequences * length;
    Operand x("x", {n, channels}, -1, 1), w("w", {channels, width}, -1, 1), b("b", {channels}, -1, 1),
        tail("tail", {sequences, width - 1, channels}, -1, 1), y(DType::f32, {n, channels}), seq(DType::i32, {n}),
        pos(DType::i32, {n});
    number(seq.view, pos.view, length);
    for (int64_t i = 0; i < n; ++i) pos.view.as<int32_t>()[i] += int32_t(width);
    const double flops = 2 * double(n * channels * width);
    const int reps = int(std::clamp(2e10 / flops, 5.0, 500.0));
    const std::vector<View> in{x.view, w.view, b.view, tail.view, seq.view, pos.view};
    const double f = time(cpu::causal_conv_kernel(), in, {y.view}, {}, reps),
                 a = time(cpu::conv_append_kernel(), {tail.view, x.view, seq.view, pos.view}, {tail.view}, {}, reps),
                 s = time(cpu::silu_kernel(), {y.view}, {y.view}, {}, reps);
    std::printf("conv W=%-4ld B=%-2ld T=%-4ld C=%ld forward %8.1f us, %5.1f GFLOP/s, tail %6.1f us, silu %6.1f us",
                long(width), long(sequences), long(length), long(channels), f * 1e6, 1e-9 * flops / f, a * 1e6,
                s * 1e6);
    if (backward) {
      Operand dy("dy", {n, channels}, -1, 1), dx(DType::f32, {n, channels}), dw(DType::f32, {channels, width}),
          db(DType::f32, {channels});
      const double g = time(cpu::causal_conv_grad_kernel(), {x.view, w.view, dy.view, tail.view, seq.view, pos.view},
                            {dx.view, dw.view, db.view}, {}, std::max(3, reps / 4));
      std::printf("   backward %8.1f us, %5.1f GFLOP/s", g * 1e6, 2e-9 * flops / g);
    }
    std::printf("\n");
  }
};

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) {
  const bool delta_only = argc > 2 && argv[2] == std::string_view("delta");
  toy::bench::cpu_time = argc > 2 && !delta_only;
  toy::bench::Bench bench(argc > 1 ? std::atoi(argv[1]) : 0);
  std::printf("%d threads, fma %.0f GFLOP/s; per token and value head\n", bench.pool.size(),
              toy::bench::fma_gflops(bench.pool));
  for (const int64_t heads : {8, 16}) bench.run(1, 1024, heads, heads, 128, 128, false, true, true);
  if (delta_only) return 0;
  for (const bool delta : {true, false}) {
    const auto run = [&](int64_t sequences, int64_t length, int64_t heads, int64_t keys, bool vector_gate,
                         bool backward) {
      bench.run(sequences, length, heads, keys, 128, delta ? 128 : 64, vector_gate, delta, backward);
    };
    for (const bool vector_gate : {false, true}) {
      for (const int64_t length : {1, 2, 4, 16, 64}) run(1, length, 4, 4, vector_gate, false);
      for (const int64_t length : {64, 256, 2048}) run(1, length, 4, 4, vector_gate, true);
      run(8, 256, 4, 2, vector_gate, true);
      for (const int64_t sequences : {1, 8, 64}) run(sequences, 1, 32, 16, vector_gate, false);
    }
  }
  for (const int64_t length : {256, 2048}) bench.run(1, length, 24, 1, 128, 64, false, false, true);  // Mamba-2 130M
  for (const int64_t width : {4, 64, 1024}) {
    bench.conv(1, 1024, 512, width, true);
    bench.conv(8, 1, 512, width, false);
  }
}
