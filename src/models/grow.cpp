#include "toy/models/grow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "toy/tensor/projection.h"

namespace toy {
namespace {

// A dimension of a tensor: heads of one width, whose elements may all turn in pairs.
struct Axis {
  int64_t size = 0, heads = 1;
  std::optional<RopePairing> turns = {};
  int64_t width() const { return size / heads; }
};

// "attn_q.weight" of "blk.0.attn_q.weight".
std::string without_block(const TensorSpec& t) {
  return t.block < 0 ? t.name : t.name.substr(t.name.find('.', t.name.find('.') + 1) + 1);
}

std::vector<Axis> axes_of(const ModelSpec& spec, const std::string& name, int block, const Shape& shape) {
  std::vector<Axis> axes;
  for (const int64_t n : shape) axes.push_back({n});
  if (block < 0 || spec.layers[size_t(block)].mixer != MixerKind::attention) return axes;
  const LayerSpec& l = spec.layers[size_t(block)];
  const bool all_turn = l.rope_dims == 0 || l.rope_dims == l.d_head;
  const auto set = [&](Axis& axis, int64_t heads, bool turns) {
    axis.heads = heads;
    const std::optional<RopeSpec> rope = rope_of(spec, l);
    if (turns && rope && all_turn && axis.width() == l.d_head) axis.turns = rope->pairing;
  };
  if (name.starts_with("attn_q.")) set(axes[0], l.heads, true);
  if (name.starts_with("attn_k.")) set(axes[0], l.kv_heads, true);
  if (name.starts_with("attn_v.")) set(axes[0], l.kv_heads, false);
  if (name.starts_with("attn_q_norm.") || name.starts_with("attn_k_norm.")) set(axes[0], shape[0] / l.d_head, true);
  if (name == "attn_output.weight") set(axes[1], l.heads, false);
  return axes;
}

// Of each index of a dimension, that of the donor's.
std::vector<int64_t> places(const Axis& to, const Axis& from) {
  std::vector<int64_t> list;
  const auto half_of = [](const Axis& a) { return a.width() / 2; };
  for (int64_t i = 0; i < to.size; ++i) {
    int64_t at = i % to.width();
    if (to.turns && from.turns) {
      const bool neighbours = *to.turns == RopePairing::neighbour;
      const int64_t pair = (neighbours ? at / 2 : at % half_of(to)) % half_of(from);
      const int64_t second = neighbours ? at % 2 : at / half_of(to);
      at = *from.turns == RopePairing::neighbour ? 2 * pair + second : pair + second * half_of(from);
    }
    list.push_back(i / to.width() % from.heads * from.width() + at % from.width());
  }
  return list;
}

const LayerSpec& layer_of(const ModelSpec& m, int block) { return m.layers[size_t(block)]; }

// Why what is in a block of the donor means something else here, or "".
std::string difference(const TensorSpec& t, const LayerSpec& here, const LayerSpec& there) {
  const bool mixes = t.part == ModelPart::attention || t.part == ModelPart::recurrent;
  if (mixes && MixerKind(here.mixer) != there.mixer)
    return fmt::format("the donor's block has the mixer {}", name_of(there.mixer));
  if (t.part == ModelPart::ffn && (here.ffn != there.ffn || (here.experts.count > 0) != (there.experts.count > 0)))
    return "the donor's block has another kind of ffn";
  const bool heads = t.name.find(".attn_q.") != std::string::npos || t.name.find(".attn_k.") != std::string::npos;
  if (heads && here.rope_dims != there.rope_dims) return "another part of the donor's heads turns";
  return "";
}

}  // namespace

Origin origin_of(const TensorSpec& t, const ModelSpec& spec, const ModelSpec& donor) {
  const std::string rest = without_block(t);
  const int block = t.block < 0 ? -1 : t.block % int(donor.layers.size());
  const std::string name = block < 0 ? rest : fmt::format("blk.{}.{}", block, rest);
  const std::vector<TensorSpec> all = tensors_of(donor);
  const auto from = std::find_if(all.begin(), all.end(), [&](const TensorSpec& d) { return d.name == name; });
  if (from == all.end()) return {.reason = "the donor has none"};
  if (block >= 0)
    if (const std::string why = difference(t, layer_of(spec, t.block), layer_of(donor, block)); !why.empty())
      return {.reason = why};
  const bool turns_alike =
      block < 0 || axes_of(spec, rest, t.block, t.shape)[0].turns == axes_of(donor, rest, block, from->shape)[0].turns;
  if (from->shape == t.shape && turns_alike) return {name, Origin::copied};
  if (t.part == ModelPart::recurrent || from->shape.rank() != t.shape.rank())
    return {.reason = fmt::format("the donor's is {}", from->shape.str())};
  return {name, Origin::fitted};
}

std::vector<float> values_from(const Origin& origin, const TensorSpec& t, const ModelSpec& spec, const Model& donor) {
  const std::vector<float> values = donor.params->read(origin.tensor);
  if (origin.how == Origin::copied) return values;
  const std::string rest = without_block(t);
  const int block = t.block < 0 ? -1 : t.block % int(donor.spec.layers.size());
  const Shape& shape = donor.params->type(origin.tensor).shape;
  const std::vector<Axis> to = axes_of(spec, rest, t.block, t.shape), from = axes_of(donor.spec, rest, block, shape);
  std::vector<std::vector<int64_t>> at;
  for (size_t d = 0; d < to.size(); ++d) at.push_back(places(to[d], from[d]));
  const bool sums = t.shape.rank() >= 2 && t.init == TensorSpec::Init::matrix;
  const double scale = sums ? std::sqrt(double(shape.back()) / double(t.shape.back())) : 1;
  std::vector<float> result(size_t(t.shape.count()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest_of = int64_t(i), place = 0, stride = 1;
    for (int d = t.shape.rank() - 1; d >= 0; --d) {
      place += at[size_t(d)][size_t(rest_of % t.shape[d])] * stride;
      rest_of /= t.shape[d], stride *= shape[d];
    }
    result[i] = float(scale * double(values[size_t(place)]));
  }
  return result;
}

void folded_rows(const Model& model, std::span<const float> lens, int64_t first, std::span<float> out,
                 ThreadPool& threads) {
  const HostTensor table = model.params->host(kDonorEmbedding);
  project_rows(table.view(), first, lens, out, threads);
}

size_t folding_bytes(const ModelSpec& s, int threads) {
  if (s.lens == 0) return 0;
  const auto map = size_t(s.d_model * s.lens), rows = size_t(kFoldedRows);
  constexpr size_t kBlock = 64;  // rows of a thread
  return map * (sizeof(float) + sizeof(double)) + rows * size_t(s.d_model) * sizeof(float) +
         size_t(threads) * kBlock * size_t(s.d_model + 2 * s.lens) * sizeof(double);
}

}  // namespace toy
