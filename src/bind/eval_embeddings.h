// How good embeddings are, as `toy eval sts` and `toy eval retrieval` measure it, for the program and for bindings.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bind/bound_model.h"
#include "toy/data/pairs.h"
#include "toy/eval/retrieval.h"

namespace toy::bind {

/// The vectors of texts, each of length 1.
using Vectors = std::vector<std::vector<float>>;
/// Computes each different text once. `embed` gets these.
Vectors embed_once(const std::vector<std::string>& texts,
                   const std::function<Vectors(const std::vector<std::string>& different)>& embed);

/// Rated pairs of a file, and their texts: the first and the second of each.
struct RatedTexts {
  std::vector<RatedPair> pairs;
  std::vector<std::string> texts;
  /// Throws Error{bad_input} with file, line and reason.
  explicit RatedTexts(const std::string& file);
  /// {"pairs", "spearman", "pearson"}: the correlations of scores and cosines.
  nlohmann::ordered_json fields(const Vectors& vectors) const;
};

/// How pairs of a file are read.
struct RetrievalOptions {
  std::string map, anchor_prefix, passage_prefix;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f(text_option("map", "Fields with other names, such as anchor=title,positive=body", "Data", "FIELDS"), o.map);
    f(text_option("anchor_prefix", "Put this before each anchor, such as 'query: '", "Data", "TEXT"), o.anchor_prefix);
    f(text_option("passage_prefix", "Put this before each positive and negative", "Data", "TEXT"), o.passage_prefix);
  }
};
/// Pairs of a file, and their texts: anchor, positive and perhaps negative of each.
struct PairTexts {
  std::vector<TextPair> pairs;
  std::vector<std::string> texts;
  /// `warn` is told of rows that are passed over. Throws Error{bad_input} with file, line and reason.
  PairTexts(const std::string& file, const RetrievalOptions& options,
            const std::function<void(const std::string&)>& warn);
  RetrievalScores scores(const Vectors& vectors) const;

 private:
  std::vector<int64_t> ids_;  // equal texts have one id, whatever their prefixes
};
/// {"anchors", "texts", "recall_1", "recall_5", "mrr_10"}, and the errors of recalls where they are known.
nlohmann::ordered_json retrieval_fields(const RetrievalScores& scores);

/// How texts of a file become vectors of length 1.
struct EvalEmbedOptions {
  EmbedTextOptions embed;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    EmbedTextOptions::fields(o.embed, [&](const Option& option, auto& value) {
      if (option.name == "pooling" || option.name == "dimensions") f(option, value);
    });
  }
};
struct RetrievalCallOptions : EvalEmbedOptions {
  RetrievalOptions pairs;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    EvalEmbedOptions::fields(o, f);
    RetrievalOptions::fields(o.pairs, f);
  }
};
/// `toy eval sts` with a model in memory. Throws Error{bad_input}.
std::string evaluate_sts(BoundModel& model, const std::string& file, std::string_view json);
/// `toy eval retrieval`.
std::string evaluate_retrieval(BoundModel& model, const std::string& file, std::string_view json);

}  // namespace toy::bind
