// Speed of the dense products of the cpu device through their kernel records.
//
//   gemm_bench [forward] [half] [train] [tiny] [xent] [quant] [one]     (none: all)
// one: a team of one, timed by its own CPU time, for a machine that others use too.
//
// Each line: GFLOP/s, % of the FMA peak and (few rows) % of the read bandwidth, both measured right before
// and after, and, where oneDNN was found at build time, how much faster ours is than its sgemm on tiles,
// called single-threaded from the same team, alternating. Medians of ratios of neighbours in time: machines
// change their speed.
//
// quant: products of many rows on quantized weights, on one thread: GOP/s of AVX-512 with VNNI, % of the peak of its
// int8 dot product, and how much faster the tiles of AMX are.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak/peak.h"
#include "backend/cpu/quant/quant_isa.h"
#include "tensor/quant_formats.h"
#include "toy/backend/host_kernel.h"
#include "toy/tensor/buffer.h"

#if TOY_HAVE_DNNL
#include <dnnl.h>
extern "C" void omp_set_num_threads(int);  // oneDNN's team; one thread each, ours call it
#endif

namespace toy::bench {
namespace {

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

Buffer random_floats(size_t count) {
  Buffer b(count * 4);
  float* p = reinterpret_cast<float*>(b.data());
  for (size_t i = 0; i < count; ++i) p[i] = float(int(i * 2654435761u >> 16 & 255) - 128) / 128.0f;
  return b;
}

struct Shape2 {
  size_t outs, ins;
};
constexpr Shape2 kShapes[] = {{1536, 576}, {576, 1536}, {576, 576}, {192, 576}, {49152, 576}, {4096, 4096}};
constexpr Shape2 kTiny[] = {{64, 64}, {176, 64}, {64, 176}, {256, 64}};

// Weights rotate through memory, as in a model that is larger than the caches.
class Weights {
 public:
  Weights() : memory_(random_floats(kFloats)) {}
  std::byte* next(size_t bytes) {
    at_ = (at_ + 1) % std::max<size_t>(1, kFloats * 4 / bytes);
    return memory_.data() + at_ * bytes;
  }
  const float* cold(size_t floats) { return reinterpret_cast<const float*>(next(floats * 4)); }

 private:
  static constexpr size_t kFloats = 64u << 20;
  Buffer memory_;
  size_t at_ = 0;
};

class Bench {
 public:
  explicit Bench(int threads) : pool_(threads) {}

  // One product: ours by a record, the peer's by sgemm's arguments.
  struct Job {
    KernelRecord record;
    std::vector<View> in, out;
    int weight = -1;          // the input that rotates through memory
    char ta = 'N', tb = 'N';  // sgemm: C[m,n] = op(A) op(B), row-major
    size_t m = 0, n = 0, k = 0, lda = 0, ldb = 0;
    int a = 0, b = 0;  // which inputs are A and B
    bool peer = true, read = false;
    double flop = 0;
  };

  void run(Job job) {
    std::vector<OperandDesc> in, out;
    for (const View& v : job.in) in.push_back({v.data != nullptr, v.dtype, v.shape});
    for (const View& v : job.out) out.push_back({v.data != nullptr, v.dtype, v.shape});
    const Attrs attrs;
    const size_t bytes = job.record.workspace ? job.record.workspace({in, out, attrs, pool_.size()}) : 0;
    if (bytes > workspace_.bytes()) workspace_ = Buffer(bytes);
    const size_t read_bytes = job.weight >= 0 ? job.in[size_t(job.weight)].bytes() : 0;
    const double expected = job.flop / (120e9 * pool_.size()) + double(read_bytes) / 40e9 + 2e-6;
    const int inner = std::max(1, int(3e-3 / expected)), reps = job.flop > 2e10 ? 4 : 12;
    std::vector<double> gflops, of_fma, of_read, ratio, micros;
    for (int rep = 0; rep <= reps; ++rep) {
      double fma = fma_gflops(pool_);
      const double read = job.read ? read_gbs(pool_, weights_.cold(1 << 23), 1 << 23) : 0;
      const double ours = time(inner, [&] { call_ours(job, attrs); });
      fma = (fma + fma_gflops(pool_)) / 2;
      const double theirs = job.peer && kPeer ? time(inner, [&] { call_peer(job); }) : 0;
      if (rep == 0) continue;
      gflops.push_back(job.flop / ours * 1e-9);
      of_fma.push_back(gflops.back() / fma);
      if (read > 0) of_read.push_back(double(read_bytes) / ours * 1e-9 / read);
      ratio.push_back(theirs / ours);
      micros.push_back(ours * 1e6);
    }
    fmt::print(" | {:6.1f} {:3.0f}%", median(gflops), 100 * median(of_fma));
    if (!of_read.empty()) fmt::print(" read {:3.0f}%", 100 * median(of_read));
    if (job.peer && kPeer) fmt::print(" x{:.2f}", median(ratio));
    if (median(micros) < 100) fmt::print(" {:.1f} us", median(micros));
    std::fflush(stdout);
  }

  // A linear layer's products at some shape: y, and dx and dw if wanted.
  void layer(Shape2 s, size_t rows, DType w_type, bool train, bool rotate = true) {
    const int64_t n = int64_t(rows), outs = int64_t(s.outs), ins = int64_t(s.ins);
    const View x(x_.data(), DType::f32, {n, ins}), dy(dy_.data(), DType::f32, {n, outs}), none;
    const View w(weights_.next(s.outs * s.ins * size_of(w_type)), w_type, {outs, ins});
    const View c(c_.data(), DType::f32, {n, outs}), dx(c_.data(), DType::f32, {n, ins}),
        dw(c_.data(), DType::f32, {outs, ins});
    const double flop = 2.0 * rows * s.outs * s.ins;
    const int rotating = rotate ? 1 : -1;
    fmt::print("({},{}) {:4} rows", s.outs, s.ins, rows);
    run({cpu::linear_kernel(),
         {x, w, none, none},
         {c},
         rotating,
         'N',
         'T',
         rows,
         s.outs,
         s.ins,
         s.ins,
         s.ins,
         0,
         1,
         w_type == DType::f32,
         rotate && rows <= 8,
         flop});
    if (train) {
      run({cpu::linear_grad_x_kernel(),
           {dy, w, none},
           {dx},
           rotating,
           'N',
           'N',
           rows,
           s.ins,
           s.outs,
           s.outs,
           s.ins,
           0,
           1,
           true,
           false,
           flop});
      run({cpu::linear_grad_w_kernel(),
           {dy, x, none},
           {dw},
           -1,
           'T',
           'N',
           s.outs,
           s.ins,
           rows,
           s.outs,
           s.ins,
           0,
           1,
           true,
           false,
           flop});
    }
    fmt::print("\n");
  }

  void xent(size_t rows, size_t vocab, size_t width) {
    const int64_t n = int64_t(rows), v = int64_t(vocab), d = int64_t(width);
    Buffer targets(rows * 4), weight = random_floats(rows);
    const std::vector<View> in{View(x_.data(), DType::f32, {n, d}),
                               View(weights_.next(vocab * width * 4), DType::f32, {v, d}),
                               View(targets.data(), DType::i32, {n}),
                               View(weight.data(), DType::f32, {n}),
                               View(),
                               View()};
    Buffer loss(4);
    fmt::print("xent {} rows, ({},{})", rows, vocab, width);
    run({.record = cpu::linear_xent_kernel(),
         .in = in,
         .out = {View(loss.data(), DType::f32, {}), View(), View(dy_.data(), DType::f32, {n, d}),
                 View(c_.data(), DType::f32, {v, d}), View(), View()},
         .peer = false,
         .flop = 6.0 * rows * vocab * width});
    fmt::print("\n");
  }

  void quant(DType type, Shape2 s, size_t rows) {
    const cpu::QuantIsa *const vnni = cpu::quant_vnni(), *const amx = cpu::quant_amx();
    fmt::print("{} ({},{}) {:4} rows", name_of(type), s.outs, s.ins, rows);
    const double op = 2.0 * rows * s.outs * s.ins;
    const int inner = std::max(1, int(3e-3 / (op / 300e9)));
    std::vector<double> gops, of_int8, ratio;
    for (int rep = 0; vnni && rep <= 12; ++rep) {
      const double int8 = int8_dot_gops(one_), ours = time(inner, [&] { call_quant(*vnni, type, s, rows); });
      const double tiles = amx && amx->has(type) ? time(inner, [&] { call_quant(*amx, type, s, rows); }) : 0;
      if (rep == 0) continue;
      gops.push_back(op / ours * 1e-9);
      of_int8.push_back(gops.back() / int8);
      if (tiles > 0) ratio.push_back(ours / tiles);
    }
    if (vnni)
      fmt::print(" | {:6.1f} {:3.0f}%", median(gops), 100 * median(of_int8));
    else
      fmt::print(" | no VNNI here");
    fmt::print("{}\n", amx && amx->has(type) ? fmt::format(" x{:.2f}", median(ratio)) : " no AMX");
    std::fflush(stdout);
  }

  int main(const std::vector<std::string>& words) {
    const auto wanted = [&](const char* w) { return words.empty() || std::count(words.begin(), words.end(), w) > 0; };
    fmt::print("{} threads, FMA {:.0f} GFLOP/s, read {:.0f} GB/s, peer {}\n", pool_.size(), fma_gflops(pool_),
               read_gbs(pool_, weights_.cold(1 << 24), 1 << 24), kPeer ? "oneDNN sgemm" : "none");
    if (wanted("forward"))
      for (const Shape2 s : kShapes)
        for (size_t rows : {1, 4, 8, 16, 32, 64, 128, 256}) layer(s, rows, DType::f32, false);
    for (const DType t : {DType::f16, DType::bf16})
      if (wanted("half")) {
        fmt::print("{}\n", name_of(t));
        for (const Shape2 s : kShapes)
          for (size_t rows : {1, 8, 32, 256}) layer(s, rows, t, false);
      }
    if (wanted("train"))
      for (const Shape2 s : kShapes)
        for (size_t rows : {64, 256, 1024})
          if (s.outs * s.ins < 20000000 || rows <= 256) layer(s, rows, DType::f32, true);
    if (wanted("tiny"))
      for (const Shape2 s : kTiny)
        for (size_t rows : {1, 8, 64, 512}) layer(s, rows, DType::f32, true, false);
    if (wanted("xent")) xent(64, 256, 64), xent(512, 8192, 288), xent(256, 49152, 576);
    if (wanted("quant"))
      for (const DType t : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k, DType::q2_k})
        for (const Shape2 s : {Shape2{1536, 512}, Shape2{4096, 4096}})
          for (size_t rows : {24, 48, 64, 256}) quant(t, s, rows);
    return 0;
  }

 private:
  template <class F>
  static double time(int inner, const F& f) {
    const double start = now();
    for (int i = 0; i < inner; ++i) f();
    return (now() - start) / inner;
  }
  void call_ours(Job& job, const Attrs& attrs) {
    if (job.weight >= 0) job.in[size_t(job.weight)].data = weights_.next(job.in[size_t(job.weight)].bytes());
    const KernelArgs args{job.in, job.out, attrs, workspace_.data()};
    pool_.run([&](int t) {
      job.record.code.as<HostKernel>()(ExecContext{t, pool_.size(), &pool_, &error_, {}}, args);
    });
  }

  // Rounds the rows, too.
  void call_quant(const cpu::QuantIsa& isa, DType type, Shape2 s, size_t rows) {
    const size_t run = toy::quant::with_format(type, []<class F>() { return size_t(F::kRun); });
    const size_t rounded = cpu::QuantRows::bytes(rows, s.ins, run) / 64 * 64 + 64;
    if (const size_t bytes = rounded + rows * isa.strip * 4; bytes > workspace_.bytes()) workspace_ = Buffer(bytes);
    const cpu::QuantRows x(workspace_.data(), rows, s.ins, info_of(type).block, run, isa.tile);
    const auto* values = reinterpret_cast<const float*>(x_.data());
    cpu::quantize_rows(values, 0, rows, isa.offset(type), isa.by_runs, x);
    const cpu::QuantProduct p{.x = values,
                              .w = weights_.next(s.outs * bytes_of(type, int64_t(s.ins))),
                              .w_type = type,
                              .rows = rows,
                              .outs = s.outs,
                              .k = s.ins,
                              .y = reinterpret_cast<float*>(c_.data())};
    const cpu::QuantPart part{&p, x, 0, rows, reinterpret_cast<float*>(workspace_.data() + rounded)};
    for (size_t strip = 0; strip * isa.strip < s.outs; ++strip) isa.run(part, strip);
  }

#if TOY_HAVE_DNNL
  static constexpr bool kPeer = true;
  void call_peer(Job& job) {
    if (job.weight >= 0) job.in[size_t(job.weight)].data = weights_.next(job.in[size_t(job.weight)].bytes());
    const float *a = job.in[size_t(job.a)].as<float>(), *b = job.in[size_t(job.b)].as<float>();
    float* c = job.out[0].as<float>();
    const size_t m = job.m, n = job.n, team = size_t(pool_.size());
    const bool cut_n = n >= m;
    const size_t total = cut_n ? n : m, tiles = std::max(team, ((total + 383) / 384 + team - 1) / team * team);
    const size_t step = ((total + tiles - 1) / tiles + 15) / 16 * 16;
    pool_.run([&](int t) {
      omp_set_num_threads(1);
      for (size_t i = size_t(t); i * step < total; i += team) {
        const size_t o = i * step, len = std::min(step, total - o);
        if (cut_n)
          dnnl_sgemm(job.ta, job.tb, m, len, job.k, 1, a, job.lda, job.tb == 'T' ? b + o * job.ldb : b + o, job.ldb, 0,
                     c + o, n);
        else
          dnnl_sgemm(job.ta, job.tb, len, n, job.k, 1, job.ta == 'T' ? a + o : a + o * job.lda, job.lda, b, job.ldb, 0,
                     c + o * n, n);
      }
    });
  }
#else
  static constexpr bool kPeer = false;
  void call_peer(Job&) {}
#endif

  static constexpr size_t kMost = 49152 * 1024;  // floats of the largest operand but the weights
  ThreadPool pool_, one_{1};
  KernelError error_;
  Weights weights_;
  Buffer workspace_;
  Buffer x_ = random_floats(4096 * 1024), dy_ = random_floats(kMost), c_ = Buffer(kMost * 4);
};

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  toy::bench::cpu_time = std::erase(words, "one") > 0;
  return toy::bench::Bench(toy::bench::cpu_time ? 1 : 0).main(words);
}
