#include "hf/rope.h"

#include <algorithm>
#include <cmath>

#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// transformers' default for longrope.
float longrope_magnitude(double factor, double original) {
  return factor <= 1 ? 1.0f : float(std::sqrt(1 + std::log(factor) / std::log(original)));
}

void read_yarn(const Config& p, int64_t context, RopeSpec& r) {
  r.scaling = RopeSpec::Scaling::yarn;
  r.factor = p.number("factor");
  r.original_context = p.integer("original_max_position_embeddings", context);
  p.require("beta_fast", 32);  // GGUF's readers know no other
  p.require("beta_slow", 1);
  check(p.flag("truncate", true) == r.whole_pairs, "{}: 'truncate' is {}; only {} is supported here", p.path(),
        !r.whole_pairs, r.whole_pairs);
  check(!p.has("mscale") || !p.has("mscale_all_dim"), "{}: 'mscale' is not supported", p.path());
  const float usual = float(rope_magnitude(r));
  if (const float given = p.number("attention_factor", usual); given != usual) r.attn_factor = given / usual;
}

void read_longrope(const Config& p, int64_t context, int64_t pairs, RopeSpec& r) {
  r.factors = p.numbers("short_factor"), r.long_factors = p.numbers("long_factor");
  for (const auto* list : {&r.factors, &r.long_factors})
    check(int64_t(list->size()) == pairs, "{}: a list of factors has {} numbers, expected {}, half of what turns",
          p.path(), list->size(), pairs);
  r.original_context = p.integer("original_max_position_embeddings", context);
  check(r.original_context > 1, "{}: 'original_max_position_embeddings' is {}", p.path(), r.original_context);
  const float factor = p.number("factor", float(context) / float(r.original_context));
  r.attn_factor = p.number("attention_factor", longrope_magnitude(factor, double(r.original_context)));
  if (r.factors == r.long_factors) r.long_factors.clear(), r.original_context = 0;
}

// A pair that is slowed down so much does not turn. llama.cpp's converter writes this number.
constexpr float kStill = 1e30f;

void read_proportional(const Config& p, int64_t width, RopeSpec& r) {
  check(width >= 2 && width <= kMaxHeadWidth, "{}: heads of width {}, expected 2 to {}", p.path(), width,
        kMaxHeadWidth);
  const auto turned = int64_t(double(p.number("partial_rotary_factor", 1)) * double(width)) / 2;
  check(turned >= 1 && turned <= width / 2, "{}: 'partial_rotary_factor': {} of the {} pairs of a head would turn",
        p.path(), turned, width / 2);
  if (turned < width / 2) {
    r.factors.assign(size_t(width / 2), kStill);
    std::fill_n(r.factors.begin(), turned, 1.0f);
  }
  r.factor = p.number("factor", 1);
  if (r.factor != 1) r.scaling = RopeSpec::Scaling::linear;
}

constexpr Llama3Scaling kLlama3[] = {{8, 1, 4, 8192}, {32, 1, 4, 8192}};

}  // namespace

Config rope_parameters(const Config& config, std::string_view layers, std::string_view theta,
                       std::string_view scaling) {
  const Config all = config.object("rope_parameters"), of_kind = all.object(layers);
  Config p = of_kind.values().empty() ? all : of_kind;
  if (p.values().empty()) {
    json old = scaling.empty() ? json::object() : config.object(scaling).values();
    if (config.has(theta)) old["rope_theta"] = *config.find(theta);
    p = Config(old, config.path());
  }
  json values = p.values();
  for (const char* key : {"partial_rotary_factor", "original_max_position_embeddings"})
    if (!p.has(key) && config.has(key)) values[key] = *config.find(key);
  return {std::move(values), p.path()};
}

void read_rope(const Config& p, int64_t context, int64_t width, RopeSpec& r) {
  r.base = p.number("rope_theta", 10000);
  check(r.base > 1, "{}: 'rope_theta' is {:g}, expected a number above 1", p.path(), r.base);
  if (p.text("rope_type", "") == "proportional") return read_proportional(p, width, r);
  const auto turned = int64_t(double(width) * double(p.number("partial_rotary_factor", 1)));
  check(turned >= 2 && turned <= width && turned % 2 == 0,
        "{}: 'partial_rotary_factor': {} of the {} elements of a head would turn", p.path(), turned, width);
  r.dims = turned == width ? 0 : turned;
  const std::string type = p.text("rope_type", p.text("type", "default"));
  if (type == "linear") {
    r.factor = p.number("factor");
    if (r.factor != 1) r.scaling = RopeSpec::Scaling::linear;
  } else if (type == "yarn") {
    read_yarn(p, context, r);
  } else if (type == "llama3") {
    const Llama3Scaling s{p.number("factor"), p.number("low_freq_factor"), p.number("high_freq_factor"),
                          double(p.integer("original_max_position_embeddings"))};
    check(s.factor > 0 && s.low > 0 && s.high > s.low, "{}: factors of llama3 are {:g}, {:g}, {:g}", p.path(), s.factor,
          s.low, s.high);
    r.factors = llama3_factors(s, double(r.base), turned);
  } else if (type == "longrope" || type == "su") {
    read_longrope(p, context, turned / 2, r);
  } else {
    check(type == "default",
          "{}: rope of type '{}' is not supported; supported: default, linear, yarn, llama3, longrope", p.path(), type);
  }
}

ordered_json proportional_rope(const RopeSpec& r, int64_t width) {
  const auto still = std::find_if(r.factors.begin(), r.factors.end(), [](float f) { return f != 1; });
  check(std::all_of(still, r.factors.end(), [](float f) { return f >= 1e20f; }) && r.attn_factor == 1 &&
            r.scaling != RopeSpec::Scaling::yarn,
        "rope_factors are neither 1 nor so large that a pair stands still, which config.json cannot say");
  const double turned = r.factors.empty() ? 1 : double(still - r.factors.begin()) * 2 / double(width);
  ordered_json p = {{"rope_type", "proportional"}, {"partial_rotary_factor", turned}, {"rope_theta", r.base}};
  if (r.scaling == RopeSpec::Scaling::linear) p["factor"] = r.factor;
  return p;
}

void write_rope(ordered_json& config, const RopeSpec& r, int64_t context, int64_t width) {
  config["rope_theta"] = r.base;
  const int64_t turned = r.dims > 0 ? r.dims : width;
  if (r.dims > 0) config["partial_rotary_factor"] = double(turned) / double(width);
  ordered_json scaling;
  if (r.scaling == RopeSpec::Scaling::linear) scaling = {{"rope_type", "linear"}, {"factor", r.factor}};
  if (r.scaling == RopeSpec::Scaling::yarn) {
    scaling = {{"rope_type", "yarn"},
               {"factor", r.factor},
               {"original_max_position_embeddings", r.original_context},
               {"attention_factor", rope_magnitude(r)}};
    if (!r.whole_pairs) scaling["truncate"] = false;
  } else if (!r.factors.empty()) {
    for (const Llama3Scaling& s : kLlama3)
      if (r.long_factors.empty() && r.attn_factor == 1 && r.factors == llama3_factors(s, double(r.base), turned))
        scaling = {{"rope_type", "llama3"},
                   {"factor", s.factor},
                   {"low_freq_factor", s.low},
                   {"high_freq_factor", s.high},
                   {"original_max_position_embeddings", int64_t(s.original_context)}};
    // Any other table is one that does not depend on the context.
    if (scaling.is_null())
      scaling = {{"rope_type", "longrope"},
                 {"short_factor", r.factors},
                 {"long_factor", r.long_factors.empty() ? r.factors : r.long_factors},
                 {"attention_factor", r.attn_factor},
                 {"original_max_position_embeddings", r.long_factors.empty() ? context : r.original_context}};
    if (!r.long_factors.empty()) config["original_max_position_embeddings"] = r.original_context;
  } else {
    check(r.attn_factor == 1, "rope_attn_factor is {:g}, which config.json cannot say without yarn or factors",
          r.attn_factor);
  }
  config["rope_scaling"] = scaling;
}

}  // namespace toy::hf
