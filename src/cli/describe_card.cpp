// The card of a model, and the costs of its layers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/console.h"
#include "cli/describe.h"
#include "toy/base/memory.h"
#include "toy/decode/state.h"
#include "toy/graph/print.h"
#include "toy/runtime/plan_profile.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Parameters of one part of the model, and of what each layer has of it.
struct Part {
  const char* name;
  int64_t count = 0, first_layer = 0;
  bool same_in_layers = true;
};

std::vector<Part> parts_of(const ModelSpec& spec) {
  std::vector<Part> parts{{"embedding"}, {"positions"}, {"attention"}, {"ffn"}, {"norms"}, {"output"}};  // ModelPart
  for (const TensorSpec& t : tensors_of(spec)) {
    Part& p = parts[size_t(t.part)];
    p.count += t.shape.count();
    if (t.block == 0) p.first_layer += t.shape.count();
  }
  const bool alike = std::equal(spec.layers.begin() + 1, spec.layers.end(), spec.layers.begin());
  for (Part& p : parts) p.same_in_layers = alike;
  return parts;
}

std::string scaling_of(const RopeSpec& r) {
  std::string text;
  if (r.scaling == RopeSpec::Scaling::linear) text = fmt::format(", angles / {:g} (linear)", r.factor);
  if (r.scaling == RopeSpec::Scaling::yarn)
    text = fmt::format(", YaRN x{:g} of {} positions", r.factor, r.original_context);
  if (r.attn_factor != 1) text += fmt::format(", attention factor {:g}", r.attn_factor);
  return r.factors.empty() ? text : text + ", frequency factors";
}

std::string positions_of(const ModelSpec& spec) {
  if (spec.positions == PositionKind::learned) return "learned positions";
  return fmt::format("rope base {:g}{}", spec.rope.base, scaling_of(spec.rope));
}

std::string biases_of(const LayerSpec& l) {
  std::vector<std::string> names;
  for (const BiasName& b : kBiasNames)
    if (l.bias.*b.flag) names.push_back(b.tensor);
  return names.empty() ? "" : fmt::format(", biases of {}", fmt::join(names, ", "));
}

void print_dimensions(const ModelSpec& spec) {
  const LayerSpec& l = spec.layers.front();
  fmt::print("{}: {}, {} layers of causal attention and {}, {} output\n", spec.name, spec.architecture,
             spec.layers.size(), l.ffn == FfnKind::gelu ? "gelu" : "swiglu", spec.tied ? "tied" : "untied");
  fmt::print("  D={} (width)  F={} (ffn)  H={} K={} P={} (query heads, kv heads, head width)  V={}  context {}\n",
             spec.d_model, l.d_ff, l.heads, l.kv_heads, l.d_head, spec.vocab, spec.context);
  fmt::print("  {}, {} norm epsilon {:g}{}{}{}\n\n", positions_of(spec), spec.norm == NormKind::rms ? "rms" : "layer",
             spec.norm_eps, l.window ? fmt::format(", window {}", l.window) : "", l.qk_norm ? ", QK-norm" : "",
             biases_of(l));
}

void print_parts(const ModelSpec& spec, size_t weight_bytes) {
  const int64_t params = parameter_count(spec);
  fmt::print("parameters\n");
  int64_t each = 0;
  for (const Part& p : parts_of(spec)) {
    each += p.same_in_layers ? p.first_layer : 0;
    if (p.count)
      fmt::print("  {:<10} {:>14} {:5.1f}%{}\n", p.name, p.count, 100.0 * double(p.count) / double(params),
                 p.first_layer && p.same_in_layers
                     ? fmt::format("  {:>12} in each of {} layers", p.first_layer, spec.layers.size())
                     : "");
  }
  fmt::print("  {:<10} {:>14}  {} as loaded{}\n", "all", params, format_bytes(weight_bytes),
             each ? fmt::format("; a layer has {}", each) : "");
  if (spec.tied) fmt::print("  {:<10} the embedding, once more\n", "output");
  fmt::print("\n");
}

// What the card is made from.
struct Needs {
  Compiled train, decode;
  size_t weight_bytes = 0, cache_bytes = 0;
  std::optional<double> step_seconds, token_seconds;
};

Needs needs_of(const Described& m, const GraphOptions& o, Device& dev, const std::optional<Ceilings>& ceilings) {
  Needs n{graph_of("train", m, o, dev), graph_of("decode", m, o, dev), 0, 0, {}, {}};
  for (const TensorSpec& t : tensors_of(m.spec))
    n.weight_bytes += size_t(t.shape.count()) * size_of(m.dtype_of(t.name));
  for (const StateSlot& s : state_slots(m.spec, DecodeShape{1, o.context})) n.cache_bytes += s.type.bytes();
  if (ceilings) {
    GraphOptions one = o;
    one.rows = 1;
    n.step_seconds = least_seconds(n.train.plan, *ceilings);
    n.token_seconds = least_seconds(graph_of("decode", m, one, dev).plan, *ceilings);
  }
  return n;
}

ordered_json card_json(const Described& m, const GraphOptions& o, const Device& dev, const Needs& n) {
  ordered_json parts, each;
  for (const Part& p : parts_of(m.spec)) {
    parts[p.name] = p.count;
    if (p.same_in_layers && p.first_layer) each[p.name] = p.first_layer;
  }
  const int64_t params = parameter_count(m.spec);
  ordered_json j{{"model", to_json(m.spec)},
                 {"parameters", params},
                 {"parts", parts},
                 {"parts_of_a_layer", each},
                 {"weight_bytes", n.weight_bytes},
                 {"warnings", m.warnings},
                 {"train",
                  {{"batch", o.trainer.batch},
                   {"tokens", o.trainer.tokens},
                   {"peak_bytes", held_bytes(n.train.plan, dev)},
                   {"arena_bytes", n.train.plan.arena_bytes},
                   {"flops", n.train.plan.cost().flops},
                   {"steps", n.train.plan.steps.size()}}},
                 {"decode",
                  {{"context", o.context},
                   {"state_bytes", n.cache_bytes},
                   {"arena_bytes", n.decode.plan.arena_bytes},
                   {"weight_bytes_per_token", n.weight_bytes},
                   {"flops_per_token", 2.0 * double(params)}}}};
  if (n.step_seconds) j["train"]["least_seconds"] = *n.step_seconds;
  if (n.token_seconds) j["decode"]["least_seconds_per_token"] = *n.token_seconds;
  return j;
}

std::string flops(double n) { return to_text(Cost{n, 0, 0}); }
std::string bytes(double n) { return to_text(Cost{0, n, 0}); }

std::string title_of(const LayerCost& l) {
  return l.count == 1 ? l.layer : fmt::format("{} to {}, each", l.layer, l.last);
}

ordered_json costs_json(const Compiled& c, const std::vector<LayerCost>& layers, bool timed) {
  ordered_json list = ordered_json::array();
  for (const LayerCost& l : layers) {
    ordered_json j{{"layer", l.layer}, {"last", l.last}, {"count", l.count}};
    for (const Phase p : kPhases) {
      j[std::string(name_of(p))] = to_json(l.phases[size_t(p)]);
      if (timed) j[std::string(name_of(p))]["least_seconds"] = l.seconds[size_t(p)];
    }
    list.push_back(std::move(j));
  }
  return {{"what", c.what}, {"layers", list}, {"total", to_json(c.plan.cost())}};
}

}  // namespace

void print_card(const Described& m, const GraphOptions& o, Device& dev, const std::optional<Ceilings>& ceilings,
                bool json) {
  const Needs n = needs_of(m, o, dev, ceilings);
  if (json) return print_json(card_json(m, o, dev, n), 2);
  print_dimensions(m.spec);
  print_parts(m.spec, n.weight_bytes);
  const Plan& train = n.train.plan;
  fmt::print("training step, B={} T={} on {}\n  {} planned: {} weights and moments, {} arena; {} steps, {}\n",
             o.trainer.batch, o.trainer.tokens, dev.name(), format_bytes(held_bytes(train, dev)),
             format_bytes(train.param_bytes(dev)), format_bytes(train.arena_bytes), train.steps.size(),
             flops(train.cost().flops));
  if (!o.recomputing.empty()) fmt::print("  {}\n", o.recomputing);
  if (n.step_seconds)
    fmt::print("  at best {:.2f} ms, {:.0f} tokens/s by the ceilings\n", 1e3 * *n.step_seconds,
               double(o.trainer.batch * o.trainer.tokens) / *n.step_seconds);
  fmt::print(
      "\ndecoding, one sequence of up to {} positions\n  {} cache, {} arena; a token reads {} of weights and takes "
      "{}\n",
      o.context, format_bytes(n.cache_bytes), format_bytes(n.decode.plan.arena_bytes), format_bytes(n.weight_bytes),
      flops(2.0 * double(parameter_count(m.spec))));
  if (n.token_seconds)
    fmt::print("  at best {:.3f} ms per token with a full cache, {:.0f} tokens/s by the ceilings\n",
               1e3 * *n.token_seconds, 1 / *n.token_seconds);
}

void print_costs(const Compiled& c, const std::optional<Ceilings>& ceilings, bool json) {
  std::vector<double> seconds;
  if (ceilings)
    for (const Ceilings::Best& best : best_times(c.plan, *ceilings)) seconds.push_back(best.seconds);
  const std::vector<LayerCost> layers = costs_by_layer(c.plan, seconds);
  if (json) return print_json(costs_json(c, layers, ceilings.has_value()), 2);
  fmt::print("{}\n{:<28} {:>8}  {:>12} {:>9}{}\n", c.what, "layer", "phase", "work", "bytes",
             ceilings ? "     at best" : "");
  std::array<Cost, kPhases.size()> sums;
  std::array<double, kPhases.size()> times{};
  const auto row = [&](const std::string& name, Phase p, const Cost& cost, double s) {
    fmt::print("{:<28} {:>8}  {:>12} {:>9}{}\n", name, name_of(p), flops(cost.flops), bytes(cost.bytes),
               ceilings ? fmt::format(" {:>9.3f} ms", 1e3 * s) : "");
  };
  for (const LayerCost& l : layers) {
    std::string title = title_of(l);
    for (const Phase p : kPhases) {
      const Cost& cost = l.phases[size_t(p)];
      if (cost.flops == 0 && cost.bytes == 0) continue;
      row(title, p, cost, l.seconds[size_t(p)]);
      title.clear();  // once is enough
      sums[size_t(p)].flops += cost.flops * l.count, sums[size_t(p)].bytes += cost.bytes * l.count;
      times[size_t(p)] += l.seconds[size_t(p)] * l.count;
    }
  }
  std::string title = "all";
  for (const Phase p : kPhases)
    if (sums[size_t(p)].bytes > 0) row(std::exchange(title, ""), p, sums[size_t(p)], times[size_t(p)]);
  if (ceilings)
    fmt::print("at best {:.3f} ms, the sum of the least times of all steps\n", 1e3 * (times[0] + times[1] + times[2]));
}

}  // namespace toy::cli
