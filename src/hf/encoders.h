// NomicBertModel and ModernBertModel of transformers, JinaBertModel, and RobertaModel, which is a BertModel but for its
// positions.
#pragma once

#include <string>
#include <string_view>

#include "hf/models.h"

namespace toy::hf {

/// The first rows of RoBERTa's table of positions, which no token has: `pad_token_id` + 1.
inline constexpr int64_t kUnusedPositions = 2;

/// What files leave out.
inline constexpr const char* kRobertaDefaults =
    R"({"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 1})";
inline constexpr const char* kModernBertDefaults =
    R"({"norm_eps": 1e-5, "max_position_embeddings": 8192, "local_attention": 128})";

void read_roberta(const Config& c, Reading& r);
void write_roberta(nlohmann::ordered_json& c, const ModelSpec& m);
/// The same with a head that ranks or tells classes.
void read_roberta_ranker(const Config& c, Reading& r);
void write_roberta_ranker(nlohmann::ordered_json& c, const ModelSpec& m);

/// With the keys of the authors' files (n_embd) or those of transformers 5 (hidden_size).
void read_nomic_bert(const Config& c, Reading& r);
/// The same class with experts, which only the authors' files have.
bool has_nomic_experts(const Config& c);
void read_nomic_bert_moe(const Config& c, Reading& r);
void write_nomic_bert_moe(nlohmann::ordered_json& c, const ModelSpec& m);

/// JinaBertModel: a BERT with ALiBi, whose code is on the hub. `feed_forward_type` is "geglu", or "original" as BERT's.
bool is_jina_bert(const Config& c);
bool is_plain_jina_bert(const Config& c);
void read_jina_bert(const Config& c, Reading& r);
void write_jina_bert(nlohmann::ordered_json& c, const ModelSpec& m);

void write_nomic_bert(nlohmann::ordered_json& c, const ModelSpec& m);

void read_modern_bert(const Config& c, Reading& r);
void write_modern_bert(nlohmann::ordered_json& c, const ModelSpec& m);
/// The same with a head that ranks or tells classes.
void read_modern_bert_ranker(const Config& c, Reading& r);
void write_modern_bert_ranker(nlohmann::ordered_json& c, const ModelSpec& m);

/// Is the model one of these, or a BertModel?
bool is_encoder(const HfModel& model);
/// The name of a tensor of an encoder as the model's names have it: with or without what stands before that of the base
/// model, and with the words of today.
std::string plain_encoder_name(std::string_view name, const HfModel& model);
/// Tensors of classes of encoders that neither an embedding nor a score needs.
bool is_unused_in_encoder(std::string_view name, const HfModel& model);

}  // namespace toy::hf
