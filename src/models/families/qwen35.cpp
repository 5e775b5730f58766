// `qwen35`, `qwen35moe` and `qwen3next` (Yang et al. 2025): Gated DeltaNet in three of four layers, gated attention
// with partly turned heads in the others; Qwen 3.5 dense or with experts, Qwen3-Next with experts.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace qwen35 {
namespace {

// Blocks after the last layer, which predict further tokens and are not used.
constexpr int kMostPredicting = 8;

constexpr const char* kOfPredicting =
    "attn_norm post_attention_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_gate "
    "ffn_up ffn_down ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_inp_shexp "
    "ffn_gate_shexp ffn_up_shexp ffn_down_shexp nextn.eh_proj nextn.enorm nextn.hnorm "
    "nextn.shared_head_norm nextn.embed_tokens nextn.shared_head_head";

std::vector<std::string> tensors_of_predicting_blocks(const ModelSpec& m) {
  std::vector<std::string> names;
  for (int i = 0; i < kMostPredicting; ++i) {
    std::istringstream words(kOfPredicting);
    for (std::string name; words >> name;)
      names.push_back(fmt::format("blk.{}.{}.weight", m.layers.size() + size_t(i), name));
  }
  return names;
}

// How many pairs take their angle from each of three coordinates, which are the same position in a text.
std::vector<int64_t> sections_of(const ModelSpec& m) {
  const int64_t pairs = turned_of(m.layers.front()) / 2;
  return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
}

// Pair p belongs to coordinate p mod 3 as long as p < 3 times its section; a pair of none would not turn.
void check_sections(Metadata& metadata, const ModelSpec& m) {
  const std::vector<int64_t> needed = sections_of(m);
  const auto& all = metadata.file().metadata();
  const auto found = all.find(metadata.key("rope.dimension_sections"));
  const gguf::Array* list = found == all.end() ? nullptr : std::get_if<gguf::Array>(&found->second);
  const size_t length = list ? std::visit([](const auto& v) { return v.size(); }, *list) : needed.size();
  check(length == needed.size(), "{}: metadata key '{}' is a list of {}, expected {} sections, at least {}",
        metadata.file().path(), metadata.key("rope.dimension_sections"), length, needed.size(),
        fmt::join(needed, ", "));
  const std::vector<int64_t> has = metadata.u32s("rope.dimension_sections", needed.size());
  for (size_t i = 0; i < 3; ++i)
    check(has[i] >= needed[i], "{}: {}: section {} is {}, but {} pairs turn, which need {}", metadata.file().path(),
          metadata.key("rope.dimension_sections"), i, has[i], needed[0] + needed[1] + needed[2], needed[i]);
}

void read(Metadata& metadata, ModelSpec& m) {
  const std::string& path = metadata.file().path();
  for (const char* key : {"rope.dimension_count", "rope.freq_base"})
    check(metadata.has(key), "{}: {} is missing", path, metadata.key(key));
  const size_t blocks = m.layers.size();
  const int64_t predicting = metadata.u32("nextn_predict_layers", 0);
  check(predicting < int64_t(blocks) && predicting <= kMostPredicting, "{}: {} is {} of {} blocks", path,
        metadata.key("nextn_predict_layers"), predicting, blocks);
  m.layers.resize(blocks - size_t(predicting));
  if (predicting > 0)
    metadata.warn(fmt::format("the last {} of {} blocks predict further tokens; they are not used, and not saved",
                              predicting, blocks));
  read_llama_like(metadata, m);
  const int64_t every = metadata.u32("full_attention_interval", 4);
  check(every >= 1, "{}: {} is 0, expected at least 1", path, metadata.key("full_attention_interval"));
  const bool listed = metadata.has("attention.recurrent_layers");
  std::vector<bool> recurrent(blocks);
  if (listed) recurrent = metadata.pattern("attention.recurrent_layers", blocks, 0);
  DeltaNet sizes = sizes_of<DeltaNet>(m);
  sizes.key_heads = metadata.u32("ssm.group_count"), sizes.value_heads = metadata.u32("ssm.time_step_rank");
  sizes.width = metadata.u32("ssm.state_size"), sizes.conv = metadata.u32("ssm.conv_kernel");
  check(sizes.width <= kMaxHeadWidth, "{}: {} is {}, expected 1 to {}", path, metadata.key("ssm.state_size"),
        sizes.width, kMaxHeadWidth);
  metadata.require("ssm.inner_size", sizes.value_heads * sizes.width);
  const bool whole_ffn = m.layers.front().experts.count > 0 && !metadata.has("expert_feed_forward_length");
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    const bool delta = listed ? recurrent[i] : int64_t(i + 1) % every != 0;
    l.mixer = delta ? MixerSpec(sizes) : MixerSpec();
    if (whole_ffn) l.d_ff /= std::max<int64_t>(l.experts.used, 1);  // what all used experts have together
  }
  if (m.architecture != "qwen3next") check_sections(metadata, m);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  const LayerSpec& l = m.layers.front();
  const auto sizes = sizes_of<DeltaNet>(m);
  w.u32("ssm.conv_kernel", sizes.conv);
  w.u32("ssm.state_size", sizes.width);
  w.u32("ssm.group_count", sizes.key_heads);
  w.u32("ssm.time_step_rank", sizes.value_heads);
  w.u32("ssm.inner_size", sizes.value_heads * sizes.width);
  if (l.experts.count > 0) w.u32("expert_feed_forward_length", l.d_ff);
  // Readers take the list, older ones the interval; without either it is 4.
  std::vector<bool> recurrent;
  for (const LayerSpec& layer : m.layers) recurrent.push_back(layer.mixer == MixerKind::gated_delta);
  const auto first = std::find(recurrent.begin(), recurrent.end(), false) - recurrent.begin();
  w.u32("full_attention_interval", first + 1);
  w.flags("attention.recurrent_layers", recurrent);
  if (m.architecture == "qwen3next") return;
  const std::vector<int64_t> sections = sections_of(m);
  w.i32s("rope.dimension_sections", {sections.begin(), sections.end()});
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_like_layers(m, {"delta_key_heads", "delta_value_heads", "delta_width", "conv_width"});
  const auto deltas = std::count_if(m.layers.begin(), m.layers.end(),
                                    [](const LayerSpec& l) { return l.mixer == MixerKind::gated_delta; });
  check(deltas > 0 && deltas < int64_t(m.layers.size()),
        "model {}: {} of {} layers are gated_delta; the architecture {} needs layers of both kinds", m.name, deltas,
        m.layers.size(), m.architecture);
  const LayerSpec& l = m.layers.front();
  check(sizes_of<DeltaNet>(m).conv >= 1, "model {}: conv_width is 0; the architecture {} needs a convolution", m.name,
        m.architecture);
  check(!holds(m, "experts") || (l.experts.count > 0 && l.experts.shared_d_ff > 0),
        "model {}: experts is {} and shared_d_ff {}; the architecture {} needs both", m.name, l.experts.count,
        l.experts.shared_d_ff, m.architecture);
}

Family family(const char* architecture, bool experts) {
  Family f = llama_like(architecture, RopePairing::half);
  f.read = read, f.write = write, f.check = check_model, f.extra_tensors = tensors_of_predicting_blocks;
  std::erase(f.holds, "fused_qkv");
  f.holds.insert(f.holds.end(),
                 {"mixer", "delta_key_heads", "delta_value_heads", "delta_width", "conv_width", "rope_dims"});
  if (experts) f.holds.insert(f.holds.end(), {"experts", "experts_used", "shared_d_ff"});
  f.defaults.ffn_norm_is_post_attention = true;
  f.defaults.norm_eps = 1e-6f;
  f.defaults.rope.base = 1e7f;
  LayerSpec l{.qk_norm = LayerSpec::head_norm};
  l.attention_gate = true;
  l.experts.shared_gate = experts;
  f.defaults.layers.assign(4, l);
  for (size_t i = 0; i < 3; ++i) f.defaults.layers[i].mixer = DeltaNet{.heads = HeadMap::tile, .conv = 4};
  return f;
}

}  // namespace
}  // namespace qwen35

Family qwen35_family() { return qwen35::family("qwen35", false); }

Family qwen35moe_family() { return qwen35::family("qwen35moe", true); }

Family qwen3next_family() {
  Family f = qwen35::family("qwen3next", true);
  set_sizes(f.defaults, DeltaNet{.packed = true, .conv = 4});
  return f;
}

}  // namespace toy
