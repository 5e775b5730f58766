// toy bench machine: the ceilings by which everything else is judged.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/peak/peak.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/peak.h"
#include "cli/bench/bench.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/tensor/buffer.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Square products of 2048 with our own kernels: kernel A as in forward, kernel B as for gradients.
struct Gemm {
  static constexpr size_t kSize = 2048;
  Buffer a{kSize * kSize * 4}, b{kSize * kSize * 4}, c{kSize * kSize * 4};

  template <class F>
  double gflops(ThreadPool& pool, size_t workspace_bytes, const F& product) {
    Buffer workspace(workspace_bytes);
    const double begin = steady_seconds();
    pool.run([&](int thread) { product(thread, workspace.data()); });
    return 2.0 * double(kSize * kSize * kSize) / (steady_seconds() - begin) * 1e-9;
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

// Figures of all threads together and of one, stated once for JSON and for a table.
struct Figures {
  std::string table;
  std::vector<std::string> slower_together;
  void add(ordered_json& j, const std::string& key, const std::string& title, double all, double one) {
    j[key] = all, j[key + "_one"] = one;
    table += all > 0 ? fmt::format("{:<40} {:>8.1f} {:>8.1f}\n", title, all, one)
                     : fmt::format("{:<40} {:>8} {:>8}\n", title, "none", "none");
    // Several cores that do less together than one do share the machine with other programs.
    if (all < one && key != "copy_gbs")
      slower_together.push_back(key == "read_gbs" ? title.substr(0, title.find(',')) : key);
  }
};

struct BenchMachine : Command {
  DeviceOptions device;
  bool json = false;
  void add(CLI::App& app) {
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    device.add(app);
    app.footer("Example:\n  toy bench machine --json > machine.json");
  }

  void run() const {
    const auto dev = device.make();
    check(device.device != "reference", "--device is 'reference', whose speed is no limit of anything; use another");
    if (ThreadPool* const team = host_team(*dev))
      measure_host(*team);
    else
      measure_gpu(*dev);
  }

  void measure_gpu(Device& dev) const {
    ordered_json j{{"device", dev.name()}, {"title", gpu::title_of(dev)}};
    std::string table;
    const auto add = [&](ordered_json& to, const char* key, const std::string& title, double value) {
      to[key] = value;
      table +=
          value > 0 ? fmt::format("{:<40} {:>8.1f}\n", title, value) : fmt::format("{:<40} {:>8}\n", title, "none");
    };
    add(j, "fma_gflops", "f32 multiply-add, GFLOP/s", fma_ceiling(dev));
    for (const DType type : {DType::f32, DType::bf16}) {
      const auto [gflops, size] = square_product(dev, type);
      add(j, type == DType::f32 ? "product_gflops" : "bf16_product_gflops",
          fmt::format("{} product of {}, GFLOP/s", name_of(type), size), gflops);
    }
    add(j, "exp_gops", "exp, 1e9 per second", gpu::exp_gops(dev));
    const double copy = read_ceiling(dev);
    add(j, "read_gbs", "memory copy, GB/s", copy);
    j["levels"] = {{{"name", "memory"}, {"bytes", 0}, {"read_gbs", copy}, {"copy_gbs", copy}}};
    if (json) return print_json(j);
    const std::string title = gpu::title_of(dev);
    fmt::print("{}{}{}\n\n{}", dev.name(), title.empty() ? "" : ": ", title, table);
  }

  void measure_host(ThreadPool& all) const {
    ThreadPool one(1);
    Gemm gemm;
    Figures report;
    ordered_json j{{"threads", all.size()}, {"instruction_set", bench::instruction_set()}};
    const auto measure = [&](const char* key, const char* title, const std::function<double(ThreadPool&)>& value) {
      constexpr int kTimes = 10;
      double together = 0, alone = 0;
      for (int i = 0; i < kTimes; ++i) together = std::max(together, value(all));
      for (int i = 0; i < kTimes; ++i) alone = std::max(alone, value(one));
      report.add(j, key, title, together, alone);
    };
    measure("fma_gflops", "f32 multiply-add, GFLOP/s", bench::fma_gflops);
    measure("bf16_dot_gflops", "bf16 dot, GFLOP/s", bench::bf16_dot_gflops);
    measure("bf16_tile_gflops", "bf16 tiles (AMX), GFLOP/s", bench::bf16_tile_gflops);
    measure("int8_dot_gops", "int8 dot, GOP/s", bench::int8_dot_gops);
    measure("int8_tile_gops", "int8 tiles (AMX), GOP/s", bench::int8_tile_gops);
    measure("gemm_forward_gflops", "f32 product of 2048, forward, GFLOP/s",
            [&](ThreadPool& pool) { return gemm.forward(pool); });
    measure("gemm_gradient_gflops", "f32 product of 2048, gradient, GFLOP/s",
            [&](ThreadPool& pool) { return gemm.gradient(pool); });
    measure("exp_gops", "exp in L1, 1e9 per second", bench::exp_gops);
    const std::vector<MemoryLevel> of_all = memory_levels(all), of_one = memory_levels(one);
    j["read_gbs"] = of_all.back().read, j["read_gbs_one"] = of_one.back().read;
    for (size_t i = 0; i < std::min(of_all.size(), of_one.size()); ++i) {
      const MemoryLevel &together = of_all[i], &alone = of_one[i];
      ordered_json level{{"name", together.name}, {"bytes", together.holds}};
      report.add(level, "read_gbs", together.name + " read, GB/s", together.read, alone.read);
      report.add(level, "copy_gbs", together.name + " copy, GB/s", together.copy, alone.copy);
      j["levels"].push_back(std::move(level));
    }
    const double barrier = 1e6 * bench::barrier_seconds(all);
    j["barrier_us"] = barrier;
    if (all.size() > 1 && !report.slower_together.empty()) {
      j["slower_together"] = report.slower_together;
      to_stderr(
          fmt::format("toy: {} threads together are slower than one ({}): the machine is busy, or --threads is "
                      "more than it has cores; do not rely on these figures\n",
                      all.size(), fmt::join(report.slower_together, ", ")));
    }
    if (json) return print_json(j);
    fmt::print("{} threads, {}; barrier {:.2f} us\n\n{:<40} {:>8} {:>8}\n{}", all.size(), bench::instruction_set(),
               barrier, "", "all", "one", report.table);
  }
};

}  // namespace

void add_bench_machine(CLI::App& app) {
  add_subcommand<BenchMachine>(app, "machine", "Measure the machine's limits: arithmetic and memory bandwidth");
}

}  // namespace toy::cli
