// toy describe: what a model is, what it computes, what it needs.
#include "cli/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/graph/print.h"
#include "toy/runtime/plan_profile.h"
#include "toy/train/memory.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct Describe {
  std::string what, graph, plan, memory, cost, format = "text", ceilings, optimizer = "adamw", update = "gathered",
                                               limit;
  GraphOptions o{.trainer = {}, .rows = 256};
  DeviceOptions device;
  bool json = false;
  CLI::Option *format_option = nullptr, *ceilings_option = nullptr, *tokens_option = nullptr, *rows_option = nullptr;
  std::vector<const CLI::Option*> of_training, of_passes, of_decoding;  // read by these graphs only

  void add(CLI::App& app) {
    app.add_option("model", what,
                   fmt::format("GGUF file, run, size ({}), or JSON file of dimensions or options",
                               fmt::join(size_names(), ", ")))
        ->required()
        ->check(suggested(size_names(), true));
    const std::vector<std::string> graphs{"train", "forward", "decode"};
    begin_group(app, "Output");
    app.add_option("--graph", graph, "Print the ops with their costs")->check(one_of(graphs));
    app.add_option("--plan", plan, "Print the steps, kernels and buffers")->check(one_of(graphs));
    app.add_option("--memory", memory, "Show the memory in use over the steps")->check(one_of(graphs));
    app.add_option("--cost", cost, "Show FLOPs and bytes by layer")->check(one_of(graphs));
    format_option =
        app.add_option("--format", format, "text, json, svg (with --graph or --memory) or mermaid (with --graph)")
            ->capture_default_str()
            ->check(one_of({"text", "json", "svg", "mermaid"}));
    app.add_flag("--json", json, "Same as --format json");
    ceilings_option =
        app.add_option("--ceilings", ceilings, "Add lower bounds on time; FILE is from bench machine --json, or here")
            ->check(suggested({"here"}, true));
    begin_group(app, "Batch");
    of_passes = {app.add_option("--batch", o.trainer.batch, "Sequences per training step; a run has its own")
                     ->capture_default_str()
                     ->check(at_least(1))};
    tokens_option = app.add_option("--tokens", o.trainer.tokens, "Tokens per sequence; a run has its own")
                        ->capture_default_str()
                        ->check(at_least(1));
    of_passes.push_back(tokens_option);
    of_decoding = {add_context_option(app, o.context, "Positions of the decoder; 0 takes the model's context")};
    rows_option = app.add_option("--rows", o.rows, "Rows that the decoder computes together, at most --ctx")
                      ->capture_default_str()
                      ->check(at_least(1));
    of_decoding.push_back(rows_option);
    of_training = {add_optimizer_option(app, optimizer), add_update_option(app, update)};
    begin_group(app, "Machine");
    of_training.push_back(app.add_option("--limit", limit, "Plan the training step that train --memory SIZE would run")
                              ->option_text("SIZE")
                              ->check(not_empty()));
    device.add(app);
    show_in_help(app, {"--graph", "--plan", "--memory", "--cost", "--format", "--json", "--ceilings", "--batch",
                       "--tokens", "--optimizer"});
    app.footer(
        "Without --graph, --plan, --memory or --cost it prints the model's card. See docs/describe.md.\n\n"
        "Examples:\n"
        "  toy describe smollm2-135m --ceilings here\n"
        "  toy describe out/book --graph forward --format svg > forward.svg\n"
        "  toy describe small --memory train --batch 16 --limit 128M");
    app.callback([this] { run(); });
  }

  void run() {
    check_options();
    const auto dev = device.make();
    const Described model = open_description(what);
    take_step_of(model.step);
    print_warnings(what, model.warnings);
    if (o.context == 0) o.context = model.spec.context;
    check(rows_option->count() == 0 || o.rows <= o.context, "--rows is {}; use 1 to {}, the positions of --ctx", o.rows,
          o.context);
    if (model.spec.positions == PositionKind::learned && tokens_option->count() == 0 && !model.step.tokens)
      o.trainer.tokens = std::min(o.trainer.tokens, model.spec.context);
    if (!limit.empty()) fit(model.spec, *dev);
    std::optional<Ceilings> limits;
    if (ceilings_option->count()) limits = ceilings == "here" ? Ceilings(team_of(*dev)) : read_ceilings(ceilings);
    if (limits && look_disturbed(*limits))
      to_stderr("toy: ceilings: the machine was busy while it was measured; do not rely on the least times\n");
    if (!graph.empty()) return print_graph(graph_of(graph, model, o, *dev), *dev);
    if (!plan.empty()) return print_plan(graph_of(plan, model, o, *dev).plan);
    if (!memory.empty()) return print_memory(graph_of(memory, model, o, *dev));
    if (!cost.empty()) return print_costs(graph_of(cost, model, o, *dev), limits, format == "json");
    print_card(model, o, *dev, limits, format == "json");
  }

 private:
  // The command line comes first.
  void take_step_of(const RunStep& run) {
    const auto take = [](const CLI::Option* option, auto& value, const auto& of_run) {
      if (of_run && option->count() == 0) value = *of_run;
    };
    take(of_passes[0], o.trainer.batch, run.batch), take(tokens_option, o.trainer.tokens, run.tokens);
    take(of_training[0], optimizer, run.optimizer), take(of_training[1], update, run.update);
    apply_step();
  }

  void apply_step() {
    o.trainer.optimizer = OptimizerOptions::of(optimizer_of(optimizer).kind);
    o.trainer.updates = updates_of(update);
    if (o.trainer.updates == TrainerOptions::streaming) o.trainer.optimizer.clip = 0;  // it cannot clip
    o.trainer.validate();
  }

  void check_options() {
    apply_step();
    if (!limit.empty()) parse_bytes("limit", limit);
    for (const std::string* shown : {&graph, &plan, &memory, &cost})
      check(limit.empty() || shown->empty() || *shown == "train",
            "--limit changes nothing in the graph '{}'; remove it or use train", *shown);
    const auto shown = {std::pair("graph", &graph), std::pair("plan", &plan), std::pair("memory", &memory),
                        std::pair("cost", &cost)};
    std::vector<std::string> given;
    for (const auto& [name, value] : shown)
      if (!value->empty()) given.push_back(std::string("--") + name);
    check(given.size() < 2, "{} exclude each other; give one of them", fmt::join(given, " and "));
    if (!given.empty()) check_read_by(graph + plan + memory + cost);
    check(format != "mermaid" || !graph.empty(), "--format mermaid needs --graph train, forward or decode; add it");
    check(format != "svg" || !graph.empty() || !memory.empty(),
          "--format svg needs --graph or --memory with train, forward or decode; add one");
    check(!json || format_option->count() == 0 || format == "json",
          "--json and --format {} exclude each other; give one", format);
    if (json) format = "json";
    check(ceilings_option->count() == 0 || given.empty() || !cost.empty(),
          "--ceilings changes nothing with {}; use it with --cost or the card", given.empty() ? "" : given.front());
  }

  // Options that the graph ignores are refused.
  void check_read_by(const std::string& which) const {
    const auto refuse = [&](const std::vector<const CLI::Option*>& options) {
      for (const CLI::Option* option : options)
        check(option->count() == 0, "{} changes nothing in the graph '{}'; remove it", option->get_name(), which);
    };
    if (which == "decode") refuse(of_passes);
    if (which == "decode" || which == "forward") refuse(of_training);
    if (which == "train" || which == "forward") refuse(of_decoding);
  }

  void fit(const ModelSpec& spec, Device& dev) {
    const MemoryFit f = fit_memory(
        dev, spec, [](const std::string&) { return DType::f32; }, o.trainer, parse_bytes("limit", limit), 0, "limit");
    o.trainer.recompute = f.recompute;
    o.recomputing = f.text();
  }

  void print_graph(const Compiled& c, const Device& dev) const {
    const GraphCost costs = cost_of(*c.graph, c.roots);
    if (format == "mermaid") return fmt::print("{}", to_mermaid(*c.graph, &costs));
    if (format == "svg") return fmt::print("{}", to_svg(*c.graph, costs, what + ": " + c.what));
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
      return fmt::print("{}\n", json_text(j, 2));
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

  void print_plan(const Plan& p) const {
    if (format == "json")
      fmt::print("{}\n", json_text(to_json(p), 2));
    else
      fmt::print("{}", to_text(p));
  }

  void print_memory(const Compiled& c) const {
    const MemoryProfile profile = memory_profile(c.plan);
    if (format == "svg") return fmt::print("{}", to_svg(profile, what + ": " + c.what));
    if (format == "text") return fmt::print("{}\n{}", c.what, to_text(profile));
    ordered_json j{{"what", c.what}};
    j.update(to_json(profile));
    fmt::print("{}\n", json_text(j, 2));
  }
};

}  // namespace

void add_describe(CLI::App& app) {
  auto command = std::make_shared<Describe>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
