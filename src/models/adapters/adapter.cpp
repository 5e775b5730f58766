#include "toy/models/adapter.h"
#include "toy/base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "models/adapters/adapter_parts.h"
#include "models/families/families.h"
#include "models/mixers/mixer.h"
#include "toy/base/glob.h"
#include "toy/base/nearest.h"

namespace toy {
namespace {

using Magnitude = AdapterSpec::Magnitude;
constexpr const char* kAll = "all-linear";

// "attn_q" of "blk.0.attn_q.weight".
std::string stem_of(const TensorSpec& t) {
  const std::string name = without_weight(t.name);
  return t.block >= 0 ? name.substr(name.find('.', name.find('.') + 1) + 1) : name;
}

// "attn_*=8:16": a pattern, maybe a rank, maybe an alpha.
struct Target {
  std::string pattern;
  std::optional<int64_t> rank = {};
  std::optional<double> alpha = {};
};

Target parse_target(const std::string& text) {
  const size_t at = std::min(text.find('='), text.size());
  Target target{.pattern = text.substr(0, at)};
  if (at == text.size()) return target;
  const char *p = text.data() + at + 1, *end = text.data() + text.size();
  const auto number = [&](auto value) {
    const auto [stop, error] = std::from_chars(p, end, value);
    p = error == std::errc() ? stop : end + 1;
    return value;
  };
  target.rank = number(int64_t(0));
  if (p < end && *p == ':') ++p, target.alpha = number(0.0);
  check(p == end, "targets: '{}' has no number where one belongs; use PATTERN=RANK or PATTERN=RANK:ALPHA", text);
  return target;
}

bool fits(const std::string& target, const TensorSpec& t) {
  if (target == kAll) return t.init != TensorSpec::Init::embedding;
  const std::string ours = name_of_hf_module(target), pattern = ours.empty() ? target : ours;
  return matches(pattern, t.name) || matches(pattern, without_weight(t.name)) || matches(pattern, stem_of(t));
}

std::vector<Target> parse_targets(const std::vector<std::string>& texts) {
  std::vector<Target> list;
  for (const std::string& text : texts) list.push_back(parse_target(text));
  return list;
}

// The last one that fits, or nothing.
const Target* target_of(const std::vector<Target>& targets, const TensorSpec& t) {
  const auto last = std::find_if(targets.rbegin(), targets.rend(), [&](const Target& g) { return fits(g.pattern, t); });
  return last == targets.rend() ? nullptr : &*last;
}

[[noreturn]] void refuse_target(const std::string& target, const std::vector<TensorSpec>& all) {
  std::vector<std::string> stems, names{kAll};
  for (const TensorSpec& t : all) {
    if (std::find(stems.begin(), stems.end(), stem_of(t)) == stems.end()) stems.push_back(stem_of(t));
    names.push_back(t.name);
  }
  names.insert(names.end(), stems.begin(), stems.end());
  const std::string near = nearest(target, names);
  fail("targets: no linear map fits '{}'; there are {}, and {} for all of them{}", target, fmt::join(stems, ", "), kAll,
       near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
}

}  // namespace

std::string name_of_hf_module(std::string_view module) {
  const auto is_it = [&](const TensorName& n) { return n.hf.substr(n.hf.rfind('.') + 1) == module; };
  const auto* n = std::find_if(std::begin(kLlamaNames), std::end(kLlamaNames), is_it);
  return n == std::end(kLlamaNames) ? "" : std::string(n->gguf);
}

std::string without_weight(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

TensorSpec tied_output(const ModelSpec& spec) {
  TensorSpec t{TensorSpec::Init::embedding, kOutput, {spec.vocab, spec.d_model}};
  t.adaptable = true;
  return t;
}

void require_magnitudes(const TensorSpec& t) {
  check(t.shape.rank() == 2, "dora: '{}' has experts, for which there is none; leave it out of the targets", t.name);
  check(t.init != TensorSpec::Init::embedding, "dora: '{}' has none; leave it out of the targets", t.name);
  check(t.file_name.empty(), "dora: '{}' is a part of '{}' in files, where it cannot be stated; leave it out", t.name,
        t.file_name);
}

std::vector<TensorSpec> lora_targets(const ModelSpec& spec, const std::vector<std::string>& targets) {
  check(!targets.empty(), "targets: there are none; use {}", kAll);
  std::vector<TensorSpec> list = tensors_of(spec);
  if (spec.tied && spec.lens == 0) list.push_back(tied_output(spec));
  std::erase_if(list, [](const TensorSpec& t) { return !t.adaptable; });
  const std::vector<Target> parsed = parse_targets(targets);
  for (const Target& target : parsed)
    if (std::none_of(list.begin(), list.end(), [&](const TensorSpec& t) { return fits(target.pattern, t); }))
      refuse_target(target.pattern, list);
  std::erase_if(list, [&](const TensorSpec& t) { return !target_of(parsed, t); });
  return list;
}

// Refuses ranks that maps cannot have, with the largest that all can, and with ranks for the small ones.
static void check_ranks(const std::vector<TensorSpec>& maps, const std::vector<Target>& targets, int64_t given) {
  const TensorSpec* smallest = nullptr;
  const auto most = [](const TensorSpec& t) { return std::min(t.shape.back(0), t.shape.back(1)); };
  std::map<std::string, int64_t> own;  // by the stems of maps that are too small
  int64_t wanted = 0;
  for (const TensorSpec& t : maps) {
    const Target& target = *target_of(targets, t);
    const int64_t rank = target.rank.value_or(given);
    check(rank >= 1, "rank is {}, expected at least 1", rank);
    if (rank <= most(t)) continue;
    if (!smallest || most(t) < most(*smallest)) smallest = &t, wanted = rank;
    const auto [it, is_new] = own.emplace(stem_of(t), most(t));
    if (!is_new) it->second = std::min(it->second, most(t));
  }
  if (!smallest) return;
  std::string list = kAll;
  for (const auto& [stem, rank] : own) list += fmt::format(",{}={}", stem, rank);
  const std::string& pattern = target_of(targets, *smallest)->pattern;
  fail("rank is {}, and '{}' is {}: use a rank of at most {}{}", wanted, smallest->name, smallest->shape.str(),
       most(*smallest),
       pattern == kAll ? fmt::format(", or give small maps one of their own: --targets {}", list) : "");
}

AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& o) {
  check_limits(o);
  check(!o.dora || !o.pissa, "pissa: there is none with dora; use one of them");
  check(!o.dora || o.dropout == 0, "lora-dropout is {}; DoRA is trained without, use 0", o.dropout);
  AdapterSpec adapter{.maps = {}, .dropout = o.dropout, .chat_template = {}};
  const std::vector<Target> targets = parse_targets(o.targets);
  const std::vector<TensorSpec> maps = lora_targets(spec, o.targets);
  check_ranks(maps, targets, o.rank);
  for (const TensorSpec& t : maps) {
    const Target& target = *target_of(targets, t);
    const int64_t rank = target.rank.value_or(o.rank);
    const double alpha = target.alpha.value_or(o.alpha);
    check(alpha > 0 && std::isfinite(alpha), "alpha is {}, expected a positive number", alpha);
    if (o.dora) require_magnitudes(t);
    check(!o.pissa || t.init != TensorSpec::Init::embedding,
          "pissa: '{}' has none, only linear maps do; leave it out of the targets", t.name);
    adapter.maps[t.name] = {rank, float(alpha / (o.rslora ? std::sqrt(double(rank)) : double(rank))),
                            o.dora ? Magnitude::trained : Magnitude::none, o.pissa};
  }
  return adapter;
}

namespace {

// Maps that llama.cpp multiplies with without a look at adapters.
bool ignored_by_llama_cpp(const ModelSpec& spec, const std::string& name) {
  static constexpr std::pair<std::string_view, const char*> kIgnored[] = {
      {"gemma4", "per_layer_model_proj.*"}, {"nemotron_h_moe", "*.ffn_latent_*"}, {"kimi-linear", kOutput}};
  for (const auto& [architecture, pattern] : kIgnored)
    if (spec.architecture == architecture && matches(pattern, name)) return true;
  for (size_t i = 0; i < spec.layers.size(); ++i)
    for (const char* pattern : mixer_of(spec.layers[i].mixer).no_adapters_in_llama_cpp)
      if (matches(fmt::format("blk.{}.{}", i, pattern), name)) return true;
  return false;
}

}  // namespace

bool can_be_merged(const ModelSpec& spec, const AdapterSpec& adapter) {
  return !spec.tied || holds(spec, "tied") || (!adapter.maps.contains(kEmbedding) && !adapter.maps.contains(kOutput));
}

std::string unknown_to_llama_cpp(const ModelSpec& spec, const AdapterSpec& adapter) {
  if (adapter.head) return "llama.cpp takes no classes from an adapter";
  for (const auto& [name, map] : adapter.maps) {
    if (map.magnitude != Magnitude::none) return "llama.cpp has no DoRA";
    if (spec.tied && (name == kOutput || name == kEmbedding))
      return fmt::format("llama.cpp {} of a model whose output is its embeddings",
                         name == kOutput ? "refuses an adapter of the output" : "aborts with an adapter of embeddings");
    if (ignored_by_llama_cpp(spec, name)) return fmt::format("llama.cpp ignores what an adapter changes in '{}'", name);
  }
  return "";
}

}  // namespace toy
