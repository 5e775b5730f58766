// toy bench machine: the ceilings by which everything else is judged.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/cpu/gemm.h"
#include "backend/cpu/peak.h"
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/tensor/buffer.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// The best of a few measurements.
template <class F>
double best_of(const F& measure) {
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, measure());
  return best;
}

// Square products of 2048 with our own kernels: kernel A as in forward, kernel B as for gradients.
struct Gemm {
  static constexpr size_t kSize = 2048;
  Buffer a{kSize * kSize * 4}, b{kSize * kSize * 4}, c{kSize * kSize * 4};

  template <class F>
  double gflops(ThreadPool& pool, size_t workspace_bytes, const F& product) {
    Buffer workspace(workspace_bytes);
    return best_of([&] {
      const double begin = steady_seconds();
      pool.run([&](int thread) { product(thread, workspace.data()); });
      return 2.0 * double(kSize * kSize * kSize) / (steady_seconds() - begin) * 1e-9;
    });
  }
  float* floats(Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  double forward(ThreadPool& pool) {
    const cpu::DotProduct p{.x = floats(a), .w = b.data(), .rows = kSize, .outs = kSize, .k = kSize, .y = floats(c)};
    return gflops(pool, cpu::dot_workspace(kSize, kSize, kSize, pool.size()), [&](int thread, std::byte* space) {
      cpu::dot_product(p, TeamMember{thread, pool.size(), &pool}, space);
    });
  }
  double gradient(ThreadPool& pool) {
    const cpu::OuterProduct p{
        .a = {a.data(), kSize, 1}, .b = {b.data(), kSize, 1}, .m = kSize, .n = kSize, .k = kSize, .c = floats(c)};
    return gflops(pool, cpu::outer_workspace(kSize, kSize, kSize, pool.size()), [&](int thread, std::byte* space) {
      cpu::outer_product(p, TeamMember{thread, pool.size(), &pool}, space);
    });
  }
};

struct Row {
  const char *key, *title;
  double all, one;
};

// Several cores that do less together than one do share the machine with other programs.
std::vector<std::string> slower_together(int threads, const std::vector<Row>& rows, const std::vector<MemoryLevel>& all,
                                         const std::vector<MemoryLevel>& one) {
  std::vector<std::string> names;
  if (threads < 2) return names;
  for (const Row& r : rows)
    if (r.all < r.one) names.push_back(r.key);
  for (size_t i = 0; i < std::min(all.size(), one.size()); ++i)
    if (all[i].read < one[i].read) names.push_back(all[i].name + " read");
  return names;
}

struct Machine {
  DeviceOptions device;
  bool json = false;
  void add(CLI::App& app) {
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    device.add(app);
    app.footer("Example:\n  toy bench machine --json > machine.json");
    app.callback([this] { run(); });
  }

  void run() const {
    const auto dev = device.make();
    check(device.device == "cpu", "--device is '{}', but this measures the processor; remove it", device.device);
    ThreadPool& all = team_of(*dev);
    ThreadPool one(1);
    Gemm gemm;
    std::vector<Row> rows;
    const auto measure = [&](const char* key, const char* title, const auto& value) {
      rows.push_back({key, title, value(all), value(one)});
    };
    const auto best = [](double (*value)(ThreadPool&)) {
      return [value](ThreadPool& pool) { return best_of([&] { return value(pool); }); };
    };
    measure("fma_gflops", "f32 multiply-add, GFLOP/s", fma_ceiling);
    measure("bf16_dot_gflops", "bf16 dot, GFLOP/s", best(bench::bf16_dot_gflops));
    measure("bf16_tile_gflops", "bf16 tiles (AMX), GFLOP/s", best(bench::bf16_tile_gflops));
    measure("int8_dot_gops", "int8 dot, GOP/s", best(bench::int8_dot_gops));
    measure("gemm_forward_gflops", "f32 product of 2048, forward, GFLOP/s",
            [&](ThreadPool& pool) { return gemm.forward(pool); });
    measure("gemm_gradient_gflops", "f32 product of 2048, gradient, GFLOP/s",
            [&](ThreadPool& pool) { return gemm.gradient(pool); });
    measure("exp_gops", "exp in L1, 1e9 per second", best(bench::exp_gops));
    const std::vector<MemoryLevel> of_all = memory_levels(all), of_one = memory_levels(one);
    const double barrier = bench::barrier_seconds(all);

    ordered_json j{{"threads", all.size()}, {"instruction_set", bench::instruction_set()}};
    for (const Row& r : rows) j[r.key] = r.all, j[std::string(r.key) + "_one"] = r.one;
    j["read_gbs"] = of_all.back().read, j["read_gbs_one"] = of_one.back().read;
    for (size_t i = 0; i < std::min(of_all.size(), of_one.size()); ++i)
      j["levels"].push_back({{"name", of_all[i].name},
                             {"bytes", of_all[i].holds},
                             {"read_gbs", of_all[i].read},
                             {"read_gbs_one", of_one[i].read},
                             {"copy_gbs", of_all[i].copy},
                             {"copy_gbs_one", of_one[i].copy}});
    j["barrier_us"] = 1e6 * barrier;
    const std::vector<std::string> slower = slower_together(all.size(), rows, of_all, of_one);
    if (!slower.empty()) {
      j["slower_together"] = slower;
      to_stderr(
          fmt::format("toy: {} threads together are slower than one ({}): the machine is busy, or --threads is "
                      "more than it has cores; do not rely on these figures\n",
                      all.size(), fmt::join(slower, ", ")));
    }
    if (json) return print_json(j);

    fmt::print("{} threads, {}; barrier {:.2f} us\n\n{:<40} {:>8} {:>8}\n", all.size(), bench::instruction_set(),
               1e6 * barrier, "", "all", "one");
    for (const Row& r : rows) {
      if (r.all > 0)
        fmt::print("{:<40} {:>8.1f} {:>8.1f}\n", r.title, r.all, r.one);
      else
        fmt::print("{:<40} {:>8} {:>8}\n", r.title, "none", "none");
    }
    for (const auto& l : j["levels"])
      for (const char* kind : {"read", "copy"})
        fmt::print("{:<40} {:>8.1f} {:>8.1f}\n", fmt::format("{} {}, GB/s", l["name"].get<std::string>(), kind),
                   l[fmt::format("{}_gbs", kind)].get<double>(), l[fmt::format("{}_gbs_one", kind)].get<double>());
  }
};

}  // namespace

void add_bench_machine(CLI::App& app) {
  add_subcommand<Machine>(app, "machine", "Measure the machine's limits: arithmetic and memory bandwidth");
}

}  // namespace toy::cli
