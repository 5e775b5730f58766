// How the hidden states of a text become its embedding, as a model's file says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "toy/formats/gguf.h"
#include "toy/models/spec.h"

namespace toy {

/// What a file says. llama.cpp knows only the pooling ("<architecture>.pooling_type"); the rest is in keys of our own,
/// which `toy convert` takes from the files of sentence-transformers.
struct EmbeddingRule {
  std::string pooling = {};            ///< "mean", "cls", "last", "rank", or "": it does not say
  std::optional<bool> normalize = {};  ///< vectors of length 1; absent: it does not say
  int64_t max_tokens = 0;              ///< longer texts are cut; 0: at the model's context
};

/// What a decoder reads that ranks, as llama.cpp has it: a chat template whose {query} and {document} stand for the
/// two.
inline constexpr const char* kRerankTemplateKey = "tokenizer.chat_template.rerank";
/// That of Qwen3-Reranker (Zhang et al. 2025).
inline constexpr const char* kQwenRerankTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
    "web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

inline constexpr const char* kNormalizeKey = "toy.embedding.normalize";
inline constexpr const char* kMaxTokensKey = "toy.embedding.max_tokens";
/// What the keys of our own begin with.
inline constexpr std::string_view kEmbeddingKeys = "toy.embedding.";

/// From the metadata of a file or a Model. Throws Error{bad_input} naming the key for a value of another type.
EmbeddingRule embedding_rule(const std::map<std::string, gguf::Value, std::less<>>& metadata);
/// llama.cpp's number of a pooling. Throws for another word than "none", "mean", "cls", "last", "rank".
uint32_t pooling_number(std::string_view pooling);
/// Throws Error{bad_input} for a model that does not generate, as its tokens see those after them.
void require_causal(const ModelSpec& spec);
/// Does so.
[[noreturn]] void refuse_encoder(const std::string& name);

}  // namespace toy
