// The `llama` family in GGUF: metadata keys and tensor names as llama.cpp reads and writes them.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "toy/base/memory.h"
#include "toy/formats/dequantize.h"
#include "toy/models/model.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

constexpr const char* kFactors = "rope_freqs.weight";

// Metadata decides; the file was validated, but not its dimensions against its tensors. A tensor that nobody asks for
// would have changed the result: refused, as llama.cpp refuses it.
void check_against_tensors(const gguf::File& f, const ModelSpec& spec) {
  std::unordered_set<std::string> known{kFactors};
  for (const TensorSpec& t : tensors_of(spec)) {
    const gguf::TensorInfo& info = f.require(t.name);
    check(info.shape == t.shape, "{}: tensor '{}' is {}, the metadata ask for {}", f.path(), t.name, info.shape.str(),
          t.shape.str());
    const bool readable = info.dtype ? is_float(*info.dtype) : t.shape.rank() >= 2 && gguf::can_dequantize(info);
    check(readable, "{}: tensor '{}' is {}; supported: F32, F16, BF16, and Q8_0 for matrices", f.path(), t.name,
          info.type_name);
    known.insert(t.name);
  }
  for (const gguf::TensorInfo& info : f.tensors())
    check(known.contains(info.name),
          "{}: tensor '{}' is not known in the architecture llama as these metadata state it", f.path(), info.name);
}

RopeSpec read_rope(const gguf::File& f, const ModelSpec& m) {
  RopeSpec r;
  r.base = f.get_f32("llama.rope.freq_base", 10000.0f);
  r.attn_factor = f.get_f32("llama.rope.scaling.attn_factor", 1.0f);
  // llama.cpp: an absent type is linear, the factor has an older name, and 0 means that there is none.
  const std::string type = f.get_string("llama.rope.scaling.type", "linear");
  const float factor = f.get_f32("llama.rope.scaling.factor", f.get_f32("llama.rope.scale_linear", 0.0f));
  check(type == "none" || type == "linear" || type == "yarn",
        "{}: llama.rope.scaling.type is '{}'; supported: none, linear, yarn", f.path(), type);
  if (type == "yarn") {
    r.scaling = RopeSpec::Scaling::yarn;
    r.original_context = f.get_u32("llama.rope.scaling.original_context_length", uint32_t(m.context));
  } else if (type == "linear" && factor != 0 && factor != 1) {
    r.scaling = RopeSpec::Scaling::linear;
  }
  if (r.scaling != RopeSpec::Scaling::none && factor != 0) r.factor = factor;
  if (const gguf::TensorInfo* t = f.find(kFactors)) {
    const int64_t pairs = m.layers.front().d_head / 2;
    check(t->dtype && is_float(*t->dtype) && t->shape == Shape{pairs},
          "{}: tensor '{}' is {} {}, expected F32 [{}], half a head's width", f.path(), kFactors, t->type_name,
          t->shape.str(), pairs);
    r.factors.resize(size_t(pairs));
    convert(View(const_cast<std::byte*>(t->data), *t->dtype, t->shape), View(r.factors.data(), DType::f32, t->shape));
  }
  return r;
}

LayerSpec read_layer(const gguf::File& f, int64_t d_model) {
  const auto u32 = [&](const char* key) { return int64_t(f.get_u32(std::string("llama.") + key)); };
  LayerSpec l;
  l.heads = u32("attention.head_count");
  l.kv_heads = int64_t(f.get_u32("llama.attention.head_count_kv", uint32_t(l.heads)));
  check(l.heads > 0, "{}: llama.attention.head_count is 0", f.path());
  l.d_head = int64_t(f.get_u32("llama.attention.key_length", uint32_t(d_model / l.heads)));
  const int64_t rotated = int64_t(f.get_u32("llama.rope.dimension_count", uint32_t(l.d_head)));
  check(rotated == l.d_head,
        "{}: llama.rope.dimension_count is {}, the heads are {} wide; partial rotation is not supported", f.path(),
        rotated, l.d_head);
  check(int64_t(f.get_u32("llama.attention.value_length", uint32_t(l.d_head))) == l.d_head,
        "{}: heads whose values are not as wide as their keys are not supported", f.path());
  l.d_ff = u32("feed_forward_length");
  l.window = int64_t(f.get_u32("llama.attention.sliding_window", 0));
  return l;
}

// What only the tensors tell.
void read_optional_tensors(const gguf::File& f, ModelSpec& m) {
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    for (const BiasName& b : kBiasNames) l.bias.*b.flag = f.find(fmt::format("blk.{}.{}.bias", i, b.tensor)) != nullptr;
    l.qk_norm = f.find(fmt::format("blk.{}.attn_q_norm.weight", i)) != nullptr;
  }
  m.tied = f.find("output.weight") == nullptr;
  m.vocab = f.require("token_embd.weight").shape[0];
}

void write_rope(gguf::Writer& w, const RopeSpec& r) {
  w.set("llama.rope.freq_base", r.base);
  if (r.scaling != RopeSpec::Scaling::none) {
    const bool yarn = r.scaling == RopeSpec::Scaling::yarn;
    w.set("llama.rope.scaling.type", std::string(yarn ? "yarn" : "linear"));
    w.set("llama.rope.scaling.factor", r.factor);
    if (yarn) w.set("llama.rope.scaling.original_context_length", uint32_t(r.original_context));
  }
  if (r.attn_factor != 1) w.set("llama.rope.scaling.attn_factor", r.attn_factor);
  if (r.factors.empty()) return;
  const View factors(const_cast<float*>(r.factors.data()), DType::f32, {int64_t(r.factors.size())});
  w.add(kFactors, factors, DType::f32);
}

// Weights that the device can use as they lie in the file need no memory of their own.
bool as_it_lies(const gguf::TensorInfo& info, LoadMode mode) {
  if (mode == LoadMode::trainable || !info.dtype) return false;
  return info.shape.rank() >= 2 ? *info.dtype != DType::f64 : *info.dtype == DType::f32;
}

void require_memory_for(const gguf::File& f, const ModelSpec& spec, const Device& device, LoadMode mode) {
  size_t bytes = 0;
  bool quantized = false;
  for (const TensorSpec& t : tensors_of(spec)) {
    const gguf::TensorInfo& info = f.require(t.name);
    if (as_it_lies(info, mode) && device.storage(*info.dtype) == *info.dtype) continue;
    bytes += size_t(t.shape.count()) * size_of(device.storage(DType::f32));
    quantized = quantized || !info.dtype;
  }
  require_memory(bytes, fmt::format("holding the weights of {}{}", f.path(),
                                    quantized ? ", which are quantized there, as f32" : ""));
}

void load_tensor(const gguf::File& f, const gguf::TensorInfo& info, LoadMode mode, ParamStore& params) {
  const TensorType f32{DType::f32, info.shape, 0};
  if (!info.dtype) {
    const View to = params.add(info.name, f32);
    if (to.dtype == DType::f32) return gguf::dequantize(info, {to.as<float>(), size_t(to.count())});
    std::vector<float> values(size_t(info.shape.count()));
    gguf::dequantize(info, values);
    return params.write(info.name, values);
  }
  const View host(const_cast<std::byte*>(info.data), *info.dtype, info.shape);
  if (as_it_lies(info, mode))
    params.bind(info.name, host, f.keep_alive());
  else
    convert(host, params.add(info.name, f32));  // gains and biases are always f32
}

}  // namespace

namespace {

// Files with a vocabulary alone are made to test tokenizers; what they say of an architecture has no weights to it.
void check_holds_weights(const gguf::File& f) {
  if (!f.tensors().empty()) return;
  check(
      !f.has("tokenizer.ggml.tokens"),
      "{}: it holds a vocabulary and no weights ({} tokens, tokenizer.ggml.model {}), so it cannot be run or trained; "
      "`toy tokenizer encode` and `decode` take it where they know its kind",
      f.path(), f.get_strings("tokenizer.ggml.tokens").size(), f.get_string("tokenizer.ggml.model", "absent"));
  fail("{}: it holds metadata and no weights, so it cannot be run or trained", f.path());
}

}  // namespace

ModelSpec spec_from_gguf(const gguf::File& f) {
  check_holds_weights(f);
  const std::string arch = f.get_string("general.architecture");
  check(arch == "llama", "{}: architecture '{}' is not supported; supported: llama", f.path(), arch);
  check(f.get_u32("llama.expert_count", 0) == 0, "{}: mixture-of-experts models are not supported yet", f.path());
  ModelSpec m;
  m.name = f.get_string("general.name", "llama");
  for (char& c : m.name)  // it will be printed on terminals
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  m.d_model = int64_t(f.get_u32("llama.embedding_length"));
  m.context = int64_t(f.get_u32("llama.context_length"));
  const int64_t blocks = int64_t(f.get_u32("llama.block_count"));
  check(blocks >= 1 && blocks <= 4096, "{}: llama.block_count is {}, expected 1 to 4096", f.path(), blocks);
  m.layers.assign(size_t(blocks), read_layer(f, m.d_model));
  m.rms_eps = f.get_f32("llama.attention.layer_norm_rms_epsilon");
  m.rope = read_rope(f, m);
  read_optional_tensors(f, m);
  try {
    m.validate();
  } catch (const Error& e) {
    fail("{}: {}", f.path(), e.what());
  }
  check_against_tensors(f, m);
  return m;
}

Model load_model(const std::string& path, const Device& device, LoadMode mode) {
  const gguf::File f = gguf::File::open(path);
  Model m{spec_from_gguf(f), std::make_unique<ParamStore>(device), load_tokenizer(f)};
  if (m.tokenizer)
    check(m.tokenizer->vocab_size() == m.spec.vocab, "{}: the tokenizer has {} tokens, token_embd.weight has {} rows",
          path, m.tokenizer->vocab_size(), m.spec.vocab);
  m.warnings = warnings_of(f, m.spec);
  require_memory_for(f, m.spec, device, mode);
  for (const TensorSpec& t : tensors_of(m.spec)) load_tensor(f, f.require(t.name), mode, *m.params);
  return m;
}

void save_model(const Model& m, const std::string& path, DType stored) {
  const ModelSpec& s = m.spec;
  const LayerSpec& l = s.layers.front();
  gguf::Writer w("llama");
  const auto u32 = [&](const char* key, int64_t v) { w.set(std::string("llama.") + key, uint32_t(v)); };
  w.set("general.name", s.name);
  w.set("general.file_type", uint32_t(stored == DType::f16 ? 1 : stored == DType::bf16 ? 32 : 0));
  u32("context_length", s.context);
  u32("embedding_length", s.d_model);
  u32("block_count", int64_t(s.layers.size()));
  u32("feed_forward_length", l.d_ff);
  u32("attention.head_count", l.heads);
  u32("attention.head_count_kv", l.kv_heads);
  u32("attention.key_length", l.d_head);
  u32("attention.value_length", l.d_head);
  u32("rope.dimension_count", l.d_head);
  if (l.window) u32("attention.sliding_window", l.window);
  w.set("llama.attention.layer_norm_rms_epsilon", s.rms_eps);
  write_rope(w, s.rope);
  u32("vocab_size", s.vocab);
  if (m.tokenizer)
    m.tokenizer->save(w);
  else
    w.set("tokenizer.ggml.model", std::string("none"));
  for (const TensorSpec& t : tensors_of(s)) {
    const DType as = t.shape.rank() >= 2 ? stored : DType::f32;
    w.add(t.name, m.params->get(t.name), as);
  }
  w.finish(path);
}

}  // namespace toy
