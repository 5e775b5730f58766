// toy bench infer: prefill and decoding of a file.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/philox.h"
#include "toy/decode/decoder.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

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
    constexpr int64_t kMost = 1000000, kMostSequences = 4096;
    for (const auto& [name, value, most] :
         {std::tuple("prompt", prompt, kMost), std::tuple("decode", decode, kMost),
          std::tuple("parallel", parallel, kMostSequences), std::tuple("repeat", repeat, kMost)})
      check(value >= 1 && value <= most, "--{} is {}: expected 1 to {}", name, value, most);
    const auto dev = device.make();
    const double begin = now();
    const Model model = load_model(model_path, *dev);
    print_warnings(model_path, model.warnings);
    warn_of_long_context(model_path, model.spec, prompt + decode);
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

void add_bench_infer(CLI::App& app) { add_subcommand<Infer>(app, "infer", "prefill and decoding of a GGUF"); }

}  // namespace toy::cli
