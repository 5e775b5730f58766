// toy bench train: one training step of a shape.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/communicator.h"
#include "toy/base/memory.h"
#include "toy/models/adapter.h"
#include "toy/models/embedding_rule.h"
#include "toy/tensor/quantize.h"
#include "toy/train/memory.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Blocks of the first rows of a random matrix, again and again: what they hold does not matter, and quantizing takes
// time. Rows that are no whole blocks of 256 are stored as files have them then.
void bind_quantized(Model& model, const TensorSpec& t, DType type, ThreadPool& pool) {
  constexpr int64_t kRows = 64;
  const int64_t columns = t.shape.back(0), rows = t.shape.count() / columns;
  if (columns % info_of(type).block != 0) type = DType::q5_0;
  TensorSpec few = t;
  few.shape = {std::min(rows, kRows), columns};
  const std::vector<float> values = initial_values(few, 0, 1, pool);
  std::vector<std::byte> blocks(bytes_of(type, few.shape.count()));
  quantize(type, values, std::vector<float>(size_t(columns), 1.0f), blocks.data());
  const auto all = std::make_shared<std::vector<std::byte>>(bytes_of(type, t.shape.count()));
  for (size_t at = 0; at < all->size(); at += blocks.size())
    std::copy_n(blocks.begin(), std::min(blocks.size(), all->size() - at), all->begin() + int64_t(at));
  model.params->bind(t.name, View(all->data(), type, t.shape), all);
}

struct BenchTrain : Command {
  explicit BenchTrain(Communicator* r) : ranks(r) {}

  Communicator* ranks;  // a step's batch is shared among them
  std::string shape = "smollm2-135m", mode = "full", base = "f32";
  int64_t rank = 16;
  // Streaming, as the peers, which neither clip nor look at the norm.
  TrainerOptions trainer{.batch = 1, .tokens = 256, .optimizer = {.clip = 0}, .updates = TrainerOptions::streaming};
  int64_t steps = 5, warmup = 2;
  DeviceOptions device;
  ComputeOptions compute;
  std::string memory;
  bool json = false, profile = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--shape", shape,
               fmt::format("Sizes to measure, separated by commas, or JSON files: {}", fmt::join(size_names(), ", ")),
               suggested(size_names(), true));
    add_listed(app, trainer,
               {"batch", "tokens", "accumulate", "shards", "optimizer", "updates", "wire", "rank_timeout"});
    begin_group(app, "Batch");
    add_option(app, "--steps", steps, "Steps to measure", from_to(1, 1e6));
    add_option(app, "--warmup", warmup, "Steps before them", from_to(0, 1e6));
    add_option(app, "--mode", mode, "Weights to train: full, or lora for an adapter of all linear maps",
               one_of({"full", "lora"}));
    add_option(app, "--rank", rank, "With --mode lora, the adapter's rank", at_least(1));
    add_option(app, "--base", base, "With --mode lora, type of the frozen matrices",
               one_of({"f32", "f16", "bf16", "q8_0", "q4_k", "mxfp4"}));
    begin_group(app, "Output");
    app.add_flag("--profile", profile, "Print the time of each kind of op on stderr");
    app.add_flag("--json", json, "Print a JSON object per shape");
    compute.add(app);
    add_option(app, "--memory", memory, "Memory limit, such as 4G or 512M; recomputes activations to keep it",
               not_empty())
        ->option_text("SIZE");
    device.add(app);
    app.footer("Example:\n  toy bench train --shape tiny,small --batch 4");
  }

  void run() const {
    options_of_run().validate();
    for (const char* of_lora : {"--rank", "--base"})
      check(mode == "lora" || !given(of_lora), "{} belongs to --mode lora, which is {}; remove one of them", of_lora,
            mode);
    limit();
    const std::vector<std::string> shapes = shapes_of(shape);
    check(!ranks || shapes.size() == 1, "--shape names {} shapes; give one where several tasks measure together",
          shapes.size());
    for (const std::string& name : shapes) {
      const ModelSpec spec = model_spec(name);
      require_causal(spec);
      spec.require_positions(trainer.tokens, "tokens");
    }
    for_each_shape(shapes, [this](const std::string& name) { measure(name); });
  }

  size_t limit() const { return memory.empty() ? 0 : parse_bytes("memory", memory); }
  std::string optimizer() const { return parser->get_option("--optimizer")->as<std::string>(); }
  TrainerOptions options_of_run() const {
    TrainerOptions options = trainer;
    options.optimizer = parse_optimizer(optimizer(), "--optimizer");
    options.optimizer.clip = trainer.optimizer.clip;
    options.ranks = ranks;
    if (ranks && !given("--shards")) options.shards = ranks->size();
    if (options.passes() > 1 && !given("--update")) options.updates = TrainerOptions::gathered;
    return options;
  }

  // A first bound, before tables of so many positions are made: weights, gradients, and what goes into each layer.
  void require_room(const Device& dev, const ModelSpec& spec) const {
    const size_t rows = size_t(options_of_run().sequences()) * size_t(trainer.tokens);
    const size_t layers = rows * size_t(spec.d_model) * spec.layers.size();
    require_memory(dev, (2 * size_t(parameter_count(spec)) + layers) * sizeof(float),
                   "training this model with this batch");
  }

  // A model of random weights with an adapter, which is to be trained.
  Model adapted_model(const std::string& name, const Device& dev) const {
    Model model{model_spec(name), std::make_unique<ParamStore>(dev), nullptr};
    model.spec.adapters = {lora_adapter(model.spec, {.rank = rank, .alpha = 2 * double(rank)})};
    model.spec.roles.train = {"*.lora_[ab]"};
    const DTypeInfo* type =
        std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](const DTypeInfo& t) { return t.name == base; });
    ThreadPool pool(dev.host_threads());
    for (const TensorSpec& t : tensors_of(model.spec)) {
      const bool narrow = t.adapter < 0 && t.narrow, quantized = narrow && is_quantized(type->type);
      if (quantized && t.shape.back(0) % info_of(DType::q5_0).block == 0) {
        bind_quantized(model, t, type->type, pool);
        continue;
      }
      const DType dense = quantized ? DType::f16 : type->type;  // rows without whole blocks, as files have them
      model.params->add(t.name, {narrow ? dense : DType::f32, t.shape, 0});
      model.params->write(t.name, initial_values(t, 0, 1, pool));
    }
    return model;
  }

  void measure(const std::string& name) const {
    const auto dev = device.make();
    require_room(*dev, model_spec(name));
    TrainerOptions options = options_of_run();
    options.compute = compute.choose(*dev);
    Model model = mode == "lora" ? adapted_model(name, *dev) : random_model(model_spec(name), *dev, 0);
    const ParamStore& store = *model.params;
    const MemoryFit fit = fit_memory(
        *dev, model.spec, [&](const std::string& t) { return store.type(t).dtype; }, options, limit(),
        bytes_beside(*dev, store.bytes()));
    options.recompute = fit.recompute;
    if (const std::string text = fit.text(); !text.empty()) to_stderr(fmt::format("{}: {}\n", name, text));
    Trainer engine(*dev, model, options);
    const int64_t n = options.rows() * options.tokens, params = parameter_count(model.spec);
    const Windows w = random_windows(n, model.spec.vocab);
    std::vector<double> times, ceilings, exchanges, waits;
    double loss = 0;
    const bool in_bf16 = options.compute == DType::bf16;
    const double bf16 = in_bf16 ? bf16_ceiling(*dev) : 0;
    for (int64_t i = 0; i < warmup + steps; ++i) {
      if (i == warmup) engine.session().enable_profile(profile);
      ceilings.push_back(fma_ceiling(*dev));
      const double begin = steady_seconds();
      const StepResult result = engine.step(w, 1e-4);
      loss = result.loss;
      if (i < warmup) continue;
      times.push_back(steady_seconds() - begin);
      exchanges.push_back(1e6 * result.exchange.value_or(0)), waits.push_back(1e6 * result.wait.value_or(0));
    }
    double mixers = 0;  // forward; half of the positions are visible on average
    for (const LayerSpec& l : model.spec.layers)
      mixers += mixer_flops(model.spec, l, double(trainer.tokens) / 2) * double(n);
    // Of frozen weights no gradient is computed.
    const double products =
        mode == "lora" ? 4.0 * double(params) + 6.0 * double(trained_count(model.spec)) : 6.0 * double(params);
    const double gflop = (products * double(n) + 3 * mixers) * 1e-9, seconds = median(times), fma = median(ceilings);
    const int count = ranks ? ranks->size() : 1;
    // As if each rank could do what this one can.
    const double fraction = gflop / seconds / (fma * count), of_bf16 = in_bf16 ? gflop / seconds / (bf16 * count) : 0;
    ordered_json j{{"shape", name},
                   {"mode", mode},
                   {"base", base},
                   {"device", dev->name()},
                   {"threads", dev->threads()},
                   {"compute", name_of(options.compute)},
                   {"optimizer", optimizer()},
                   {"update", name_in_list(options.updates)},
                   {"batch", trainer.batch},
                   {"tokens", trainer.tokens},
                   {"accumulate", options.accumulate},
                   {"ranks", count},
                   {"shards", options.shards},
                   {"wire", name_in_list(options.wire)},
                   {"params", params},
                   {"trained", trained_count(model.spec)},
                   {"ms", 1e3 * seconds},
                   {"ms_min", 1e3 * *std::min_element(times.begin(), times.end())},
                   {"tokens_per_s", double(n) / seconds},
                   {"exchange_us", median(exchanges)},
                   {"wait_us", median(waits)},
                   {"gflops", gflop / seconds},
                   {"fma_gflops", fma},
                   {"fraction_of_fma", fraction},
                   {"loss", loss},
                   {"planned_mib", fit.memory.total() >> 20},
                   {"recomputed_blocks", fit.recompute.whole},
                   {"lightly_recomputed_blocks", fit.recompute.light},
                   {"anonymous_mib", anonymous_memory() >> 20},
                   {"peak_rss_mib", peak_resident_memory() >> 20}};
    if (in_bf16) j["bf16_gflops"] = bf16, j["fraction_of_bf16"] = of_bf16;
    if (const size_t held = device_bytes(*dev)) j["device_mib"] = held >> 20;
    if (profile)
      print_profile(engine.session(), fma, plan_of_sequences(engine.session().plan(), options.batch / options.shards));
    if (json) return print_json(j);
    const std::string of_ranks = ranks ? fmt::format("; {} ranks, exchange {:.2f} ms, waiting {:.2f} ms", count,
                                                     1e-3 * median(exchanges), 1e-3 * median(waits))
                                       : "";
    fmt::print(
        "{} B={} T={}: {:.2f} ms per step, {:.0f} tokens/s, {:.1f} GFLOP/s = {:.0f}% of {}{:.0f}{}{}; peak {} MiB{}\n",
        name, trainer.batch, trainer.tokens, 1e3 * seconds, double(n) / seconds, gflop / seconds,
        100 * (in_bf16 ? of_bf16 : fraction), ranks ? fmt::format("{} x ", count) : "", in_bf16 ? bf16 : fma,
        in_bf16 ? " in bf16" : "", of_ranks, peak_resident_memory() >> 20, device_text(*dev));
  }
};

}  // namespace

void add_bench_train(CLI::App& app, Communicator* ranks) {
  add_subcommand<BenchTrain>(app, "train", "Measure a training step with random weights and tokens", ranks);
}

}  // namespace toy::cli
