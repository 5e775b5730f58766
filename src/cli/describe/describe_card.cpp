// The card of a model, and the costs of its layers.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "cli/console.h"
#include "cli/describe/describe.h"
#include "models/fields.h"
#include "toy/base/memory.h"
#include "toy/decode/state.h"
#include "toy/graph/print.h"
#include "toy/runtime/plan_profile.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Parameters of one part of the model.
struct Part {
  const char* name;
  int64_t count = 0, each = 0;     // each: of a layer, where all that have some have as many
  size_t layers = 0;               // that have some
  std::map<int, int64_t> of = {};  // each of them
};

std::vector<Part> parts_of(const ModelSpec& spec) {
  std::vector<Part> parts{{"embedding"}, {"positions"}, {"attention"}, {"recurrent"}, {"ffn"}, {"norms"}, {"output"}};
  for (const TensorSpec& t : tensors_of(spec)) {
    Part& p = parts[size_t(t.part)];  // in the order of ModelPart
    p.count += t.shape.count();
    if (t.block >= 0) p.of[t.block] += t.shape.count();
  }
  for (Part& p : parts) {
    p.layers = p.of.size();
    const auto alike = [&](const auto& layer) { return layer.second == p.of.begin()->second; };
    if (!p.of.empty() && std::all_of(p.of.begin(), p.of.end(), alike)) p.each = p.of.begin()->second;
  }
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
  if (spec.positions == PositionKind::alibi) return "positions by distance (ALiBi)";
  const LayerSpec& first = first_turning(spec);
  const int64_t turned = first.rope_dims;
  const bool partial = turned > 0 && turned < first.d_head;
  const std::string part = partial ? fmt::format(" on {} elements of a head", turned) : "";
  return fmt::format("rope base {:g}{}{}", spec.rope.base, part, scaling_of(spec.rope));
}

std::string biases_of(const LayerSpec& l) {
  std::vector<std::string> names;
  for (const BiasName& b : kBiasNames)
    if (l.bias.*b.flag) names.push_back(b.tensor);
  return names.empty() ? "" : fmt::format(", biases of {}", fmt::join(names, ", "));
}

std::string ffn_of(const LayerSpec& l) {
  if (l.experts.count == 0) return std::string(name_of(l.ffn));
  return fmt::format("{} of {} experts ({})", l.experts.used, l.experts.count, name_of(l.ffn));
}

using Layers = std::vector<LayerSpec>;

Layers layers_with(const ModelSpec& spec, MixerKind mixer) {
  Layers list = spec.layers;
  std::erase_if(list, [&](const LayerSpec& l) { return l.mixer != mixer; });
  return list;
}

// "96", or "96 or 192" where layers differ. Size: of a layer.
template <class Size>
std::string all_of(const Layers& layers, const Size& size) {
  std::set<int64_t> sizes;
  for (const LayerSpec& l : layers) sizes.insert(std::invoke(size, l));
  return fmt::format("{}", fmt::join(sizes, " or "));
}

std::string windows_of(const Layers& layers) {
  int64_t window = 0;
  size_t some = 0;
  for (const LayerSpec& l : layers)
    if (l.window > 0) window = l.window, ++some;
  if (some == 0) return "";
  return fmt::format(", window {}{}", window, some == layers.size() ? "" : fmt::format(" in {} layers", some));
}

// "4 layers of causal attention and", "12 layers (9 Gated DeltaNet, 3 gated causal attention) with".
std::string mixers_of(const ModelSpec& spec) {
  std::vector<std::string> kinds, counted;
  for (const MixerDef& m : mixers()) {
    const Layers layers = layers_with(spec, m.kind);
    if (layers.empty()) continue;
    const bool gated = layers.front().attention_gate;
    kinds.push_back(m.kind != MixerKind::attention
                        ? m.title
                        : std::string(gated ? "gated " : "") + (spec.causal ? "causal attention" : "attention"));
    counted.push_back(fmt::format("{} {}", layers.size(), kinds.back()));
  }
  std::reverse(counted.begin(), counted.end());  // recurrent ones first: there are more of them
  if (kinds.size() == 1) return fmt::format("{} layers of {} and", spec.layers.size(), kinds[0]);
  return fmt::format("{} layers ({}) with", spec.layers.size(), fmt::join(counted, ", "));
}

// "swiglu", or "swiglu or 8 of 64 experts (swiglu)" where layers differ.
std::string ffn_of(const ModelSpec& spec) {
  std::vector<std::string> kinds;
  for (const LayerSpec& l : spec.layers)
    if (l.d_ff > 0 && std::ranges::find(kinds, ffn_of(l)) == kinds.end()) kinds.push_back(ffn_of(l));
  return kinds.empty() ? "no ffn" : fmt::format("{}", fmt::join(kinds, " or "));
}

// "K=8 H=8 P=64 (key heads, value heads, head width), convolution of 4 positions"; "" where a mixer has no sizes.
std::string sizes_of(const MixerDef& mixer, const Layers& layers) {
  std::vector<std::string> sizes, meanings;
  std::string conv;
  for (const MixerField& f : mixer.fields) {
    const std::string all = all_of(layers, [&](const LayerSpec& l) { return number_of(l, f.key); });
    if (*f.symbol) sizes.push_back(fmt::format("{}={}", f.symbol, all)), meanings.push_back(f.meaning);
    if (*f.symbol || f.key != std::string_view("conv_width")) continue;
    conv = all == "0" ? ", no convolution" : fmt::format(", convolution of {} positions", all);
  }
  return sizes.empty() ? "" : fmt::format("{} ({}){}", fmt::join(sizes, " "), fmt::join(meanings, ", "), conv);
}

void print_dimensions(const ModelSpec& spec, const std::string& pooling) {
  const Layers attention = layers_with(spec, MixerKind::attention);
  fmt::print("{}: {}, {} {}{}\n", spec.name, spec.architecture, mixers_of(spec), ffn_of(spec),
             !spec.causal ? ""
             : spec.tied  ? ", tied output"
                          : ", untied output");
  fmt::print("  D={} (width)  F={} (ffn)  ", spec.d_model, all_of(spec.layers, &LayerSpec::d_ff));
  if (!attention.empty()) fmt::print("{}  ", sizes_of(mixer_of(MixerKind::attention), attention));
  fmt::print("V={}  context {}\n", spec.vocab, spec.context);
  for (const MixerDef& mixer : mixers()) {
    const Layers layers = layers_with(spec, mixer.kind);
    if (layers.empty() || mixer.kind == MixerKind::attention) continue;
    if (const std::string sizes = sizes_of(mixer, layers); !sizes.empty()) fmt::print("  {}: {}\n", mixer.title, sizes);
  }
  fmt::print("  {}{} norm epsilon {:g}", attention.empty() ? "" : positions_of(spec) + ", ",
             spec.norm == NormKind::rms ? "rms" : "layer", spec.norm_eps);
  if (!attention.empty())
    fmt::print("{}{}{}", windows_of(attention), attention.front().qk_norm ? ", QK-norm" : "",
               biases_of(attention.front()));
  if (!pooling.empty()) fmt::print("\n  embeddings by {} pooling", pooling);
  fmt::print("\n\n");
}

std::string of_layers(size_t n) { return n == 1 ? "1 layer" : fmt::format("each of {} layers", n); }

// Parameters of each type, as the file has them; the most frequent type first.
std::vector<std::pair<std::string, int64_t>> types_of(const Described& m) {
  std::vector<std::pair<std::string, int64_t>> types;
  for (const TensorSpec& t : tensors_of(m.spec)) {
    const std::string name(name_of(m.dtype_of(t.name)));
    auto it = std::ranges::find(types, name, &std::pair<std::string, int64_t>::first);
    if (it == types.end()) it = types.insert(types.end(), {name, 0});
    it->second += t.shape.count();
  }
  std::ranges::stable_sort(types, std::greater(), &std::pair<std::string, int64_t>::second);
  return types;
}

ordered_json types_json(const Described& m) {
  ordered_json j = ordered_json::object();
  for (const auto& [name, count] : types_of(m)) j[name] = count;
  return j;
}

void print_parts(const Described& m, size_t weight_bytes) {
  const ModelSpec& spec = m.spec;
  const int64_t params = parameter_count(spec);
  fmt::print("parameters\n");
  int64_t each = 0;
  bool alike = true;
  for (const Part& p : parts_of(spec)) {
    each += p.each;
    alike = alike && (p.layers == 0 || (p.each > 0 && p.layers == spec.layers.size()));
    if (p.count)
      fmt::print("  {:<10} {:>14} {:5.1f}%{}\n", p.name, p.count, 100.0 * double(p.count) / double(params),
                 p.each ? fmt::format("  {:>12} in {}", p.each, of_layers(p.layers)) : "");
  }
  fmt::print("  {:<10} {:>14}  {} as loaded{}\n", "all", params, format_bytes(weight_bytes),
             alike ? fmt::format("; a layer has {}", each) : "");
  std::string types;
  for (const auto& [name, count] : types_of(m))
    types += fmt::format("{}{} {:.1f}%", types.empty() ? "" : ", ", name, 100.0 * double(count) / double(params));
  fmt::print("  {:<10} {}\n", "types", types);
  if (spec.tied && spec.causal) fmt::print("  {:<10} the embedding, once more\n", "output");
  fmt::print("\n");
}

// The least time that each step of a plan can take, that of what bounds it.
std::vector<double> least_times(const Plan& plan, const Ceilings& ceilings) {
  std::vector<double> seconds;
  for (const Ceilings::Best& best : best_times(plan, ceilings)) seconds.push_back(best.seconds);
  return seconds;
}

double least_seconds(const Plan& plan, const Ceilings& ceilings) {
  const std::vector<double> seconds = least_times(plan, ceilings);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::string flops(double n) { return to_text(Cost{n, 0, 0}); }

ordered_json costs_json(const Compiled& c, const std::vector<LayerCost>& layers,
                        const std::optional<TokenCosts>& tokens, bool timed) {
  ordered_json list = ordered_json::array();
  for (const LayerCost& l : layers) {
    ordered_json j{{"layer", l.layer}, {"last", l.last}, {"count", l.count}};
    for (const Phase p : kPhases) {
      j[std::string(name_of(p))] = to_json(l.phases[size_t(p)]);
      if (timed) j[std::string(name_of(p))]["least_seconds"] = l.seconds[size_t(p)];
    }
    list.push_back(std::move(j));
  }
  ordered_json j{{"what", c.what}, {"layers", list}, {"total", to_json(c.plan.cost())}};
  if (tokens) j["token"] = to_json(*tokens);
  return j;
}

// It neither trains nor decodes.
void print_encoder_card(const Described& m, const GraphOptions& o, Device& dev, bool json) {
  const Compiled forward = graph_of("forward", m, o, dev);
  size_t weight_bytes = 0;
  for (const TensorSpec& t : tensors_of(m.spec)) weight_bytes += bytes_of(m.dtype_of(t.name), t.shape);
  if (json)
    return print_json(ordered_json{{"model", to_json(m.spec)},
                                   {"parameters", parameter_count(m.spec)},
                                   {"weight_bytes", weight_bytes},
                                   {"types", types_json(m)},
                                   {"pooling", m.pooling},
                                   {"warnings", m.warnings},
                                   {"encode",
                                    {{"tokens", o.trainer.tokens},
                                     {"flops", forward.plan.cost().flops},
                                     {"arena_bytes", forward.plan.arena_bytes}}}},
                      2);
  print_dimensions(m.spec, m.pooling);
  print_parts(m, weight_bytes);
  if (const VisionSpec& v = m.spec.vision; v.there())
    return fmt::print(
        "it tells {} classes of pictures of {} x {} (toy infer --image)\n  a picture takes {} and {} of arena\n",
        m.spec.vocab, v.image, v.image, flops(forward.plan.cost().flops), format_bytes(forward.plan.arena_bytes));
  fmt::print(
      "{}\n  {} tokens take {} and {} of arena\n",
      m.spec.score.classifies()
          ? fmt::format("a classifier of texts with {} classes: every token sees all tokens of its text (toy infer)",
                        m.spec.score.labels)
      : m.spec.score.there() ? "a reranker: every token sees all tokens of query and document (toy rerank)"
                             : "an encoder: every token sees all tokens of its text (toy embed)",
      o.trainer.tokens, flops(forward.plan.cost().flops), format_bytes(forward.plan.arena_bytes));
}

// Ops that the device has no kernel for, as the notes of lower() tell.
std::vector<std::string> decomposed(const Plan& plan) {
  std::vector<std::string> ops;
  for (const std::string& note : plan.notes)
    if (const size_t end = note.find(": no kernel on '"); end != note.npos) ops.push_back(note.substr(0, end));
  return ops;
}
void print_decomposed(const Plan& plan, const Device& dev) {
  if (const std::vector<std::string> ops = decomposed(plan); !ops.empty())
    fmt::print("  {} has no kernel for {}: their decompositions run\n", dev.name(), fmt::join(ops, ", "));
}

}  // namespace

void print_card(const Described& m, const GraphOptions& o, Device& dev, const std::optional<Ceilings>& ceilings,
                bool json) {
  if (!m.spec.causal) return print_encoder_card(m, o, dev, json);
  const Compiled trained = graph_of("train", m, o, dev), decoded = graph_of("decode", m, o, dev);
  const Plan &train = trained.plan, &decode = decoded.plan;
  size_t weight_bytes = 0;
  double token_bytes = 0, token_flops = 0;
  for (const TensorSpec& t : tensors_of(m.spec)) {
    const size_t bytes = bytes_of(m.dtype_of(t.name), t.shape);
    const double share = share_of_token(m.spec, t);
    weight_bytes += bytes;
    token_bytes += share * double(bytes);
    token_flops += 2 * share * double(t.shape.count());
  }
  const DecodeShape shape = decode_shape(m, o);
  const size_t held = state_bytes(m.spec, shape), snapshot = kept_state_bytes(m.spec, shape);
  const SequenceState state = sequence_state(m.spec, shape);
  double step_seconds = 0, token_seconds = 0;
  if (ceilings) {
    GraphOptions one = o;
    one.rows = 1;
    step_seconds = least_seconds(train, *ceilings);
    token_seconds = least_seconds(graph_of("decode", m, one, dev).plan, *ceilings);
  }
  if (json) {
    ordered_json parts, each, kinds;
    for (const MixerDef& mixer : mixers())
      if (const size_t n = layers_with(m.spec, mixer.kind).size(); n > 0) kinds[std::string(name_of(mixer.kind))] = n;
    for (const Part& p : parts_of(m.spec)) {
      parts[p.name] = p.count;
      if (p.each) each[p.name] = p.each;
    }
    ordered_json j{{"model", to_json(m.spec)},
                   {"parameters", parameter_count(m.spec)},
                   {"parts", parts},
                   {"parts_of_a_layer", each},
                   {"layers", kinds},
                   {"weight_bytes", weight_bytes},
                   {"types", types_json(m)},
                   {"warnings", m.warnings},
                   {"train",
                    {{"batch", o.trainer.batch},
                     {"tokens", o.trainer.tokens},
                     {"peak_bytes", held_bytes(train, dev)},
                     {"arena_bytes", train.arena_bytes},
                     {"flops", train.cost().flops},
                     {"steps", train.steps.size()},
                     {"decomposed", decomposed(train)}}},
                   {"decode",
                    {{"context", o.context},
                     {"state_bytes", held},
                     {"snapshot_bytes", snapshot},
                     {"kv", name_of(shape.kv)},
                     {"arena_bytes", decode.arena_bytes},
                     {"repacked_bytes", decode.repacked_bytes()},
                     {"weight_bytes_per_token", size_t(token_bytes)},
                     {"flops_per_token", token_flops},
                     {"decomposed", decomposed(decode)}}}};
    if (!m.pooling.empty()) j["pooling"] = m.pooling;
    if (state.layers > 0) j["decode"].update(to_json(state));
    if (ceilings) j["train"]["least_seconds"] = step_seconds, j["decode"]["least_seconds_per_token"] = token_seconds;
    return print_json(j, 2);
  }
  print_dimensions(m.spec, m.pooling);
  print_parts(m, weight_bytes);
  fmt::print("training step, B={} T={} on {}\n  {} planned: {} weights and moments, {} arena; {} steps, {}\n",
             o.trainer.batch, o.trainer.tokens, dev.name(), format_bytes(held_bytes(train, dev)),
             format_bytes(train.param_bytes(dev)), format_bytes(train.arena_bytes), train.steps.size(),
             flops(train.cost().flops));
  if (!o.recomputing.empty()) fmt::print("  {}\n", o.recomputing);
  print_decomposed(train, dev);
  if (ceilings)
    fmt::print("  at best {:.2f} ms, {:.0f} tokens/s by the ceilings\n", 1e3 * step_seconds,
               double(o.trainer.batch * o.trainer.tokens) / step_seconds);
  fmt::print("\ndecoding, one sequence of up to {} positions\n", o.context);
  fmt::print("  {} cache in {}, {} arena; a token reads {} of weights and takes {}\n",
             format_bytes(held - state.recurrent), name_of(shape.kv), format_bytes(decode.arena_bytes),
             format_bytes(size_t(token_bytes)), flops(token_flops));
  print_decomposed(decode, dev);
  if (state.layers > 0) fmt::print("  {}\n", to_text(state));
  if (snapshot > 0) fmt::print("  a snapshot takes {} and the pages of its prefix\n", format_bytes(snapshot));
  if (decode.repacked_bytes() > 0)
    fmt::print("  {} more for a faster copy of quantized weights, unless --repack off\n",
               format_bytes(decode.repacked_bytes()));
  if (ceilings)
    fmt::print("  at best {:.3f} ms per token with a full cache, {:.0f} tokens/s by the ceilings\n",
               1e3 * token_seconds, 1 / token_seconds);
}

void print_costs(const Compiled& c, const std::optional<TokenCosts>& tokens, const std::optional<Ceilings>& ceilings,
                 bool json) {
  std::vector<LayerCost> layers =
      costs_by_layer(c.plan, ceilings ? least_times(c.plan, *ceilings) : std::vector<double>{});
  if (json) return print_json(costs_json(c, layers, tokens, ceilings.has_value()), 2);
  LayerCost all{.layer = "all", .last = "", .phases = {}};
  for (const LayerCost& l : layers)
    for (size_t p = 0; p < kPhases.size(); ++p) {
      all.phases[p].flops += l.phases[p].flops * l.count, all.phases[p].bytes += l.phases[p].bytes * l.count;
      all.seconds[p] += l.seconds[p] * l.count;
    }
  layers.push_back(all);
  fmt::print("{}\n{:<28} {:>8}  {:>12} {:>9}{}\n", c.what, "layer", "phase", "work", "bytes",
             ceilings ? "     at best" : "");
  for (const LayerCost& l : layers) {
    std::string title = l.count == 1 ? l.layer : fmt::format("{} to {}, each", l.layer, l.last);
    for (const Phase p : kPhases) {
      const Cost& cost = l.phases[size_t(p)];
      if (cost.flops == 0 && cost.bytes == 0) continue;
      fmt::print("{:<28} {:>8}  {:>12} {:>9}{}\n", std::exchange(title, ""), name_of(p), flops(cost.flops),
                 to_text(Cost{0, cost.bytes, 0}),
                 ceilings ? fmt::format(" {:>9.3f} ms", 1e3 * l.seconds[size_t(p)]) : "");
    }
  }
  if (ceilings)
    fmt::print("at best {:.3f} ms, the sum of the least times of all steps\n",
               1e3 * (all.seconds[0] + all.seconds[1] + all.seconds[2]));
  if (tokens) print_token_costs(*tokens);
}

}  // namespace toy::cli
