// toy bench: how fast this machine is, and how fast toy is on it. Times vary between machines and from minute to
// minute; ratios to a peer measured in the same run, and fractions of the ceilings, say something.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/cpu/peak.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"
#include "toy/tensor/buffer.h"
#include "toy/train/trainer.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + int64_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// The best of several short measurements: what the machine can do when nobody disturbs it.
double fma_ceiling(ThreadPool& pool) {
  double best = 0;
  for (int i = 0; i < 10; ++i) best = std::max(best, bench::fma_gflops(pool));
  return best;
}

double read_ceiling(ThreadPool& pool) {
  constexpr size_t kFloats = size_t(64) << 20;
  const Buffer memory(kFloats * 4);
  float* p = reinterpret_cast<float*>(memory.data());
  std::fill(p, p + kFloats, 1.0f);
  double best = 0;
  for (int i = 0; i < 5; ++i) best = std::max(best, bench::read_gbs(pool, p, kFloats));
  return best;
}

struct Machine {
  DeviceOptions device;
  bool json = false;
  void add(CLI::App& app) {
    app.add_flag("--json", json, "a JSON object");
    device.add(app);
    app.callback([this] {
      const auto dev = device.make();
      ThreadPool one(1);
      const ordered_json j{{"threads", dev->pool().size()},
                           {"fma_gflops", fma_ceiling(dev->pool())},
                           {"fma_gflops_one", fma_ceiling(one)},
                           {"read_gbs", read_ceiling(dev->pool())},
                           {"read_gbs_one", read_ceiling(one)}};
      if (json) return (void)fmt::print("{}\n", j.dump());
      fmt::print("{} threads: f32 multiply-add {:.0f} GFLOP/s, read {:.1f} GB/s; one: {:.0f}, {:.1f}\n",
                 j["threads"].get<int>(), j["fma_gflops"].get<double>(), j["read_gbs"].get<double>(),
                 j["fma_gflops_one"].get<double>(), j["read_gbs_one"].get<double>());
    });
  }
};

// Time, FLOPs and bytes of the plan's steps, summed by op.
void print_profile(const Session& session, double fma) {
  struct Row {
    double seconds = 0, flops = 0, bytes = 0;
    int64_t calls = 0;
  };
  std::map<std::string, Row> rows;
  double total = 0;
  const auto& times = session.profile();
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].runs == 0) continue;
    const PlanStep& s = session.plan().steps[i];
    Row& r = rows[s.op + (s.backward ? " (backward)" : "")];
    const double seconds = times[i].seconds / double(times[i].runs);
    r.seconds += seconds, r.flops += s.cost.flops, r.bytes += s.cost.bytes, ++r.calls;
    total += seconds;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  to_stderr(fmt::format("{:<30} {:>6} {:>10} {:>6} {:>10} {:>7} {:>8}\n", "op", "calls", "ms", "share", "GFLOP/s",
                        "of FMA", "GB/s"));
  for (const auto& [name, r] : sorted)
    to_stderr(fmt::format("{:<30} {:>6} {:>10.3f} {:>5.1f}% {:>10.1f} {:>6.1f}% {:>8.1f}\n", name, r.calls,
                          1e3 * r.seconds, 100 * r.seconds / total, r.flops / r.seconds * 1e-9,
                          100e-9 * r.flops / r.seconds / fma, r.bytes / r.seconds * 1e-9));
}

struct Train {
  std::string shape = "smollm2-135m", mode = "full";
  TrainerOptions trainer{.batch = 1, .tokens = 256, .optimizer = {.clip = 0}};
  int64_t steps = 5, warmup = 2;
  DeviceOptions device;
  bool json = false, profile = false;

  void add(CLI::App& app) {
    app.add_option("--shape", shape, fmt::format("{}, or a JSON file of dimensions", fmt::join(size_names(), ", ")))
        ->capture_default_str();
    app.add_option("--mode", mode, "full: every weight is trained")->capture_default_str();
    app.add_option("--batch", trainer.batch, "B")->capture_default_str();
    app.add_option("--tokens", trainer.tokens, "T")->capture_default_str();
    app.add_option("--steps", steps, "steps that count")->capture_default_str();
    app.add_option("--warmup", warmup, "steps before them")->capture_default_str();
    app.add_flag("--profile", profile, "time of each kind of op, on stderr");
    app.add_flag("--json", json, "a JSON object");
    device.add(app);
    app.callback([this] { run(); });
  }

  void run() const {
    check(mode == "full", "mode '{}' is not known; there is: full", mode);
    constexpr int64_t kMost = 1000000;
    check(steps >= 1 && steps <= kMost && warmup >= 0 && warmup <= kMost,
          "steps is {}, warmup is {}: expected 1 and 0 to {}", steps, warmup, kMost);
    trainer.validate();
    const auto dev = device.make();
    Model model = random_model(model_spec(shape), *dev, 0);
    Trainer engine(*dev, model, trainer);
    const int64_t n = trainer.batch * trainer.tokens, params = parameter_count(model.spec);
    Windows w;
    const Philox random(0, "bench");
    for (int64_t i = 0; i < n; ++i) {
      w.inputs.push_back(int32_t(random.below(uint64_t(2 * i), uint64_t(model.spec.vocab))));
      w.targets.push_back(int32_t(random.below(uint64_t(2 * i + 1), uint64_t(model.spec.vocab))));
    }
    std::vector<double> times, ceilings;
    double loss = 0;
    for (int64_t i = 0; i < warmup + steps; ++i) {
      if (i == warmup) engine.session().enable_profile(profile);
      ceilings.push_back(fma_ceiling(dev->pool()));
      const double begin = now();
      loss = engine.step(w, 1e-4).loss;
      if (i >= warmup) times.push_back(now() - begin);
    }
    const LayerSpec& l = model.spec.layers.front();
    const double attention =
        12.0 * double(model.spec.layers.size()) * double(l.heads * l.d_head * trainer.tokens) * double(n) / 2;
    const double gflop = (6.0 * double(params) * double(n) + attention) * 1e-9, seconds = median(times),
                 fma = median(ceilings);
    const ordered_json j{{"shape", shape},
                         {"mode", mode},
                         {"device", dev->name()},
                         {"threads", dev->pool().size()},
                         {"batch", trainer.batch},
                         {"tokens", trainer.tokens},
                         {"params", params},
                         {"ms", 1e3 * seconds},
                         {"ms_min", 1e3 * *std::min_element(times.begin(), times.end())},
                         {"tokens_per_s", double(n) / seconds},
                         {"gflops", gflop / seconds},
                         {"fma_gflops", fma},
                         {"fraction_of_fma", gflop / seconds / fma},
                         {"loss", loss},
                         {"planned_mib", engine.planned_bytes() >> 20},
                         {"peak_rss_mib", peak_resident_memory() >> 20}};
    if (profile) print_profile(engine.session(), fma);
    if (json)
      fmt::print("{}\n", j.dump());
    else
      fmt::print("{} B={} T={}: {:.2f} ms a step, {:.0f} tokens/s, {:.1f} GFLOP/s = {:.0f}% of {:.0f}; peak {} MiB\n",
                 shape, trainer.batch, trainer.tokens, 1e3 * seconds, double(n) / seconds, gflop / seconds,
                 100 * gflop / seconds / fma, fma, peak_resident_memory() >> 20);
  }
};

struct Infer {
  std::string model_path;
  int64_t prompt = 512, decode = 64, parallel = 1, repeat = 3;
  DeviceOptions device;
  bool json = false, profile = false;

  void add(CLI::App& app) {
    app.add_option("model", model_path, "a GGUF file")->required();
    app.add_option("--prompt", prompt, "tokens of prefill")->capture_default_str();
    app.add_option("--decode", decode, "tokens generated after it")->capture_default_str();
    app.add_option("--parallel", parallel, "sequences together")->capture_default_str();
    app.add_option("--repeat", repeat, "runs; the median counts")->capture_default_str();
    app.add_flag("--profile", profile, "time of each kind of op while decoding, on stderr");
    app.add_flag("--json", json, "a JSON object");
    device.add(app);
    app.callback([this] { run(); });
  }

  void run() const {
    check(prompt >= 1 && decode >= 1 && parallel >= 1 && repeat >= 1,
          "prompt, decode, parallel and repeat must be at least 1");
    const auto dev = device.make();
    const double begin = now();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    Decoder d(*dev, model, {.sequences = int(parallel), .context = prompt + decode, .max_rows = 512});
    const double load = now() - begin;
    size_t bytes = 0;
    for (const TensorSpec& t : tensors_of(model.spec)) bytes += model.params->get(t.name).bytes();
    std::vector<double> prefill_tps, decode_tps;
    const Philox random(0, "bench");
    const auto token = [&](int64_t i) { return int32_t(random.below(uint64_t(i), uint64_t(model.spec.vocab))); };
    for (int64_t r = 0; r <= repeat; ++r) {
      for (int s = 0; s < int(parallel); ++s) d.state().reset(s);
      const double t0 = now();
      for (int s = 0; s < int(parallel); ++s) {
        std::vector<DecodeRow> rows;
        for (int64_t i = 0; i < prompt; ++i) rows.push_back({s, token(i), i + 1 == prompt});
        d.decode(rows);
      }
      const double t1 = now();
      d.session().enable_profile(profile && r == repeat);
      for (int64_t i = 0; i < decode; ++i) {
        std::vector<DecodeRow> rows;
        for (int s = 0; s < int(parallel); ++s) rows.push_back({s, token(prompt + i * parallel + s), true});
        d.decode(rows);
      }
      const double t2 = now();
      if (r == 0) continue;
      prefill_tps.push_back(double(prompt * parallel) / (t1 - t0));
      decode_tps.push_back(double(decode * parallel) / (t2 - t1));
    }
    const double rate = median(decode_tps) / double(parallel) * double(bytes) * 1e-9, read = read_ceiling(dev->pool());
    const ordered_json j{{"model", model_path},
                         {"threads", dev->pool().size()},
                         {"parallel", parallel},
                         {"prefill_tps", median(prefill_tps)},
                         {"decode_tps", median(decode_tps)},
                         {"decode_GBps", rate},
                         {"read_gbs", read},
                         {"fraction_of_read", rate / read},
                         {"load_s", load},
                         {"peak_rss_mib", peak_resident_memory() >> 20}};
    if (profile) print_profile(d.session(), fma_ceiling(dev->pool()));
    if (json)
      fmt::print("{}\n", j.dump());
    else
      fmt::print(
          "prefill {:.1f} tokens/s, decode {:.1f} tokens/s: {:.1f} GB/s of weights = {:.0f}% of {:.1f}; loaded in "
          "{:.1f} ms\n",
          median(prefill_tps), median(decode_tps), rate, 100 * rate / read, read, 1e3 * load);
  }
};

}  // namespace

void add_bench(CLI::App& app) {
  app.require_subcommand(1);
  add_subcommand<Machine>(app, "machine", "this machine's ceilings: f32 multiply-add and read bandwidth");
  add_subcommand<Train>(app, "train", "one training step of a shape, with random weights and tokens");
  add_subcommand<Infer>(app, "infer", "prefill and decoding of a GGUF");
}

}  // namespace toy::cli
