// What each layer of a model keeps of a sequence and computes for a token, and from where a recurrent layer is cheaper
// than attention.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/describe/describe.h"
#include "models/mixers/mixer.h"
#include "toy/base/memory.h"
#include "toy/graph/print.h"
#include "toy/runtime/plan_profile.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kPositions[] = {1, 512, 8192};

// Its state has the same size after any number of tokens.
bool recurrent(const LayerSpec& l) { return mixer_of(l.mixer).part == ModelPart::recurrent; }

// The same model with attention to all positions in the place of its recurrent layers: that of the first attention
// layer or, where there is none, a plain one with their own heads. It need not be one that files can hold. None: there
// are no such heads, or blocks of keys and values of type kv do not divide their width.
std::optional<ModelSpec> with_attention(ModelSpec m, DType kv) {
  const auto is_attention = [](const LayerSpec& l) { return l.mixer == MixerKind::attention; };
  const auto found = std::find_if(m.layers.begin(), m.layers.end(), is_attention);
  const LayerSpec& first = m.layers.front();
  LayerSpec model{.heads = first.heads, .kv_heads = first.kv_heads, .d_head = first.d_head};
  if (found != m.layers.end()) model = *found;
  const auto some = [](int64_t n, int64_t most) { return n >= 1 && n <= most; };
  if (!some(model.heads, kMaxHeads) || !some(model.kv_heads, kMaxHeads) || !some(model.d_head, kMaxHeadWidth))
    return std::nullopt;
  if (model.heads % model.kv_heads != 0 || model.d_head % 2 != 0 || model.d_head % info_of(kv).block != 0)
    return std::nullopt;
  for (LayerSpec& l : m.layers) {
    if (!recurrent(l)) continue;
    const LayerSpec recurrent_one = std::exchange(l, model);
    l.window = 0, l.shared_kv = false;
    l.d_ff = recurrent_one.d_ff, l.ffn = recurrent_one.ffn, l.experts = recurrent_one.experts;
    l.fused_gate_up = recurrent_one.fused_gate_up, l.norm_place = recurrent_one.norm_place;
  }
  return m;
}

// Bytes of the states of each layer.
std::vector<size_t> states_by_layer(const ModelSpec& spec, const DecodeShape& shape) {
  std::vector<size_t> bytes(spec.layers.size());
  for (const StateSlot& s : state_slots(spec, shape)) bytes[s.layer] += bytes_of(s.type.dtype, s.type.count());
  return bytes;
}

// What each layer does for the token that is the last of so many positions.
struct TokenWork {
  std::vector<double> flops, seconds;
};
TokenWork token_work(const Described& m, GraphOptions o, int64_t positions, Device& dev,
                     const std::optional<Ceilings>& ceilings) {
  o.rows = 1, o.context = positions;
  const Plan plan = graph_of("decode", m, o, dev).plan;
  const std::vector<std::vector<Reuse>> reuse = reuse_of(plan);
  TokenWork work{std::vector<double>(m.spec.layers.size()), std::vector<double>(m.spec.layers.size())};
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& s = plan.steps[i];
    if (s.layer.block < 0) continue;
    const auto layer = size_t(s.layer.block);
    Cost cost = s.cost;
    if (s.op == "attention_paged") {  // which states the cost of complete pages, and of what is before a window
      const LayerSpec& l = m.spec.layers[layer];
      cost.flops = mixer_flops(m.spec, l, double(positions));
      cost.transcendentals = double(l.heads * (l.window > 0 ? std::min(l.window, positions) : positions));
    }
    work.flops[layer] += cost.flops;
    if (ceilings) work.seconds[layer] += ceilings->best_time(cost, reuse[i]).seconds;
  }
  return work;
}

// How much more work the recurrent layers would be as attention, for a token at `positions`.
double saved(const Described& m, const Described& twin, const GraphOptions& o, int64_t positions, Device& dev,
             const std::optional<Ceilings>& ceilings) {
  const TokenWork own = token_work(m, o, positions, dev, ceilings),
                  other = token_work(twin, o, positions, dev, ceilings);
  double sum = 0;
  for (size_t i = 0; i < m.spec.layers.size(); ++i)
    if (recurrent(m.spec.layers[i]))
      sum += ceilings ? other.seconds[i] - own.seconds[i] : other.flops[i] - own.flops[i];
  return sum;
}

// The first position from which they are less work than attention, 0 where there is none in the context.
int64_t cheaper_from(const Described& m, const GraphOptions& o, Device& dev, const std::optional<Ceilings>& ceilings) {
  const std::optional<ModelSpec> other = with_attention(m.spec, decode_shape(m, o).kv);
  if (!other) return 0;
  const Described twin{*other, m.stored};
  const auto cheaper = [&](int64_t positions) { return saved(m, twin, o, positions, dev, ceilings) > 0; };
  int64_t below = 0, from = 1;
  while (!cheaper(from)) {
    if (from == o.context) return 0;
    below = from, from = std::min(2 * from, o.context);
  }
  while (from - below > 1) {
    const int64_t middle = below + (from - below) / 2;
    (cheaper(middle) ? from : below) = middle;
  }
  return from;
}

}  // namespace

SequenceState sequence_state(const ModelSpec& spec, const DecodeShape& shape) {
  const std::optional<ModelSpec> twin = with_attention(spec, shape.kv);
  const std::vector<size_t> own = states_by_layer(spec, shape);
  const std::vector<size_t> other = twin ? states_by_layer(*twin, shape) : std::vector<size_t>(own.size());
  SequenceState s;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!recurrent(spec.layers[i])) continue;
    ++s.layers;
    s.recurrent += own[i], s.as_attention += other[i];
  }
  return s;
}

TokenCosts token_costs(const Described& m, const GraphOptions& o, Device& dev,
                       const std::optional<Ceilings>& ceilings) {
  TokenCosts costs{
      .context = o.context, .state = sequence_state(m.spec, decode_shape(m, o)), .timed = ceilings.has_value()};
  for (size_t i = 0; i < m.spec.layers.size(); ++i)
    costs.layers.push_back({fmt::format("blk.{}", i), fmt::format("blk.{}", i), 1, m.spec.layers[i].mixer, {}});
  for (int64_t positions : kPositions) {
    if (m.spec.positions == PositionKind::learned) positions = std::min(positions, m.spec.context);
    if (!costs.positions.empty() && costs.positions.back() == positions) continue;
    costs.positions.push_back(positions);
    GraphOptions here = o;
    here.rows = 1, here.context = positions;
    const std::vector<size_t> states = states_by_layer(m.spec, decode_shape(m, here));
    const TokenWork work = token_work(m, o, positions, dev, ceilings);
    for (size_t i = 0; i < states.size(); ++i)
      costs.layers[i].at.push_back({states[i], work.flops[i], work.seconds[i]});
  }
  std::vector<TokenCosts::Layer> folded;
  for (const TokenCosts::Layer& l : costs.layers) {
    if (folded.empty() || !folded.back().like(l)) {
      folded.push_back(l);
      continue;
    }
    TokenCosts::Layer& same = folded.back();
    ++same.count, same.last = l.layer;
    for (size_t i = 0; i < l.at.size(); ++i) same.at[i].seconds += (l.at[i].seconds - same.at[i].seconds) / same.count;
  }
  costs.layers = std::move(folded);
  if (costs.state.layers > 0) costs.cheaper_from = cheaper_from(m, o, dev, ceilings);
  return costs;
}

ordered_json to_json(const TokenCosts& costs) {
  ordered_json layers = ordered_json::array();
  for (const TokenCosts::Layer& l : costs.layers) {
    ordered_json at = ordered_json::array();
    for (size_t i = 0; i < l.at.size(); ++i) {
      at.push_back({{"position", costs.positions[i]}, {"state_bytes", l.at[i].state}, {"flops", l.at[i].flops}});
      if (costs.timed) at.back()["least_seconds"] = l.at[i].seconds;
    }
    layers.push_back(
        {{"layer", l.layer}, {"last", l.last}, {"count", l.count}, {"mixer", name_of(l.mixer)}, {"at", at}});
  }
  ordered_json j{{"layers", layers}};
  if (costs.state.layers > 0) {
    j.update(to_json(costs.state));
    j["recurrent_cheaper_from"] = costs.cheaper_from > 0 ? ordered_json(costs.cheaper_from) : ordered_json();
  }
  return j;
}

ordered_json to_json(const SequenceState& s) {
  return {{"recurrent_layers", s.layers},
          {"recurrent_state_bytes", s.recurrent},
          {"recurrent_as_attention_bytes", s.as_attention}};
}

std::string to_text(const SequenceState& s) {
  const std::string keeps =
      fmt::format("{} recurrent layer{} {}", s.layers, s.layers == 1 ? " keeps" : "s keep", format_bytes(s.recurrent));
  if (s.as_attention == 0) return keeps;
  return fmt::format("{}, or {} of keys and values if they were attention", keeps, format_bytes(s.as_attention));
}

void print_token_costs(const TokenCosts& costs) {
  fmt::print("\nfor one token, by its position\n{:<28} {:<14} {:>8} {:>11} {:>12}{}\n", "layer", "mixer", "position",
             "state", "work", costs.timed ? "      at best" : "");
  for (const TokenCosts::Layer& l : costs.layers) {
    std::string title = l.count == 1 ? l.layer : fmt::format("{} to {}, each", l.layer, l.last);
    std::string mixer = mixer_of(l.mixer).title;
    const auto same = [&](const TokenCosts::At& at) { return at.like(l.at.front()); };
    const bool any = !costs.timed && std::all_of(l.at.begin(), l.at.end(), same);
    for (size_t i = any ? l.at.size() - 1 : 0; i < l.at.size(); ++i)
      fmt::print("{:<28} {:<14} {:>8} {:>11} {:>12}{}\n", std::exchange(title, ""), std::exchange(mixer, ""),
                 any ? "any" : std::to_string(costs.positions[i]), format_bytes(l.at[i].state),
                 to_text(Cost{l.at[i].flops, 0, 0}),
                 costs.timed ? fmt::format(" {:>9.4f} ms", 1e3 * l.at[i].seconds) : "");
  }
  if (costs.state.layers == 0) return;
  fmt::print("after {} positions {}\n", costs.context, to_text(costs.state));
  const char* what = costs.timed ? "at best less time" : "fewer FLOPs";
  if (costs.cheaper_from > 0)
    fmt::print("from position {1} on, a recurrent layer takes {0} than attention\n", what, costs.cheaper_from);
  else
    fmt::print("up to position {1}, a recurrent layer never takes {0} than attention\n", what, costs.context);
}

}  // namespace toy::cli
