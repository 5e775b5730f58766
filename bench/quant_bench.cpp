// Speed and error of the quantized types, on one thread.
//
//   quant_bench [PATH/libggml-base.so]
//
// Each line: GB/s of f32 that dequantize() writes, MB/s of f32 that quantize() reads, its error against the rms of the
// values, without and with importance. With a path the same of ggml, and the ratios of squared errors. Values are
// normal numbers times exp(0.5 normal), as weights have a few large ones. Best of several times, by the thread's CPU
// time, for a machine that others use too.
#include <dlfcn.h>
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "toy/tensor/quantize.h"

namespace toy::bench {
namespace {

constexpr int64_t kColumns = 2048, kRows = 64, kCount = kColumns * kRows;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <class F>
double best_time(int times, F&& f) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const double begin = cpu_seconds();
    f();
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

/// ggml's functions, where they were found.
struct Ggml {
  using Quantize = size_t (*)(int type, const float*, void*, int64_t first, int64_t rows, int64_t columns,
                              const float*);
  using Dequantize = void (*)(const void*, float*, int64_t);
  void* library = nullptr;
  Quantize quantize = nullptr;

  explicit Ggml(const char* path) : library(path ? dlopen(path, RTLD_NOW) : nullptr) {
    if (path && !library) fmt::print(stderr, "{}\n", dlerror());
    if (library) quantize = reinterpret_cast<Quantize>(dlsym(library, "ggml_quantize_chunk"));
  }
  Dequantize dequantize(DType t) const {
    std::string name = "dequantize_row_" + std::string(name_of(t));
    if (name.ends_with("_k")) name.back() = 'K';
    return reinterpret_cast<Dequantize>(dlsym(library, name.c_str()));
  }
};

// As in ggml.h.
int number_of(DType t) {
  constexpr std::pair<DType, int> kNumbers[] = {
      {DType::q4_0, 2},    {DType::q4_1, 3},    {DType::q5_0, 6},  {DType::q5_1, 7},  {DType::q8_0, 8},
      {DType::q2_k, 10},   {DType::q3_k, 11},   {DType::q4_k, 12}, {DType::q5_k, 13}, {DType::q6_k, 14},
      {DType::iq4_nl, 20}, {DType::iq4_xs, 23}, {DType::mxfp4, 39}};
  for (const auto& [type, number] : kNumbers)
    if (type == t) return number;
  return -1;
}

struct Result {
  double dequantize = 0, quantize = 0;  // bytes of f32 per second
  double error[2] = {};                 // weighted, against the values' own weighted square
};

template <class Quantize, class Dequantize>
Result measure(DType type, const std::vector<float>& values, const std::vector<float>& importance, int times,
               const Quantize& quantize, const Dequantize& dequantize) {
  std::vector<std::byte> blocks(bytes_of(type, kCount));
  std::vector<float> back(values.size());
  Result r;
  for (const bool weighted : {true, false}) {
    r.quantize = double(kCount) * 4 / best_time(times, [&] { quantize(weighted, blocks.data()); });
    dequantize(blocks.data(), back.data(), kCount);
    double error = 0, square = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double w = weighted ? double(importance[i % kColumns]) : 1, off = double(back[i]) - double(values[i]);
      error += w * off * off, square += w * double(values[i]) * double(values[i]);
    }
    r.error[weighted] = error / square;
  }
  constexpr int64_t kCached = 1 << 15;  // 128 KiB of f32
  r.dequantize = kCached * 4 / best_time(40 * times, [&] { dequantize(blocks.data(), back.data(), kCached); });
  return r;
}

void run(const Ggml& ggml) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kCount), importance(kColumns);
  for (float& v : values) v = 0.04f * normal(random) * std::exp(0.5f * normal(random));
  for (float& v : importance) v = std::exp(normal(random));
  fmt::print("{:8} {:>5} {:>9} {:>9} {:>9} {:>9}", "type", "bits", "GB/s out", "MB/s in", "error", "weighted");
  fmt::print("{}\n", ggml.quantize ? "   | ggml: GB/s out   MB/s in   squared errors, ours / ggml's" : "");
  for (const DTypeInfo& t : kDTypes) {
    if (!is_quantized(t.type)) continue;
    const Result ours = measure(
        t.type, values, importance, 5,
        [&](bool weighted, std::byte* to) {
          quantize(t.type, values, weighted ? std::span<const float>(importance) : std::span<const float>(), to);
        },
        [&](const std::byte* from, float* to, int64_t n) {
          dequantize(t.type, from, {to, size_t(n)});
        });
    fmt::print("{:8} {:5.2f} {:9.1f} {:9.0f} {:9.5f} {:9.5f}", t.name, t.bytes * 8.0 / t.block, ours.dequantize * 1e-9,
               ours.quantize * 1e-6, std::sqrt(ours.error[0]), std::sqrt(ours.error[1]));
    if (ggml.quantize) {
      const Result theirs = measure(
          t.type, values, importance, 3,
          [&](bool weighted, std::byte* to) {
            ggml.quantize(number_of(t.type), values.data(), to, 0, kRows, kColumns,
                          weighted ? importance.data() : nullptr);
          },
          ggml.dequantize(t.type));
      fmt::print("   | {:14.1f} {:9.0f}   {:.3f}, weighted {:.3f}", theirs.dequantize * 1e-9, theirs.quantize * 1e-6,
                 ours.error[0] / theirs.error[0], ours.error[1] / theirs.error[1]);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace toy::bench

int main(int argc, char** argv) { toy::bench::run(toy::bench::Ggml(argc > 1 ? argv[1] : nullptr)); }
