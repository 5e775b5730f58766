// BertModel of transformers, and what the files of sentence-transformers say of embeddings.
#pragma once

#include <string>
#include <vector>

#include "hf/models.h"
#include "toy/formats/gguf.h"

namespace toy::hf {

/// Dimensions of a BERT, whatever its positions.
void read_bert_sizes(const Config& c, Reading& r);
void read_bert(const Config& c, Reading& r);
void write_bert(nlohmann::ordered_json& c, const ModelSpec& m);

/// The same with a head that ranks or tells classes.
void read_bert_ranker(const Config& c, Reading& r);
void write_bert_ranker(nlohmann::ordered_json& c, const ModelSpec& m);
/// Does config.json name a class with a head that scores texts?
bool is_ranker(const Config& c);

/// The head of such a class: of one label (id2label) it ranks, of several it is a classifier's. Throws for texts that
/// may have several classes.
void read_labels(const Config& c, ModelSpec& m, ScoreHead::Dense dense);
void write_labels(nlohmann::ordered_json& c, const ModelSpec& m);

/// A dense layer that embeddings go through: where the folder has it, and its sizes.
struct DenseModule {
  std::string path;
  int64_t in = 0, out = 0;
};
/// Those that modules.json names: none, or where files of the family hold them, "dense_2" and "dense_3". Throws
/// Error{bad_input} naming file and key for others.
std::vector<DenseModule> dense_modules(const std::string& folder, const ModelSpec& spec);

/// Sets the keys of an EmbeddingRule from modules.json and the files that it names. Without it, an encoder's pooling is
/// the mean, as in sentence-transformers, with a warning. Throws Error{bad_input} naming file and key for what is not
/// computed: another pooling than one of mean, cls, last.
void write_embedding_rule(const std::string& folder, const ModelSpec& spec, gguf::Writer& writer,
                          std::vector<std::string>& warnings);
/// The other way: writes modules.json and the files that it names.
void write_sentence_files(const gguf::File& file, const ModelSpec& spec, const std::string& folder);

}  // namespace toy::hf
