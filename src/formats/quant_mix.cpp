#include "quant_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <numeric>

#include "gguf_types.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"

namespace toy::gguf {
namespace {

constexpr Mix kMixes[] = {
    {"F32", 0, DType::f32},
    {"F16", 1, DType::f16},
    {"BF16", 32, DType::bf16},
    {"Q8_0", 7, DType::q8_0},
    {"Q4_0", 2, DType::q4_0, Mix::q4_0},
    {"Q4_1", 3, DType::q4_1},
    {"Q5_0", 8, DType::q5_0, Mix::q5_0},
    {"Q5_1", 9, DType::q5_1},
    {"Q2_K", 10, DType::q2_k, Mix::q2_k},
    {"Q2_K_S", 21, DType::q2_k, Mix::q2_k_s},
    {"Q3_K_S", 11, DType::q3_k},
    {"Q3_K_M", 12, DType::q3_k, Mix::q3_k_m},
    {"Q3_K_L", 13, DType::q3_k, Mix::q3_k_l},
    {"Q4_K_S", 14, DType::q4_k, Mix::q4_k_s},
    {"Q4_K_M", 15, DType::q4_k, Mix::q4_k_m},
    {"Q5_K_S", 16, DType::q5_k},
    {"Q5_K_M", 17, DType::q5_k, Mix::q5_k_m},
    {"Q6_K", 18, DType::q6_k},
    {"IQ4_NL", 25, DType::iq4_nl, Mix::iq4},
    {"IQ4_XS", 30, DType::iq4_xs, Mix::iq4},
    {"MXFP4_MOE", 38, DType::mxfp4, Mix::mxfp4_moe},
};

std::string upper(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return out;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

enum class Role { output, embedding, attn_v, attn_k, attn_output, ffn_down, other };

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::output;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::embedding;
  for (const char* like : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"})
    if (contains(name, like)) return Role::attn_v;
  if (contains(name, "attn_k.weight")) return Role::attn_k;
  if (contains(name, "attn_output.weight")) return Role::attn_output;
  if (contains(name, "ffn_down")) return Role::ffn_down;
  return Role::other;
}

// The number in "blk.3.ffn_down.weight", or -1.
int64_t layer_of(std::string_view name) {
  int64_t layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

/// What the choice depends on besides the tensor itself.
struct Facts {
  int64_t layers = 0, experts = 0, queries_per_key = 1;
  int64_t values = 0;  // tensors like attn_v
  bool tied = true, has_imatrix = false;
  bool wide_values = false;  // Llama 70B, whose eight heads share one attn_v: it is small
};

// A number, or, where layers differ, the first of a list.
int64_t first_number(const File& file, const std::string& key, int64_t otherwise) {
  if (!file.has(key)) return otherwise;
  const auto* list = std::get_if<Array>(&file.metadata().find(key)->second);
  if (!list) return int64_t(file.get_u32(key));
  return std::visit(
      [&](const auto& v) -> int64_t {
        if constexpr (std::is_integral_v<typename std::decay_t<decltype(v)>::value_type>)
          if (!v.empty()) return int64_t(v.front());
        return otherwise;
      },
      *list);
}

Facts facts_of(const File& file, bool has_imatrix) {
  const std::string arch = file.get_string(kArchitectureKey), prefix = arch + ".";
  Facts f;
  f.has_imatrix = has_imatrix;
  f.layers = file.get_u32(prefix + "block_count", 0);
  f.experts = file.get_u32(prefix + "expert_count", 0);
  const int64_t heads = first_number(file, prefix + "attention.head_count", 1);
  const int64_t kv_heads = first_number(file, prefix + "attention.head_count_kv", heads);
  f.queries_per_key = kv_heads > 0 ? heads / kv_heads : 0;
  f.wide_values = arch == "llama" && f.layers == 80 && heads != kv_heads;
  f.tied = file.find("output.weight") == nullptr;
  for (const TensorInfo& t : file.tensors()) f.values += role_of(t.name) == Role::attn_v;
  return f;
}

// The first and the last eighth of the layers, and every third between.
bool gets_more_bits(int64_t i, int64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

DType type_of_output(const Mix& mix, const TensorInfo& t) {
  if (mix.kind == Mix::mxfp4_moe || mix.base == DType::q8_0 || t.shape.back() % info_of(mix.base).block != 0)
    return DType::q8_0;
  return DType::q6_k;
}

// `i`: how many like it came before.
DType type_of_values(const Mix& mix, int64_t i, const Facts& f) {
  const bool shared = f.queries_per_key >= 4;
  DType type = mix.base;
  switch (mix.kind) {
    case Mix::q2_k:
      type = shared ? DType::q4_k : DType::q3_k;
      break;
    case Mix::q2_k_s:
      if (shared) type = DType::q4_k;
      break;
    case Mix::q3_k_m:
      type = i < 2 ? DType::q5_k : DType::q4_k;
      break;
    case Mix::q3_k_l:
      type = DType::q5_k;
      break;
    case Mix::q4_k_s:
      if (i < 4) type = DType::q5_k;
      break;
    case Mix::q4_k_m:
    case Mix::q5_k_m:
      if (gets_more_bits(i, f.values)) type = DType::q6_k;
      break;
    case Mix::iq4:
      if (shared) type = DType::q5_k;
      break;
    default:
      break;
  }
  if (f.wide_values && (type == DType::q3_k || type == DType::q4_k)) type = DType::q5_k;
  return f.experts == 8 ? DType::q8_0 : type;
}

// `i`: the layer.
DType type_of_ffn_down(const Mix& mix, int64_t i, const Facts& f) {
  const int64_t n = f.layers;
  const bool early = i < n / 8;
  switch (mix.kind) {
    case Mix::q2_k:
      return DType::q3_k;
    case Mix::q2_k_s:
      return early ? DType::q4_k : mix.base;
    case Mix::q3_k_m:
      return i < n / 16 ? DType::q5_k : DType::q4_k;
    case Mix::q3_k_l:
      return DType::q5_k;
    case Mix::q4_k_s:
      return early ? DType::q5_k : mix.base;
    case Mix::q4_k_m:
    case Mix::q5_k_m:
      return gets_more_bits(i, n) ? DType::q6_k : mix.base;
    case Mix::iq4:
      return early && !f.has_imatrix ? DType::q5_k : mix.base;
    case Mix::q4_0:
      return early && f.has_imatrix ? DType::q4_1 : mix.base;
    case Mix::q5_0:
      return early && f.has_imatrix ? DType::q5_1 : mix.base;
    default:
      return mix.base;
  }
}

DType type_of_attn_output(const Mix& mix, const Facts& f) {
  if (f.experts == 8) {
    const bool small =
        mix.base == DType::q3_k || mix.base == DType::q4_k || mix.kind == Mix::q2_k || mix.kind == Mix::iq4;
    return small && mix.kind != Mix::q3_k_l ? DType::q5_k : mix.base;
  }
  if (mix.kind == Mix::q2_k) return DType::q3_k;
  if (mix.kind == Mix::q3_k_m) return DType::q4_k;
  if (mix.kind == Mix::q3_k_l) return DType::q5_k;
  return mix.base;
}

}  // namespace

std::span<const Mix> mixes() { return kMixes; }

const Mix& find_mix(std::string_view name) {
  // "q4km" and "Q4-K-M" are Q4_K_M.
  const auto letters = [](std::string_view text) {
    std::string kept = upper(text);
    std::erase_if(kept, [](char c) { return c == '_' || c == '-'; });
    return kept;
  };
  std::string wanted = letters(name);
  for (const char* form : {"{}BIT", "INT{}", "{}BITS", "{}"})  // "4bit", "int4"
    for (int bits = 2; bits <= 8; ++bits)
      if (wanted == fmt::format(fmt::runtime(form), bits)) wanted = fmt::format("Q{}", bits);
  if (wanted == "Q3K" || wanted == "Q4K" || wanted == "Q5K") wanted += "M";
  for (const Mix& m : kMixes)
    if (letters(m.name) == wanted) return m;
  std::vector<std::string> names;
  for (const Mix& m : kMixes) names.emplace_back(m.name);
  std::vector<std::string> longer;
  std::ranges::copy_if(names, std::back_inserter(longer),
                       [&](const auto& n) { return letters(n).starts_with(wanted); });
  std::string near = longer.empty() || longer.size() > 4 ? misspelt(upper(name), names) : alternatives(longer);
  const size_t q = wanted.find('Q');
  if (near.empty() && q != wanted.npos && q + 1 < wanted.size()) {
    const std::string bits = wanted.substr(q, 2);  // "Q4" of "UD-Q4_K_XL": others have more mixes
    std::vector<std::string> same;
    std::ranges::copy_if(names, std::back_inserter(same), [&](const auto& n) { return contains(n, bits); });
    if (!same.empty()) near = alternatives(same);
    check(bits != "Q1", "quantize: there is no type '{}'; the smallest is Q2_K_S", name);
  }
  if (near.empty()) near = nearest(upper(name), names);
  if (!near.empty()) fail("quantize: there is no type '{}'; did you mean {}?", name, near);
  fail("quantize: there is no type '{}'; use one of {}", name, fmt::join(names, ", "));
}

bool is_quantizable(const TensorInfo& t) {
  constexpr std::array kKept{"_norm.weight",
                             "ffn_gate_inp.weight",
                             "ffn_gate_tid2eid.weight",
                             "position_embd",
                             "token_types.weight",
                             "ssm_conv1d",
                             "shortconv.conv.weight",
                             "altup",
                             "laurel",
                             "per_layer_model_proj",
                             "attn_rel_b.weight"};
  const auto* const first = std::find_if(t.shape.begin(), t.shape.end(), [](int64_t d) { return d != 1; });
  return t.shape.end() - first >= 2 && t.name.ends_with("weight") &&
         std::none_of(kKept.begin(), kKept.end(), [&](const char* part) { return contains(t.name, part); });
}

std::vector<DType> types_in_mix(const File& file, const Mix& mix, bool pure, bool has_imatrix) {
  const std::vector<TensorInfo>& tensors = file.tensors();
  std::vector<DType> types(tensors.size(), mix.base);
  if (pure || !is_quantized(mix.base)) return types;
  const Facts f = facts_of(file, has_imatrix);
  // Tensors are counted from layer to layer, whatever their order in the file.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(layer_of(tensors[a].name), std::string_view(tensors[a].name)) <
           std::pair(layer_of(tensors[b].name), std::string_view(tensors[b].name));
  });
  int64_t values = 0, downs = 0;
  for (const size_t i : order) {
    const TensorInfo& t = tensors[i];
    if (!is_quantizable(t)) continue;
    const Role role = role_of(t.name);
    if (role == Role::output || (role == Role::embedding && f.tied))
      types[i] = type_of_output(mix, t);
    else if (mix.kind == Mix::mxfp4_moe)
      types[i] = t.shape.rank() >= 3 && t.shape.back(2) > 1 ? DType::mxfp4 : DType::q8_0;
    else if (role == Role::attn_v)
      types[i] = type_of_values(mix, values++, f);
    else if (role == Role::attn_k && f.experts == 8)
      types[i] = DType::q8_0;
    else if (role == Role::ffn_down)
      types[i] = type_of_ffn_down(mix, f.experts > 1 ? layer_of(t.name) : downs++, f);
    else if (role == Role::attn_output)
      types[i] = type_of_attn_output(mix, f);
  }
  return types;
}

DType fit_to_rows(DType type, int64_t width) {
  const auto fits = [&](DType t) { return width % info_of(t).block == 0; };
  if (fits(type)) return type;
  switch (type) {
    case DType::q2_k:
    case DType::q3_k:
      type = DType::q4_0;
      break;
    case DType::q4_k:
      type = DType::q5_0;
      break;
    case DType::q5_k:
      type = DType::q5_1;
      break;
    case DType::q6_k:
      type = DType::q8_0;
      break;
    case DType::iq4_xs:
      type = DType::iq4_nl;
      break;
    default:
      break;
  }
  return fits(type) ? type : DType::f16;
}

}  // namespace toy::gguf
