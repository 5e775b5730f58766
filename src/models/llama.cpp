// The `llama` family in GGUF: metadata keys and tensor names as llama.cpp reads and writes them.
#include <fmt/format.h>

#include "toy/models/model.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

// Features that change the result and that this build does not compute: refused rather than ignored.
void refuse_unsupported(const gguf::File& f) {
  const std::string scaling = f.get_string("llama.rope.scaling.type", "none");
  check(scaling == "none" || f.get_f32("llama.rope.scaling.factor", 1.0f) == 1.0f,
        "{}: rope scaling '{}' is not supported yet", f.path(), scaling);
  check(!f.find("rope_freqs.weight"), "{}: rope frequency factors (rope_freqs.weight) are not supported yet", f.path());
  check(f.get_u32("llama.expert_count", 0) == 0, "{}: mixture-of-experts models are not supported yet", f.path());
  for (const gguf::TensorInfo& t : f.tensors())
    check(!t.name.ends_with(".bias") && !t.name.ends_with("attn_q_norm.weight"),
          "{}: tensor '{}': biases and QK-norm are not supported yet", f.path(), t.name);
}

// Metadata decides; the file was validated, but not its dimensions against its tensors.
void check_against_tensors(const gguf::File& f, const ModelSpec& spec) {
  for (const TensorSpec& t : tensors_of(spec)) {
    const gguf::TensorInfo& info = f.require(t.name);
    check(info.shape == t.shape, "{}: tensor '{}' is {}, the metadata ask for {}", f.path(), t.name, info.shape.str(),
          t.shape.str());
    check(info.dtype && is_float(*info.dtype), "{}: tensor '{}' is {}; supported: F32, F16, BF16", f.path(), t.name,
          info.type_name);
  }
}

}  // namespace

ModelSpec spec_from_gguf(const gguf::File& f) {
  const std::string arch = f.get_string("general.architecture");
  check(arch == "llama", "{}: architecture '{}' is not supported; supported: llama", f.path(), arch);
  refuse_unsupported(f);
  const auto u32 = [&](const char* key) { return int64_t(f.get_u32(std::string("llama.") + key)); };
  ModelSpec m;
  m.name = f.get_string("general.name", "llama");
  for (char& c : m.name)  // it will be printed on terminals
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  m.d_model = u32("embedding_length");
  m.context = u32("context_length");
  LayerSpec l;
  l.heads = u32("attention.head_count");
  l.kv_heads = int64_t(f.get_u32("llama.attention.head_count_kv", uint32_t(l.heads)));
  check(l.heads > 0, "{}: llama.attention.head_count is 0", f.path());
  l.d_head = int64_t(f.get_u32("llama.attention.key_length", uint32_t(m.d_model / l.heads)));
  const int64_t rotated = int64_t(f.get_u32("llama.rope.dimension_count", uint32_t(l.d_head)));
  check(rotated == l.d_head,
        "{}: llama.rope.dimension_count is {}, the heads are {} wide; partial rotation is not supported", f.path(),
        rotated, l.d_head);
  check(int64_t(f.get_u32("llama.attention.value_length", uint32_t(l.d_head))) == l.d_head,
        "{}: heads whose values are not as wide as their keys are not supported", f.path());
  l.d_ff = u32("feed_forward_length");
  l.window = int64_t(f.get_u32("llama.attention.sliding_window", 0));
  const int64_t blocks = u32("block_count");
  check(blocks >= 1 && blocks <= 4096, "{}: llama.block_count is {}, expected 1 to 4096", f.path(), blocks);
  m.layers.assign(size_t(blocks), l);
  m.rms_eps = f.get_f32("llama.attention.layer_norm_rms_epsilon");
  m.rope_base = f.get_f32("llama.rope.freq_base", 10000.0f);
  m.tied = f.find("output.weight") == nullptr;
  m.vocab = f.require("token_embd.weight").shape[0];
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
  for (const TensorSpec& t : tensors_of(m.spec)) {
    const gguf::TensorInfo& info = f.require(t.name);
    const View host(const_cast<std::byte*>(info.data), *info.dtype, info.shape);
    const bool as_it_lies = mode == LoadMode::trainable ? false
                            : t.shape.rank() >= 2       ? *info.dtype != DType::f64
                                                        : *info.dtype == DType::f32;
    if (as_it_lies)
      m.params->bind(t.name, host, f.keep_alive());
    else
      convert(host, m.params->add(t.name, {DType::f32, t.shape, 0}));  // gains are always f32
  }
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
  w.set("llama.rope.freq_base", float(s.rope_base));
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
