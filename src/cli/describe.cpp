// toy describe: what a model is, what it computes, what it needs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/decode/decoder.h"
#include "toy/graph/print.h"
#include "toy/train/trainer.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// One graph of a model, compiled for a device.
struct Compiled {
  std::string what;  // it is
  std::unique_ptr<Graph> graph;
  std::vector<Value> roots;
  Plan plan;
};

size_t held_bytes(const Plan& p, const Device& device) {
  return p.arena_bytes + p.param_bytes(device) + p.input_bytes(device);
}

struct Describe {
  std::string what, graph, plan, format = "text";
  TrainerOptions trainer;
  int64_t context = 0;
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    app.add_option("model", what,
                   fmt::format("a GGUF file, a size ({}), or a JSON file of dimensions", fmt::join(size_names(), ", ")))
        ->required();
    app.add_option(
        "--graph", graph,
        "print the graph of `train` (forward, loss, backward and update) or `decode`: each op with its shapes "
        "and its cost (FLOPs, bytes read and written, transcendental functions), totals, and peak memory");
    app.add_option("--plan", plan, "print the plan of `train` or `decode`: steps, kernels, where each value lies");
    app.add_option("--format", format, "of --graph: text, json or mermaid (ops and shapes of forward)")
        ->capture_default_str();
    app.add_option("--batch", trainer.batch, "B of the training step")->capture_default_str();
    tokens_ = app.add_option("--tokens", trainer.tokens, "T of the training step")->capture_default_str();
    app.add_option("--ctx", context, "positions of the decoder; 0: the model's own")->capture_default_str();
    app.add_flag("--json", json, "the card, the graph or the plan as JSON");
    device.add(app);
    app.footer(
        "\nExamples:\n  toy describe smollm2-135m\n  toy describe out/model.gguf --graph train --format mermaid");
    app.callback([this] { run(); });
  }

  void run() {
    trainer.validate();
    check(context >= 0 && context <= (int64_t(1) << 24), "ctx is {}, expected 0 (the model's own) to 2^24", context);
    const auto dev = device.make();
    std::map<std::string, DType> stored;
    const ModelSpec spec = open(stored);
    if (context == 0) context = spec.context;
    if (spec.positions == PositionKind::learned && tokens_->count() == 0)
      trainer.tokens = std::min(trainer.tokens, spec.context);
    const auto dtype_of = [&](const std::string& name) {
      const auto it = stored.find(name);
      return it == stored.end() ? DType::f32 : it->second;
    };
    check(format == "text" || format == "json" || format == "mermaid", "format '{}' is not one of text, json, mermaid",
          format);
    check(graph.empty() || plan.empty(), "graph and plan: give one of them");
    check(format == "text" || (!graph.empty() && !json), "format is for --graph, and --json is another word for json");
    if (json) format = "json";
    if (!graph.empty()) return print_graph(graph_of(graph, spec, dtype_of, *dev), *dev);
    if (!plan.empty()) return print_plan(graph_of(plan, spec, dtype_of, *dev).plan);
    print_card(spec, stored, *dev);
  }

 private:
  const CLI::Option* tokens_ = nullptr;
  std::vector<std::string> warnings_;

  // The dimensions, and the dtype of each tensor when loaded where there is a file.
  ModelSpec open(std::map<std::string, DType>& stored) {
    const auto names = size_names();
    if (std::find(names.begin(), names.end(), what) != names.end() || what.ends_with(".json")) return model_spec(what);
    const gguf::File file = gguf::File::open(what);
    const ModelSpec spec = spec_from_gguf(file);
    for (const FileTensor& t : file_tensors(spec))
      for (const TensorSpec& part : t.parts)
        if (const auto dtype = file.require(t.name).dtype; dtype && part.shape.rank() >= 2) stored[part.name] = *dtype;
    warnings_ = warnings_of(file, spec);
    print_warnings(what, warnings_);
    return spec;
  }

  Compiled graph_of(const std::string& which, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                    Device& dev) const {
    if (which == "train") {
      TrainGraph t = build_train_graph(
          spec, [](const std::string&) { return DType::f32; }, trainer);
      const std::vector<Value> outputs{t.loss, t.norm};
      Plan p = compile(*t.graph, outputs, t.updates, dev);
      return {fmt::format("training step, B={} T={}", trainer.batch, trainer.tokens), std::move(t.graph),
              joined(outputs, t.updates), std::move(p)};
    }
    check(which == "decode", "graph '{}' is not one of train, decode", which);
    const DecodeShape shape{1, context};
    DecodeGraph d = build_decode_graph(spec, dtype_of, shape, std::min<int64_t>(256, context));
    Plan p = compile(*d.graph, d.outputs, d.updates, dev);
    return {fmt::format("decoding, up to {} rows of one sequence of up to {} positions",
                        std::min<int64_t>(256, context), context),
            std::move(d.graph), joined(d.outputs, d.updates), std::move(p)};
  }

  static std::vector<Value> joined(std::vector<Value> a, const std::vector<Value>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  void print_graph(const Compiled& c, const Device& dev) const {
    if (format == "mermaid") return fmt::print("{}", to_mermaid(*c.graph));
    const GraphCost cost = cost_of(*c.graph, c.roots);
    if (format == "json") {
      ordered_json j{{"what", c.what}};
      j.update(to_json(*c.graph, &cost));
      j["plan"] = {{"device", dev.name()},
                   {"steps", c.plan.steps.size()},
                   {"arena_bytes", c.plan.arena_bytes},
                   {"param_bytes", c.plan.param_bytes(dev)},
                   {"input_bytes", c.plan.input_bytes(dev)},
                   {"peak_bytes", held_bytes(c.plan, dev)},
                   {"notes", c.plan.notes}};
      return fmt::print("{}\n", j.dump(2));
    }
    fmt::print("{}\n{}\n", c.what, to_text(*c.graph, &cost));
    for (const Phase p : kPhases)
      if (const std::string text = to_text(cost.phases[size_t(p)]); !text.empty())
        fmt::print("{:<9} {}\n", name_of(p), text);
    fmt::print("{:<9} {}\n{:<9} {} steps on {}, peak {}: {} parameters, {} arena, {} inputs and constants\n", "all",
               to_text(cost.total), "plan", c.plan.steps.size(), dev.name(), format_bytes(held_bytes(c.plan, dev)),
               format_bytes(c.plan.param_bytes(dev)), format_bytes(c.plan.arena_bytes),
               format_bytes(c.plan.input_bytes(dev)));
    for (const std::string& note : c.plan.notes) fmt::print("{:<9} {}\n", "note", note);
  }

  void print_plan(const Plan& p) const {
    if (json)
      fmt::print("{}\n", to_json(p).dump(2));
    else
      fmt::print("{}", to_text(p));
  }

  static std::string scaling_of(const RopeSpec& r) {
    std::string text;
    if (r.scaling == RopeSpec::Scaling::linear) text = fmt::format(", angles / {:g} (linear)", r.factor);
    if (r.scaling == RopeSpec::Scaling::yarn)
      text = fmt::format(", YaRN x{:g} of {} positions", r.factor, r.original_context);
    if (r.attn_factor != 1) text += fmt::format(", attention factor {:g}", r.attn_factor);
    return r.factors.empty() ? text : text + ", frequency factors";
  }

  static std::string positions_of(const ModelSpec& spec) {
    if (spec.positions == PositionKind::learned) return "learned positions";
    return fmt::format("rope base {:g}{}", spec.rope.base, scaling_of(spec.rope));
  }

  static std::string biases_of(const LayerSpec& l) {
    std::vector<std::string> names;
    for (const BiasName& b : kBiasNames)
      if (l.bias.*b.flag) names.push_back(b.tensor);
    return names.empty() ? "" : fmt::format(", biases of {}", fmt::join(names, ", "));
  }

  // Parameters by part of the model.
  static std::vector<std::pair<std::string, int64_t>> parts_of(const ModelSpec& spec) {
    std::vector<std::pair<std::string, int64_t>> parts{
        {"embedding", 0}, {"attention", 0}, {"ffn", 0}, {"norms", 0}, {"output", 0}};
    for (const TensorSpec& t : tensors_of(spec)) {
      const size_t part = t.name.find("norm") != std::string::npos     ? 3
                          : t.name.find("_embd.") != std::string::npos ? 0
                          : t.name.starts_with("output")               ? 4
                          : t.name.find("attn") != std::string::npos   ? 1
                                                                       : 2;
      parts[part].second += t.shape.count();
    }
    return parts;
  }

  void print_card(const ModelSpec& spec, const std::map<std::string, DType>& stored, Device& dev) const {
    const auto dtype_of = [&](const std::string& name) {
      const auto it = stored.find(name);
      return it == stored.end() ? DType::f32 : it->second;
    };
    const Compiled train = graph_of("train", spec, dtype_of, dev), decode = graph_of("decode", spec, dtype_of, dev);
    size_t weight_bytes = 0;
    for (const TensorSpec& t : tensors_of(spec)) weight_bytes += size_t(t.shape.count()) * size_of(dtype_of(t.name));
    const int64_t params = parameter_count(spec);
    const double train_flops = train.plan.cost().flops;
    size_t cache = 0;
    for (const StateSlot& s : state_slots(spec, DecodeShape{1, context})) cache += s.type.bytes();
    const size_t train_bytes = held_bytes(train.plan, dev);
    if (json) {
      ordered_json parts;
      for (const auto& [name, n] : parts_of(spec)) parts[name] = n;
      const ordered_json card{{"model", to_json(spec)},
                              {"parameters", params},
                              {"parts", parts},
                              {"weight_bytes", weight_bytes},
                              {"warnings", warnings_},
                              {"train",
                               {{"batch", trainer.batch},
                                {"tokens", trainer.tokens},
                                {"peak_bytes", train_bytes},
                                {"arena_bytes", train.plan.arena_bytes},
                                {"flops", train_flops},
                                {"steps", train.plan.steps.size()}}},
                              {"decode",
                               {{"context", context},
                                {"state_bytes", cache},
                                {"arena_bytes", decode.plan.arena_bytes},
                                {"weight_bytes_per_token", weight_bytes},
                                {"flops_per_token", 2.0 * double(params)}}}};
      fmt::print("{}\n", card.dump(2));
      return;
    }
    const LayerSpec& l = spec.layers.front();
    fmt::print("{}: {}, {} layers of causal attention and {}, {} output\n", spec.name, spec.architecture,
               spec.layers.size(), l.ffn == FfnKind::gelu ? "gelu" : "swiglu", spec.tied ? "tied" : "untied");
    fmt::print("  D={} (width)  F={} (ffn)  H={} K={} P={} (query heads, kv heads, head width)  V={}  context {}\n",
               spec.d_model, l.d_ff, l.heads, l.kv_heads, l.d_head, spec.vocab, spec.context);
    fmt::print("  {}, {} norm epsilon {:g}{}{}{}\n\nparameters\n", positions_of(spec),
               spec.norm == NormKind::rms ? "rms" : "layer", spec.norm_eps,
               l.window ? fmt::format(", window {}", l.window) : "", l.qk_norm ? ", QK-norm" : "", biases_of(l));
    for (const auto& [name, n] : parts_of(spec))
      if (n) fmt::print("  {:<10} {:>14} {:5.1f}%\n", name, n, 100.0 * double(n) / double(params));
    fmt::print("  {:<10} {:>14}  {} as loaded\n\n", "all", params, format_bytes(weight_bytes));
    fmt::print(
        "training step, B={} T={} on {}\n  {} planned: {} weights and moments, {} arena; {} steps, {:.2f} GFLOP\n\n",
        trainer.batch, trainer.tokens, dev.name(), format_bytes(train_bytes), format_bytes(train.plan.param_bytes(dev)),
        format_bytes(train.plan.arena_bytes), train.plan.steps.size(), train_flops * 1e-9);
    fmt::print(
        "decoding, one sequence of up to {} positions\n  {} cache, {} arena; a token reads {} of weights and takes "
        "{:.3f} GFLOP\n",
        context, format_bytes(cache), format_bytes(decode.plan.arena_bytes), format_bytes(weight_bytes),
        2e-9 * double(params));
  }
};

}  // namespace

void add_describe(CLI::App& app) {
  auto command = std::make_shared<Describe>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
