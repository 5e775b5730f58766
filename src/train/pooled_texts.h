// Vectors of texts that are rows of a training's batch: what contrastive training and classifiers compute with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/data/text_files.h"
#include "toy/data/text_rows.h"
#include "toy/decode/pooling.h"
#include "toy/models/transformer.h"
#include "toy/runtime/session.h"
#include "toy/train/data.h"
#include "train/feed.h"
#include "train/tell.h"

namespace toy {

/// A row: ids of its texts, one after another, where each begins and ends, and the target of its first place.
struct RowOfTexts {
  struct Text {
    int64_t first, places, id;
  };
  std::vector<int32_t> ids = {};
  std::vector<Text> texts = {};
  int32_t target = 0;
  /// Of a text that takes `prefix` and whose end is cut after `most` tokens; returns whether it was. `own`: what texts
  /// are known by as equal.
  bool add(const Tokenizer& tokenizer, const std::string& prefix, const std::string& own, int64_t most);
};
/// Tokens of all rows.
int64_t tokens_of(std::span<const RowOfTexts> rows);
/// The files that rows of texts are read from, and how. `out`: the run's folder, which is left out; `what`: for
/// messages, "reading pairs".
struct TextSource {
  TextFiles files;
  TextRowReading reading;
};
TextSource text_source(const DataOptions& o, const std::vector<std::string>& paths, const std::string& out,
                       size_t memory, std::string_view what, Teller& tell);
/// Notes that so many texts were cut, if any.
void tell_of_cut_texts(Teller& tell, const std::string& name, int64_t cut, int64_t most);

/// What rows of classes have: the share of each class in the target, [B,K].
struct Shares {
  int64_t classes = 0;  ///< 0: none
  double smoothing = 0;
};
/// Rows of `tokens` places, each a sequence for each text and then padding, in a new order in each epoch.
std::unique_ptr<Rows> rows_of_texts(std::span<const RowOfTexts> rows, int64_t tokens, uint64_t seed, Shares shares);
/// The same in their order.
std::unique_ptr<ValidationRows> validation_of_texts(std::span<const RowOfTexts> rows, int64_t tokens, Shares shares);
/// How many places the longest row takes, rounded up.
int64_t places_of_texts(std::span<const RowOfTexts> rows, int64_t most_so_far);

/// A model whose texts are pooled.
struct PooledTexts {
  Transformer model;
  nn::Context context;
  Value vectors;  ///< [M,D]
};
/// Inputs `tokens`, `sequence`, `position`, `until` [B T] and `pool` [M,B T], what a place adds to a vector. `random`:
/// see Transformer.
PooledTexts build_pooled_texts(Graph& g, const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows,
                               int64_t tokens, int64_t vectors, Value random, double dropout);
/// Sets them. `texts`: that of each vector; nullptr: it is zeros.
void feed_pooled_texts(Session& session, const Windows& batch, std::span<const Answer* const> texts, Pooling pooling);

}  // namespace toy
