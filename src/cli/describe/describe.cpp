// toy describe: what a model is, what it computes, what it needs.
#include "cli/describe/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/graph/print.h"
#include "toy/runs/drawings.h"
#include "toy/runtime/plan_profile.h"
#include "toy/train/memory.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct Describe : Command {
  std::string what, format = "text", detail = "ops", ceilings, optimizer, limit;
  DecoderOptions decoder;
  std::map<std::string, std::string> views{{"graph", ""}, {"plan", ""}, {"memory", ""}, {"cost", ""}};  // of a graph
  std::string view, which;  // the one that is given, and its graph; "": the card
  GraphOptions o{.trainer = {}, .rows = 256};
  DeviceOptions device;
  bool json = false;

  void add(CLI::App& app) {
    add_option(
        app, "model", what,
        fmt::format("GGUF file, run, size ({}), or JSON file of dimensions or options", fmt::join(size_names(), ", ")),
        suggested(size_names(), true))
        ->required();
    begin_group(app, "Output");
    const auto graphs = one_of({"train", "forward", "decode"});
    add_option(app, "--graph", views["graph"], "Print the ops with their costs", graphs);
    add_option(app, "--plan", views["plan"], "Print the steps, kernels and buffers", graphs);
    add_option(app, "--memory", views["memory"], "Show the memory in use over the steps", graphs);
    add_option(app, "--cost", views["cost"], "Show FLOPs and bytes by layer; decode also shows state", graphs)
        ->expected(0, 1)
        ->default_str("decode");
    add_option(app, "--format", format, "text, json, svg (with --graph or --memory) or mermaid (with --graph)",
               one_of({"text", "json", "svg", "mermaid"}));
    add_option(app, "--detail", detail, "What a drawing of a graph shows: every op, or the blocks of forward",
               one_of({"ops", "blocks"}));
    app.add_flag("--json", json, "Same as --format json");
    add_option(app, "--ceilings", ceilings, "Add lower bounds on time; FILE is from bench machine --json, or here",
               suggested({"here"}, true), not_empty());
    begin_group(app, "Batch");
    add_option(app, "--batch", o.trainer.batch, "Sequences per training step; a run has its own", at_least(1));
    add_option(app, "--tokens", o.trainer.tokens, "Tokens per sequence; a run has its own", at_least(1));
    add_listed(app, decoder, {"context", "kv"});
    add_option(app, "--rows", o.rows, "Rows that the decoder computes together, at most --ctx", at_least(1));
    add_listed(app, o.trainer, {"optimizer", "updates"});
    begin_group(app, "Machine");
    add_option(app, "--limit", limit, "Plan the training step that train --memory SIZE would run", not_empty())
        ->option_text("SIZE");
    device.add(app);
    show_in_help(app, {"--graph", "--plan", "--memory", "--cost", "--format", "--json", "--ceilings", "--batch",
                       "--tokens", "--optimizer"});
    app.footer(
        "Without --graph, --plan, --memory or --cost it prints the model's card. See toy help describe.md.\n\n"
        "Examples:\n"
        "  toy describe smollm2-135m --ceilings here\n"
        "  toy describe out/book --graph forward --format svg > forward.svg\n"
        "  toy describe small --memory train --batch 16 --limit 128M");
  }

  void run() {
    check_options();
    const auto dev = device.make();
    const Described model = open_description(what);
    take_step_of(model.step);
    print_warnings(what, model.warnings);
    o.kv = decoder.kv, o.context = decoder.context;
    if (o.context == 0) o.context = model.spec.context;
    check(!given("--rows") || o.rows <= o.context, "--rows is {}; use 1 to {}, the positions of --ctx", o.rows,
          o.context);
    if (model.spec.positions == PositionKind::learned && !given("--tokens") && !model.step.tokens)
      o.trainer.tokens = std::min(o.trainer.tokens, model.spec.context);
    if (!limit.empty()) {
      const MemoryFit fit = fit_memory(
          *dev, model.spec, [](const std::string&) { return DType::f32; }, o.trainer, parse_bytes("limit", limit), 0,
          "limit");
      o.trainer.recompute = fit.recompute, o.recomputing = fit.text();
    }
    std::optional<Ceilings> limits;
    if (!ceilings.empty()) limits = ceilings == "here" ? Ceilings(*dev) : read_ceilings(ceilings);
    if (limits && look_disturbed(*limits))
      to_stderr("toy: ceilings: the machine was busy while it was measured; do not rely on the least times\n");
    if (view.empty()) return print_card(model, o, *dev, limits, format == "json");
    const Compiled c = graph_of(which, model, o, *dev);
    if (view == "graph") print_graph(c, *dev);
    if (view == "plan") format == "json" ? print_json(to_json(c.plan), 2) : fmt::print("{}", to_text(c.plan));
    if (view == "memory") print_memory(c);
    if (view != "cost") return;
    std::optional<TokenCosts> tokens;
    if (which == "decode") tokens = token_costs(model, o, *dev, limits);
    print_costs(c, tokens, limits, format == "json");
  }

 private:
  // The command line comes first.
  void take_step_of(const RunStep& run) {
    const auto take = [&](const char* option, auto& value, const auto& of_run) {
      if (of_run && !given(option)) value = *of_run;
    };
    take("--batch", o.trainer.batch, run.batch), take("--tokens", o.trainer.tokens, run.tokens);
    take("--optimizer", optimizer, run.optimizer), take("--update", o.trainer.updates, run.update);
    apply_step();
  }

  void apply_step() {
    o.trainer.optimizer = parse_optimizer(optimizer, "--optimizer");
    if (o.trainer.updates == TrainerOptions::streaming) o.trainer.optimizer.clip = 0;  // it cannot clip
    o.trainer.validate();
  }

  void check_options() {
    optimizer = parser->get_option("--optimizer")->as<std::string>();
    apply_step();
    if (!limit.empty()) parse_bytes("limit", limit);
    for (const auto& [name, graph] : views) {
      if (graph.empty()) continue;
      check(view.empty(), "--{} and --{} exclude each other; give one of them", view, name);
      view = name, which = graph;
    }
    const auto refuse = [&](std::initializer_list<const char*> unread) {  // options that the graph ignores
      for (const char* option : unread)
        check(!given(option), "{} changes nothing in the graph '{}'; remove it", option, which);
    };
    if (which == "decode") refuse({"--batch", "--tokens"});
    if (which == "decode" || which == "forward") refuse({"--optimizer", "--update", "--limit"});
    if (which == "train" || which == "forward") refuse({"--ctx", "--rows", "--kv"});
    check(!given("--detail") || (view == "graph" && format == "svg"),
          "--detail is for drawings; use it with --graph and --format svg");
    check(format != "mermaid" || view == "graph", "--format mermaid needs --graph train, forward or decode; add it");
    check(format != "svg" || view == "graph" || view == "memory",
          "--format svg needs --graph or --memory with train, forward or decode; add one");
    check(!json || !given("--format") || format == "json", "--json and --format {} exclude each other; give one",
          format);
    if (json) format = "json";
    check(ceilings.empty() || view.empty() || view == "cost",
          "--ceilings changes nothing with --{}; use it with --cost or the card", view);
  }

  void print_graph(const Compiled& c, const Device& dev) const {
    const GraphCost costs = cost_of(*c.graph, c.roots);
    if (format == "mermaid") return fmt::print("{}", to_mermaid(*c.graph, &costs));
    const std::string title = what + ": " + c.what;
    if (format == "svg")
      return fmt::print("{}",
                        detail == "blocks" ? to_block_svg(*c.graph, costs, title) : to_svg(*c.graph, costs, title));
    if (format == "json") {
      ordered_json j{{"what", c.what}};
      j.update(to_json(*c.graph, &costs));
      j["plan"] = {{"device", dev.name()},
                   {"steps", c.plan.steps.size()},
                   {"arena_bytes", c.plan.arena_bytes},
                   {"param_bytes", c.plan.param_bytes(dev)},
                   {"input_bytes", c.plan.input_bytes(dev)},
                   {"peak_bytes", held_bytes(c.plan, dev)},
                   {"notes", c.plan.notes}};
      return print_json(j, 2);
    }
    fmt::print("{}\n{}\n", c.what, to_text(*c.graph, &costs));
    for (const Phase p : kPhases)
      if (const std::string text = to_text(costs.phases[size_t(p)]); !text.empty())
        fmt::print("{:<9} {}\n", name_of(p), text);
    fmt::print("{:<9} {}\n{:<9} {} steps on {}, peak {}: {} parameters, {} arena, {} inputs and constants\n", "all",
               to_text(costs.total), "plan", c.plan.steps.size(), dev.name(), format_bytes(held_bytes(c.plan, dev)),
               format_bytes(c.plan.param_bytes(dev)), format_bytes(c.plan.arena_bytes),
               format_bytes(c.plan.input_bytes(dev)));
    for (const std::string& note : c.plan.notes) fmt::print("{:<9} {}\n", "note", note);
  }

  void print_memory(const Compiled& c) const {
    const MemoryProfile profile = memory_profile(c.plan);
    if (format == "svg") return fmt::print("{}", to_svg(profile, what + ": " + c.what));
    if (format == "text") return fmt::print("{}\n{}", c.what, to_text(profile));
    ordered_json j{{"what", c.what}};
    j.update(to_json(profile));
    print_json(j, 2);
  }
};

}  // namespace

void add_describe(CLI::App& app) {
  add_subcommand<Describe>(app, "describe", "Show a model's card, graph, plan, memory and cost");
}

}  // namespace toy::cli
