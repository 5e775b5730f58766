#include "models/mixers/mixer.h"

#include <algorithm>
#include <cmath>

#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy {

const std::vector<MixerDef>& mixers() {
  static const std::vector<MixerDef> list = [] {
    std::vector<MixerDef> all;
#define TOY_MIXER(name)                                                                            \
  check(all.size() == size_t(MixerKind::name), "mixer_list.def is not in the order of MixerKind"); \
  all.push_back(nn::name##_mixer()), all.back().kind = MixerKind::name;
#include "models/mixers/mixer_list.def"
#undef TOY_MIXER
    return all;
  }();
  return list;
}

MixerSpec::MixerSpec(MixerKind kind) {
  [&]<size_t... I>(std::index_sequence<I...>) { (void)((size_t(kind) == I && (emplace<I>(), true)) || ...); }
  (std::make_index_sequence<std::variant_size_v<variant>>());
}

bool MixerDef::has(std::string_view key) const {
  return std::find(also.begin(), also.end(), key) != also.end() ||
         std::any_of(fields.begin(), fields.end(), [&](const MixerField& f) { return f.key == key; });
}

double mixer_flops(const ModelSpec& m, const LayerSpec& l, double visible) {
  const MixerDef& def = mixer_of(l.mixer);
  return def.flops ? def.flops(m, l, visible) : 0;
}

void check_range(const ModelSpec& m, size_t layer, std::string_view what, int64_t v, int64_t least, int64_t most) {
  check(v >= least && v <= most, "model {}: layer {}: {} is {}, expected {} to {}", m.name, layer, what, v, least,
        most);
}

void check_mixer(const ModelSpec& m, size_t layer) {
  const MixerDef& def = mixer_of(m.layers[layer].mixer);
  for (const MixerField& f : def.fields)
    if (f.most > 0) check_range(m, layer, f.key, number_of(m.layers[layer], f.key), f.least, f.most);
  if (def.check) def.check(m, layer);
}

std::optional<nn::Mixer> make_mixer(const ModelSpec& m, size_t layer, const Weights& w, RopeTables& ropes) {
  const MixerDef& def = mixer_of(m.layers[layer].mixer);
  if (!def.make) return std::nullopt;
  return def.make(m, layer, w.of(def.part), ropes);
}

nn::CausalConv make_conv(const Weights& w, const std::string& name, int64_t channels, int64_t width, bool bias) {
  TensorSpec filter{Init::matrix, name + ".weight", {channels, width}};
  filter.narrow = false;  // as llama.cpp needs it
  return {w(filter), bias ? w({Init::zeros, name + ".bias", {channels}}) : Value{}};
}

nn::StateSpec tail_of(const nn::CausalConv& conv, const char* name) {
  return {nn::StateSpec::Kind::sequence, name, {conv.filter.dim(1) - 1, conv.filter.dim(0)}};
}

Value make_log_rates(const Weights& w, const Shape& shape) {
  TensorSpec t{Init::own, "ssm_a_log", shape, "ssm_a"};
  t.in_file = TensorSpec::InFile::minus_exp, t.narrow = false;
  t.own = [](const Shape&, const Philox& random, int64_t i, double) {
    return std::log(16 * std::max(random.uniform(uint64_t(i)), 1e-4));
  };
  return w(t);
}

Value make_step_bias(const Weights& w, int64_t n) {
  TensorSpec t{Init::own, "ssm_dt.bias", {n}};
  t.own = [](const Shape&, const Philox& random, int64_t i, double) {
    return std::log(std::expm1(0.001 * std::pow(100.0, random.uniform(uint64_t(i)))));
  };
  return w(t);
}

}  // namespace toy
