// Attention on this machine: forward and backward as a share of the measured fma peak (causal: half of T^2
// counts), decoding as a share of read bandwidth.   attention_bench [threads] [cpu]     cpu: the threads' own time,
// on a busy machine
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak/peak.h"
#include "toy/backend/host_kernel.h"
#include "toy/ops/attrs/structs.h"
#include "toy/tensor/buffer.h"

namespace toy::bench {
namespace {

constexpr int64_t kHeads = 9, kKvHeads = 3, kP = 64;

struct Operand {
  Buffer memory;
  View view;
  Operand(DType t, const Shape& shape) : memory(bytes_of(t, shape)), view(memory.data(), t, shape) {
    if (t != DType::f32 && t != DType::i32) std::memset(memory.data(), 0x2A, memory.bytes());  // touched, and finite
    for (int64_t i = 0; t == DType::f32 && i < shape.count(); ++i)
      view.as<float>()[i] = float((i * 2654435761u >> 8) & 0xffff) / 32768.0f - 1;
  }
};

struct Bench {
  ThreadPool pool;
  const std::vector<float> memory;
  explicit Bench(int threads) : pool(threads), memory(64 << 20, 1.0f) {}

  // Best of several calls, in seconds: of its slowest thread. A call does `layers` one after the other, each with its
  // own inputs of `in`, as a model does.
  double time(const KernelRecord& record, const std::vector<std::vector<View>>& in, const std::vector<View>& out,
              int reps) {
    const Attrs attrs = AttentionAttrs{1 / std::sqrt(float(kP)), 0};
    std::vector<OperandDesc> in_desc, out_desc;
    for (const View& v : in[0]) in_desc.push_back({true, v.dtype, v.shape});
    for (const View& v : out) out_desc.push_back({v.data != nullptr, v.dtype, v.shape});
    Buffer workspace(record.workspace({in_desc, out_desc, attrs, pool.size()}));
    KernelError error;
    double best = 1e9;
    for (int r = 0; r < reps; ++r) {
      std::vector<double> spent(static_cast<size_t>(pool.size()));
      pool.run([&](int t) {
        const ExecContext ctx{t, pool.size(), &pool, &error, {}};
        const double t0 = now();
        for (const std::vector<View>& layer : in) {
          record.code.as<HostKernel>()(ctx, {layer, out, attrs, workspace.data()});
          if (&layer != &in.back()) ctx.barrier();
        }
        spent[size_t(t)] = now() - t0;
      });
      best = std::min(best, *std::max_element(spent.begin(), spent.end()));
    }
    return best / double(in.size());
  }
  void train(int64_t sequences, int64_t length) {
    const int64_t n = sequences * length;
    const Shape wide{n, kHeads, kP}, narrow{n, kKvHeads, kP};
    Operand q(DType::f32, wide), k(DType::f32, narrow), v(DType::f32, narrow), o(DType::f32, wide),
        lse(DType::f32, {n, kHeads}), d_o(DType::f32, wide), dq(DType::f32, wide), dk(DType::f32, narrow),
        dv(DType::f32, narrow), seq(DType::i32, {n}), pos(DType::i32, {n});
    for (int64_t i = 0; i < n; ++i) {
      seq.view.as<int32_t>()[i] = int32_t(i / length);
      pos.view.as<int32_t>()[i] = int32_t(i % length);
    }
    const double flops = 2.0 * double(kHeads * kP * length * length * sequences) * 1e-9;
    const int reps = int(std::clamp(60 / flops, 5.0, 200.0));
    const double f =
        flops / time(cpu::attention_kernel(), {{q.view, k.view, v.view, seq.view, pos.view}}, {o.view, lse.view}, reps);
    const double b =
        2.5 * flops /
        time(cpu::attention_grad_kernel(), {{q.view, k.view, v.view, o.view, lse.view, d_o.view, seq.view, pos.view}},
             {dq.view, dk.view, dv.view}, reps);
    const double peak = std::max({fma_gflops(pool), fma_gflops(pool), fma_gflops(pool)});
    std::printf("B=%-2ld T=%-4ld  forward %5.1f GFLOP/s %3.0f%%   backward %5.1f GFLOP/s %3.0f%%   (fma %.0f)\n",
                long(sequences), long(length), f, 100 * f / peak, b, 100 * b / peak, peak);
  }
  // The cache comes from memory, not from a cache of the processor: there are layers enough.
  void decode(int64_t sequences, int64_t length, DType type) {
    const int64_t per_seq = (length + 63) / 64, pages = sequences * per_seq;
    const Shape keys{pages, kKvHeads, kP, 64}, values{pages, kKvHeads, 64, kP};
    const int64_t layers = std::max<int64_t>(1, (64 << 20) / int64_t(2 * bytes_of(type, keys)));
    Operand q(DType::f32, {sequences, kHeads, kP}), seq(DType::i32, {sequences}), pos(DType::i32, {sequences}),
        table(DType::i32, {sequences, per_seq}), o(DType::f32, {sequences, kHeads, kP});
    for (int64_t i = 0; i < pages; ++i) table.view.as<int32_t>()[i] = int32_t(i % per_seq * sequences + i / per_seq);
    for (int64_t i = 0; i < sequences; ++i) {
      seq.view.as<int32_t>()[i] = int32_t(i);
      pos.view.as<int32_t>()[i] = int32_t(length - 1);
    }
    std::vector<Operand> cache;
    std::vector<std::vector<View>> in;
    for (int64_t l = 0; l < layers; ++l) {
      const View kc = cache.emplace_back(type, keys).view, vc = cache.emplace_back(type, values).view;
      in.push_back({q.view, kc, vc, seq.view, pos.view, table.view});
    }
    const double t = time(cpu::attention_paged_kernel(), in, {o.view}, 30);
    const double bytes = 2 * double(bytes_of(type, keys));
    const double read = read_gbs(pool, memory.data(), memory.size());
    std::printf("decode %2ld sequences, %-4s cache of %4ld (%5.1f MB): %6.1f GB/s  %3.0f%%   %6.1f us (read %.0f)\n",
                long(sequences), name_of(type).data(), long(length), bytes * 1e-6, bytes / t * 1e-9,
                bytes / t * 1e-7 / read, t * 1e6, read);
  }
};

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) {
  toy::bench::cpu_time = argc > 2;
  toy::bench::Bench bench(argc > 1 ? std::atoi(argv[1]) : 0);
  std::printf("%d threads, H=9 K=3 P=64\n", bench.pool.size());
  for (int64_t sequences : {1, 8}) bench.train(sequences, 256);
  for (int64_t sequences : {1, 2}) bench.train(sequences, 2048);
  for (int64_t length : {64, 256, 512, 544, 2048, 4096})
    for (int64_t sequences : {1, 4, 32})
      for (const toy::DType type : {toy::DType::f32, toy::DType::f16, toy::DType::q8_0})
        bench.decode(sequences, length, type);
}
