// Encoders of texts among the classes of transformers.
#include "hf/bert.h"
#include "hf/encoders.h"
#include "hf/models.h"
#include "hf/names.h"

namespace toy::hf {
namespace {

constexpr std::string_view kBertDefaults =
    R"({"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2})";

bool has_scores(const ModelSpec& m) { return m.score.there(); }
bool has_mask_head(const ModelSpec& m) { return m.mask_head; }
// Folders of such classes are read without their heads, as llama.cpp's converter reads them.
bool is_never(const Config&) { return false; }

// RoBERTa and XLM-RoBERTa: without a head, with one that gives scores, and with one that names hidden tokens.
constexpr HfModel roberta(const char* type, const char* class_name) {
  return {.type = type,
          .class_name = class_name,
          .architecture = "bert",
          .defaults = kRobertaDefaults,
          .read = read_roberta,
          .write = write_roberta,
          .fits = [](const ModelSpec& m) { return m.token_types == 1 && !m.score.there(); },
          .names = kBertNames,
          .layers = "encoder.layer.",
          .unused_positions = kUnusedPositions};
}
constexpr HfModel roberta_ranker(const char* type, const char* class_name) {
  HfModel m = roberta(type, class_name);
  m.read = read_roberta_ranker, m.write = write_roberta_ranker, m.takes = is_ranker;
  m.fits = [](const ModelSpec& s) { return s.token_types == 1 && s.score.there(); };
  m.names = kRobertaRankerNames, m.layers = "roberta.encoder.layer.";
  return m;
}
constexpr HfModel roberta_of_masks(const char* type, const char* class_name) {
  HfModel m = roberta(type, class_name);
  m.takes = is_never;
  m.fits = [](const ModelSpec& s) { return s.token_types == 1 && s.mask_head; };
  m.names = kRobertaMaskNames, m.layers = "roberta.encoder.layer.";
  return m;
}

// jina-bert-v2: with gates in one matrix with the values, or without gates and BERT's names.
constexpr HfModel jina_bert() {
  return {.type = "bert",
          .class_name = "JinaBertModel",
          .architecture = "jina-bert-v2",
          .defaults = kBertDefaults,
          .read = read_jina_bert,
          .write = write_jina_bert,
          .names = kJinaBertNames,
          .layers = "encoder.layer.",
          .takes = is_jina_bert};
}
constexpr HfModel plain_jina_bert() {
  HfModel m = jina_bert();
  m.fits = [](const ModelSpec& s) { return !has_gate(s.layers.front().ffn); };
  m.names = kBertNames, m.takes = is_plain_jina_bert;
  return m;
}

constexpr HfModel kEncoders[] = {
    roberta_of_masks("roberta", "RobertaForMaskedLM"),
    roberta_ranker("roberta", "RobertaForSequenceClassification"),
    roberta("roberta", "RobertaModel"),
    roberta_of_masks("xlm-roberta", "XLMRobertaForMaskedLM"),
    roberta_ranker("xlm-roberta", "XLMRobertaForSequenceClassification"),
    roberta("xlm-roberta", "XLMRobertaModel"),
    plain_jina_bert(),
    jina_bert(),
    {.type = "bert",
     .class_name = "BertForMaskedLM",
     .architecture = "bert",
     .defaults = kBertDefaults,
     .read = read_bert,
     .write = write_bert,
     .fits = has_mask_head,
     .names = kBertMaskNames,
     .layers = "bert.encoder.layer.",
     .takes = is_never},
    {.type = "bert",
     .class_name = "BertForSequenceClassification",
     .architecture = "bert",
     .defaults = kBertDefaults,
     .read = read_bert_ranker,
     .write = write_bert_ranker,
     .fits = has_scores,
     .names = kBertRankerNames,
     .layers = "bert.encoder.layer.",
     .takes = is_ranker},
    {.type = "bert",
     .class_name = "BertModel",
     .architecture = "bert",
     .defaults = kBertDefaults,
     .read = read_bert,
     .write = write_bert,
     .names = kBertNames,
     .layers = "encoder.layer."},
    {.type = "nomic_bert",
     .class_name = "NomicBertModel",
     .architecture = "nomic-bert-moe",
     .defaults = "{}",
     .read = read_nomic_bert_moe,
     .write = write_nomic_bert_moe,
     .names = kNomicBertMoeNames,
     .layers = "encoder.layers.",
     .stacked_experts = true,
     .takes = has_nomic_experts,
     .not_in_peft = kNotInPeftOfNomic},
    {.type = "nomic_bert",
     .class_name = "NomicBertModel",
     .architecture = "nomic-bert",
     .defaults = R"({"rope_theta": 1000, "max_position_embeddings": 2048})",
     .read = read_nomic_bert,
     .write = write_nomic_bert,
     .names = kNomicBertNames,
     .layers = "encoder.layers."},
    {.type = "modernbert",
     .class_name = "ModernBertForMaskedLM",
     .architecture = "modern-bert",
     .defaults = kModernBertDefaults,
     .read = read_modern_bert,
     .write = write_modern_bert,
     .fits = has_mask_head,
     .names = kModernBertMaskNames,
     .layers = "model.layers.",
     .takes = is_never},
    {.type = "modernbert",
     .class_name = "ModernBertForSequenceClassification",
     .architecture = "modern-bert",
     .defaults = kModernBertDefaults,
     .read = read_modern_bert_ranker,
     .write = write_modern_bert_ranker,
     .fits = has_scores,
     .names = kModernBertRankerNames,
     .layers = "model.layers.",
     .takes = is_ranker},
    {.type = "modernbert",
     .class_name = "ModernBertModel",
     .architecture = "modern-bert",
     .defaults = kModernBertDefaults,
     .read = read_modern_bert,
     .write = write_modern_bert,
     .names = kModernBertNames,
     .layers = "layers."},
};

}  // namespace

std::span<const HfModel> encoder_models() { return kEncoders; }

}  // namespace toy::hf
