// What the files about adapters share.
#pragma once

#include <string>
#include <string_view>

#include "toy/models/adapter.h"

namespace toy {

inline constexpr std::string_view kWeight = ".weight";
inline constexpr const char* kChatTemplate = "tokenizer.chat_template";
inline constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";

/// What Hugging Face calls the tensors of a Llama, without ".weight" and what goes before a layer's. PEFT goes by the
/// last part.
struct TensorName {
  std::string_view gguf, hf;
};
inline constexpr TensorName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"},       {"output", "lm_head"},
    {"attn_norm", "input_layernorm"},     {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},       {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},        {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"},
};

/// "blk.0.attn_q" of "blk.0.attn_q.weight".
std::string without_weight(const std::string& name);
/// The output of a tied model, which has no tensor of its own; only its adapter does.
TensorSpec tied_output(const ModelSpec& spec);
/// Throws Error{bad_input} for a weight that cannot have magnitudes.
void require_magnitudes(const TensorSpec& t);

}  // namespace toy
