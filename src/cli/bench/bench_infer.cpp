// toy bench infer: prefill and decoding of a file, or of shapes with random weights.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/decode/decoder.h"
#include "toy/models/embedding_rule.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kShortPrompt = 8;  // tokens, for the time to the first one generated

// A folder for a model with random weights.
struct TemporaryFolder {
  std::string path = (std::filesystem::temp_directory_path() / "toy_bench_XXXXXX").string();
  TemporaryFolder() {
    check(mkdtemp(path.data()) != nullptr, "bench infer: no folder can be made in {}: {}",
          std::filesystem::temp_directory_path().string(), std::strerror(errno));
  }
  ~TemporaryFolder() { remove(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// Weights that a decoded token reads.
double bytes_a_token(const Model& model) {
  double bytes = 0;
  for (const TensorSpec& t : tensors_of(model.spec))
    bytes += share_of_token(model.spec, t) * double(bytes_of(model.params->stored(t.name), t.shape));
  return bytes;
}

// State that a token reads with `visible` positions before it and itself: keys and values, and recurrent states, which
// it writes as well.
double state_bytes_a_token(const ModelSpec& spec, DType stored, double visible) {
  double bytes = 0;
  for (const std::vector<nn::StateSpec>& layer : states_of(spec))
    for (const nn::StateSpec& s : layer) {
      const double seen = s.window > 0 ? std::min(double(s.window), visible) : visible;
      bytes += s.kind == nn::StateSpec::Kind::sequence
                   ? 2.0 * 4 * double(s.shape.count())
                   : seen * double(s.shape.count()) * double(info_of(stored).bytes) / double(info_of(stored).block);
    }
  return bytes;
}

// What a call that decodes `rows` costs: the plan of the decoder that is measured has room for a prompt.
Plan plan_of_rows(Device& device, const Model& model, const DecodeShape& shape, int64_t rows) {
  const ParamStore* store = model.params.get();
  const DecodeGraph d = build_decode_graph(
      model.spec, [store](const std::string& name) { return store->type(name).dtype; }, shape, rows);
  return compile(*d.graph, d.outputs, d.updates, device);
}

// Of one token in a prompt of T, whose logits nobody asks for: the products of its blocks and, half a prompt on
// average, scores and sums of values.
double flops_a_prompt_token(const ModelSpec& spec, int64_t prompt) {
  double flops = 0;
  for (const TensorSpec& t : tensors_of(spec))
    if (t.block >= 0 && t.shape.rank() == 2) flops += 2.0 * double(t.shape.count());
  for (const LayerSpec& l : spec.layers) flops += mixer_flops(spec, l, double(prompt) / 2);
  return flops;
}

struct BenchInfer : Command {
  std::string model_path, shape;
  int64_t prompt = 512, decode = 64, parallel = 1, repeat = 3;
  DeviceOptions device;
  DecodingOptions decoding;
  AdapterOptions adapters;
  bool json = false, profile = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path);
    adapters.add(app);
    begin_group(app, "Model");
    add_option(app, "--shape", shape,
               fmt::format("Sizes with random weights instead of a file, separated by commas: {}, or JSON files",
                           fmt::join(size_names(), ", ")),
               suggested(size_names(), true));
    begin_group(app, "Batch");
    add_option(app, "--prompt", prompt, "Tokens of the prompt", from_to(1, 1e6));
    add_option(app, "--decode", decode, "Tokens to generate after it", from_to(1, 1e6));
    add_option(app, "--parallel", parallel, "Sequences generated together", from_to(1, 4096));
    add_option(app, "--repeat", repeat, "Runs to take the median of", from_to(1, 1e6));
    begin_group(app, "Output");
    app.add_flag("--profile", profile, "Print the time of each kind of op while decoding, on stderr");
    app.add_flag("--json", json, "Print a JSON object per model");
    decoding.add(app);
    device.add(app);
    app.footer("Examples:\n  toy bench infer out/book\n  toy bench infer --shape tiny,small");
  }

  // What the decoder needs at least.
  DecoderOptions least() const {
    return {.sequences = int(parallel),
            .context = prompt + decode,
            .kv = decoding.decoder.kv,
            .exact = decoding.decoder.exact};
  }

  void run() const {
    check(model_path.empty() != shape.empty(), "bench infer: give either a GGUF file or --shape");
    if (shape.empty()) {
      const std::string file = model_file(model_path);
      return measure(file, [&](Device& dev) {
        require_room_to_decode(dev, file, least());
        Model model = load_model(file, dev);
        require_causal(model.spec);
        adapters.apply(model);
        return model;
      });
    }
    check(adapters.lora.empty(), "bench infer: --lora needs a GGUF file; --shape has random weights");
    const std::vector<std::string> shapes = shapes_of(shape);
    for (const std::string& name : shapes) {
      require_causal(model_spec(name));
      model_spec(name).require_positions(prompt + decode, "prompt + decode");
    }
    for_each_shape(shapes, [this](const std::string& name) {
      const TemporaryFolder folder;
      const std::string file = folder.path + "/model.gguf";
      // In another process, whose memory is not measured.
      run_apart([&] { save_model(random_model(model_spec(name), *make_cpu_device(0), 0), file); });
      measure(name, [&](Device& dev) {
        require_room_to_decode(dev, file, least());
        Model model = load_model(file, dev);
        folder.remove();  // what is mapped stays until it is unmapped
        return model;
      });
    });
  }

  // `load_it` makes the model called `name`.
  void measure(const std::string& name, const std::function<Model(Device&)>& load_it) const {
    const auto dev = device.make();
    const double begin = steady_seconds();
    const Model model = load_it(*dev);
    print_warnings(name, model.warnings);
    warn_of_long_context(name, model.spec, prompt + decode);
    model.spec.require_positions(prompt + decode, "prompt + decode");
    Decoder d(*dev, model,
              {.sequences = int(parallel),
               .context = prompt + decode,
               .max_rows = 512,
               .kv = decoding.decoder.kv,
               .exact = decoding.decoder.exact,
               .repack = decoding.repacks(model, decode * parallel * (repeat + 1), 0)});
    const double load = steady_seconds() - begin;
    std::vector<double> prefill_tps, decode_tps, reads, rates, of_read;
    const double read_a_call =
        bytes_a_token(model) + double(parallel) * state_bytes_a_token(model.spec, dev->storage(d.kv()),
                                                                      double(prompt) + double(decode + 1) / 2);
    size_t peak = 0;
    double read_before = 0;
    const auto token = [&](int64_t i) { return random_token(i, model.spec.vocab); };
    const auto prefill = [&](int sequence, int64_t tokens) {
      std::vector<DecodeRow> rows;
      for (int64_t i = 0; i < tokens; ++i) rows.push_back({sequence, token(i), i + 1 == tokens});
      d.decode(rows);
    };
    prefill(0, std::min(prompt, kShortPrompt));
    const double first_token = steady_seconds() - begin;
    for (int64_t r = 0; r <= repeat; ++r) {
      for (int s = 0; s < int(parallel); ++s) d.state().reset(s);
      const double t0 = steady_seconds();
      for (int s = 0; s < int(parallel); ++s) prefill(s, prompt);
      const double t1 = steady_seconds();
      d.session().enable_profile(profile && r == repeat);
      for (int64_t i = 0; i < decode; ++i) {
        std::vector<DecodeRow> rows;
        for (int s = 0; s < int(parallel); ++s) rows.push_back({s, token(prompt + i * parallel + s), true});
        d.decode(rows);
      }
      const double t2 = steady_seconds();
      if (r == 0) peak = peak_resident_memory() >> 20;  // the ceilings need memory of their own
      // Machines change from second to second: beside what memory gave right before and after.
      const double read_after = read_ceiling(*dev);
      if (r > 0) {
        prefill_tps.push_back(double(prompt * parallel) / (t1 - t0));
        decode_tps.push_back(double(decode * parallel) / (t2 - t1));
        reads.push_back((read_before + read_after) / 2);
        rates.push_back(double(decode) / (t2 - t1) * read_a_call * 1e-9);
        of_read.push_back(rates.back() / reads.back());
      }
      read_before = read_after;
    }
    const double fma = fma_ceiling(*dev), int8 = d.rounds() ? int8_ceiling(*dev) : 0,
                 gflops = median(prefill_tps) * flops_a_prompt_token(model.spec, prompt) * 1e-9;
    ordered_json j{{shape.empty() ? "model" : "shape", name},
                   {"params", parameter_count(model.spec)},
                   {"threads", dev->threads()},
                   {"parallel", parallel},
                   {"prompt", prompt},
                   {"decode", decode},
                   {"products", products_name(d.rounds())},
                   {"kv", name_of(d.kv())},
                   {"cache_bytes", d.state().bytes()},
                   {"repacked_bytes", d.repacked_bytes()},
                   {"prefill_tps", median(prefill_tps)},
                   {"decode_tps", median(decode_tps)},
                   {"prefill_gflops", gflops},
                   {"fma_gflops", fma},
                   {"fraction_of_fma", gflops / fma},
                   {"decode_GBps", median(rates)},
                   {"read_gbs", median(reads)},
                   {"fraction_of_read", median(of_read)},
                   {"load_s", load},
                   {"first_token_s", first_token},
                   {"peak_rss_mib", peak}};
    if (const size_t held = device_bytes(*dev)) j["device_mib"] = held >> 20;
    if (int8 > 0) j["int8_gops"] = int8, j["fraction_of_int8"] = gflops / int8;
    if (profile)
      print_profile(d.session(), fma, plan_of_rows(*dev, model, d.state().shape(), std::min(parallel, d.max_rows())));
    if (json) return print_json(j);
    const double limit = int8 > 0 ? int8 : fma;
    fmt::print(
        "{}: prefill {:.1f} tokens/s, {:.1f} GFLOP/s = {:.0f}% of {:.0f}{}; decode {:.1f} tokens/s, {:.1f} GB/s of "
        "weights and cache = {:.0f}% of {:.1f}; loaded in {:.1f} ms, first token of a short prompt after {:.1f}; peak "
        "{} MiB{}\n",
        name, median(prefill_tps), gflops, 100 * gflops / limit, limit, int8 > 0 ? " in int8" : "", median(decode_tps),
        median(rates), 100 * median(of_read), median(reads), 1e3 * load, 1e3 * first_token, peak, device_text(*dev));
  }
};

}  // namespace

void add_bench_infer(CLI::App& app) {
  add_subcommand<BenchInfer>(app, "infer", "Measure prefill and decoding of a GGUF or of sizes");
}

}  // namespace toy::cli
