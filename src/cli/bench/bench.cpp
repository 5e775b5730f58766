// toy bench: how fast this machine is, and how fast toy is on it. Times vary between machines and from minute to
// minute; ratios to a peer measured in the same run, and fractions of the ceilings, say something.
#include "cli/bench/bench.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "backend/cpu/peak/peak.h"
#include "backend/gpu/peak.h"
#include "backend/host_device.h"
#include "cli/console.h"
#include "cli/main.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/philox.h"
#include "toy/data/text_files.h"
#include "toy/models/spec.h"
#include "toy/ops/ops.h"
#include "toy/tensor/buffer.h"

namespace toy::cli {

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + int64_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

ThreadPool* host_team(Device& device) {
  HostDevice* const host = dynamic_cast<HostDevice*>(&device);
  return host ? &host->team() : nullptr;
}

size_t device_bytes(const Device& device) { return device.host_visible() ? 0 : device.held().bytes; }

std::string device_text(const Device& device) {
  const size_t bytes = device_bytes(device);
  return bytes ? fmt::format(" and {} MiB of device '{}'", bytes >> 20, device.name()) : "";
}

static double best_of_ten(ThreadPool& pool, double (*rate)(ThreadPool&)) {
  double best = 0;
  for (int i = 0; i < 10; ++i) best = std::max(best, rate(pool));
  return best;
}

double fma_ceiling(Device& device) {
  ThreadPool* const team = host_team(device);
  return team ? best_of_ten(*team, bench::fma_gflops) : gpu::fma_gflops(device);
}
double int8_ceiling(Device& device) {
  ThreadPool* const team = host_team(device);
  return team ? best_of_ten(*team, bench::int8_dot_gops) : 0;
}

std::pair<double, int64_t> square_product(Device& dev, DType type) {
  constexpr int64_t kMost = 4096;
  constexpr double kLongEnough = 20e-3;
  double best = 0;
  int64_t size = 128;
  if (!dev.has_products(type)) return {0, kMost};
  for (;; size *= 2) {
    Graph g;
    const TensorType square{DType::f32, {size, size}, 0};
    const Value y = linear(g.param("x", square), g.param("w", square));
    PlanOptions options;
    options.products = type;
    ParamStore store(dev);
    std::vector<float> values(size_t(size * size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i * 2654435761u % 1024) / 512 - 1;
    for (const char* name : {"x", "w"}) store.add(name, square), store.write(name, values);
    Session session(dev, std::make_shared<const Plan>(compile(g, std::vector<Value>{y}, {}, dev, options)), {&store});
    session.enable_profile(true);
    double before = 0, seconds = 0;
    best = 0;
    for (int i = 0; i < 4; ++i) {
      session.run();
      double all = 0;
      for (const StepTime& t : session.profile()) all += t.seconds;
      seconds = std::exchange(before, all), seconds = all - seconds;
      if (i > 0) best = std::max(best, 2e-9 * double(size) * double(size) * double(size) / seconds);
    }
    if (seconds >= kLongEnough || size == kMost) return {best, size};
  }
}

double bf16_ceiling(Device& device) {
  if (!device.has_products(DType::bf16)) return 0;
  ThreadPool* const team = host_team(device);
  if (!team) return square_product(device, DType::bf16).first;
  return std::max(best_of_ten(*team, bench::bf16_dot_gflops), best_of_ten(*team, bench::bf16_tile_gflops));
}

static double read_ceiling_of(ThreadPool& pool) {
  constexpr size_t kFloats = size_t(64) << 20;
  const Buffer memory(kFloats * 4);
  float* p = reinterpret_cast<float*>(memory.data());
  std::fill(p, p + kFloats, 1.0f);
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, bench::read_gbs(pool, p, kFloats));
  return best;
}

double read_ceiling(Device& device) {
  ThreadPool* const team = host_team(device);
  return team ? read_ceiling_of(*team) : gpu::copy_gbs(device);
}

std::vector<MemoryLevel> memory_levels(ThreadPool& pool) {
  const auto size = [](int name) { return size_t(std::max(0L, sysconf(name))); };
  const size_t team = size_t(pool.size()), l1 = size(_SC_LEVEL1_DCACHE_SIZE), l2 = size(_SC_LEVEL2_CACHE_SIZE),
               l3 = size(_SC_LEVEL3_CACHE_SIZE);
  std::vector<MemoryLevel> levels;
  const auto measure = [&](const char* name, size_t holds, size_t bytes) {  // bytes: what one thread goes through
    constexpr size_t kUnit = 16384;
    bytes = std::max(kUnit, bytes / kUnit * kUnit);
    MemoryLevel level{name, holds, 0, 0};
    for (int i = 0; i < 5; ++i) {
      level.read = std::max(level.read, bench::read_level_gbs(pool, bytes));
      level.copy = std::max(level.copy, bench::copy_level_gbs(pool, bytes));
    }
    levels.push_back(level);
  };
  // Half of a cache, so that nothing else need leave it. The last level is shared, maybe with neighbours unseen.
  if (l1) measure("L1", l1 * team, l1 / 2);
  if (l2) measure("L2", l2 * team, l2 / 2);
  if (l3 > l2 * team) measure("L3", l3, l3 / 2 / team);
  measure("memory", 0, std::max(size_t(64) << 20, 2 * l3 / team));
  levels.back().read = std::max(levels.back().read, read_ceiling_of(pool));
  return levels;
}

Ceilings::Ceilings(Device& device) : fma(fma_ceiling(device)), bf16(bf16_ceiling(device)) {
  if (ThreadPool* const team = host_team(device)) {
    levels = memory_levels(*team);
    for (int i = 0; i < 5; ++i) exp = std::max(exp, bench::exp_gops(*team));
  } else {
    exp = gpu::exp_gops(device);
    const double copy = gpu::copy_gbs(device);
    levels.push_back({"memory", 0, copy, copy});
  }
}

const MemoryLevel& Ceilings::level_of(double bytes) const {
  return *std::find_if(levels.begin(), levels.end(),
                       [&](const MemoryLevel& l) { return l.holds == 0 || bytes <= double(l.holds); });
}

Ceilings::Best Ceilings::best_time(const Cost& cost, std::span<const Reuse> reuse, bool in_bf16) const {
  std::map<std::string, double> by_level;
  Best best{0, levels.front().name};
  for (const Reuse& r : reuse) {
    const MemoryLevel& level = level_of(r.bytes + r.since);
    by_level[level.name] += r.bytes / level.read * 1e-9;
    best.seconds += r.bytes / level.read * 1e-9;
  }
  for (const auto& [name, seconds] : by_level)
    if (seconds > by_level[best.by]) best.by = name;
  const auto& [speed, name] = in_bf16 && bf16 > 0 ? std::pair(bf16, "bf16") : std::pair(fma, "FMA");
  if (const double t = cost.flops / speed * 1e-9; t > best.seconds) best = {t, name};
  if (const double t = cost.transcendentals / exp * 1e-9; t > best.seconds) best = {t, "exp"};
  return best;
}

std::vector<Ceilings::Best> best_times(const Plan& plan, const Ceilings& ceilings, DType products) {
  const std::set<std::string> dense{"linear", "linear_grad_x", "linear_grad_w", "matmul", "linear_xent"};
  const std::vector<std::vector<Reuse>> reuse = reuse_of(plan);
  std::vector<Ceilings::Best> best;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    best.push_back(ceilings.best_time(step.cost, reuse[i], products == DType::bf16 && dense.contains(step.op)));
  }
  return best;
}

bool look_disturbed(const Ceilings& c) {
  constexpr double kSlack = 0.8;  // of two levels that are as fast, either may be measured faster
  for (size_t i = 1; i < c.levels.size(); ++i)
    if (c.levels[i - 1].read < kSlack * c.levels[i].read) return true;
  return false;
}

Ceilings read_ceilings(const std::string& path) {
  const auto j = parse_json<nlohmann::json>(read_text_file(path));
  const auto number = [&](const nlohmann::json& object, const char* key) {
    check(object.is_object() && object.contains(key) && object[key].is_number() && object[key] >= 0,
          "ceilings: {}: '{}' is missing or not a number; the file is made by `toy bench machine --json`", path, key);
    constexpr double kMost = 1e15;
    return json_number<double>(object[key], fmt::format("ceilings: {}: '{}'", path, key), 0, kMost);
  };
  Ceilings c;
  c.fma = number(j, "fma_gflops"), c.exp = number(j, "exp_gops");
  check(j.contains("levels") && j["levels"].is_array() && !j["levels"].empty(),
        "ceilings: {}: 'levels' is missing; the file is made by `toy bench machine --json`", path);
  for (const nlohmann::json& l : j["levels"])
    c.levels.push_back(
        {l.value("name", "memory"), size_t(number(l, "bytes")), number(l, "read_gbs"), number(l, "copy_gbs")});
  c.levels.back().holds = 0;  // what is beyond all others has no end
  const bool positive = c.fma > 0 && c.exp > 0 &&
                        std::all_of(c.levels.begin(), c.levels.end(), [](const MemoryLevel& l) { return l.read > 0; });
  check(positive, "ceilings: {}: a speed is 0; measure again with `toy bench machine --json`", path);
  return c;
}

std::vector<std::string> shapes_of(const std::string& list) {
  std::vector<std::string> shapes;
  std::istringstream names(list + ",");
  for (std::string name; std::getline(names, name, ',');) {
    check(!name.empty(), "shape '{}': a name is empty; give NAME[,NAME...]", list);
    model_spec(name);
    shapes.push_back(name);
  }
  return shapes;
}

void run_apart(const std::function<void()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail_internal("fork: there are no more processes");
  if (child == 0) _exit(exit_code_of(work));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) fail_internal("the measuring process was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) throw Exit{WEXITSTATUS(status)};
}

void for_each_shape(const std::vector<std::string>& shapes, const std::function<void(const std::string&)>& measure) {
  if (shapes.size() == 1) return measure(shapes.front());
  for (const std::string& shape : shapes) run_apart([&] { measure(shape); });
}

int32_t random_token(int64_t i, int64_t vocab) {
  return int32_t(Philox(0, "bench").below(uint64_t(i), uint64_t(vocab)));
}

Windows random_windows(int64_t tokens, int64_t vocab) {
  Windows w;
  for (int64_t i = 0; i < tokens; ++i) {
    w.inputs.push_back(random_token(2 * i, vocab));
    w.targets.push_back(random_token(2 * i + 1, vocab));
  }
  return w;
}

Plan plan_of_sequences(Plan plan, int64_t sequences) {
  for (PlanStep& s : plan.steps)
    if (s.op == "attention" || s.op == "attention_grad")
      s.cost.flops /= double(sequences), s.cost.transcendentals /= double(sequences);
  return plan;
}

void print_profile(const Session& session, double fma, const Plan& costs) {
  struct Row {
    double seconds = 0, flops = 0, bytes = 0;
    int64_t calls = 0;
  };
  const auto name_of = [](const PlanStep& s) { return s.op + (s.phase == Phase::backward ? " (backward)" : ""); };
  std::map<std::string, Row> rows;
  double total = 0;
  const auto& times = session.profile();
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].runs == 0) continue;
    Row& r = rows[name_of(session.plan().steps[i])];
    const double seconds = times[i].seconds / double(times[i].runs);
    r.seconds += seconds, ++r.calls;
    total += seconds;
  }
  for (const PlanStep& s : costs.steps)
    if (const auto it = rows.find(name_of(s)); it != rows.end())
      it->second.flops += s.cost.flops, it->second.bytes += s.cost.bytes;
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  to_stderr(fmt::format("{:<30} {:>6} {:>10} {:>6} {:>10} {:>7} {:>8}\n", "op", "calls", "ms", "share", "GFLOP/s",
                        "of FMA", "GB/s"));
  for (const auto& [name, r] : sorted) {
    const std::string of_fma = fma > 0 ? fmt::format("{:.1f}%", 100e-9 * r.flops / r.seconds / fma) : "-";
    to_stderr(fmt::format("{:<30} {:>6} {:>10.3f} {:>5.1f}% {:>10.1f} {:>7} {:>8.1f}\n", name, r.calls, 1e3 * r.seconds,
                          100 * r.seconds / total, r.flops / r.seconds * 1e-9, of_fma, r.bytes / r.seconds * 1e-9));
  }
}

void add_bench(CLI::App& root, Communicator* ranks) {
  CLI::App& app = add_command_group(root, "bench", "Measure speed and compare it with the machine's limits");
  add_bench_machine(app);
  add_bench_ops(app);
  add_bench_train(app, ranks);
  add_bench_infer(app);
}

}  // namespace toy::cli
