// Embeddings of texts, by models whose tokens see all of their text and by those that generate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toy/decode/pooling.h"
#include "toy/runtime/session.h"

namespace toy {

/// How an Encoder computes.
struct EncoderOptions {
  int64_t rows = 512;         ///< tokens of the texts that are computed together; a longer text is computed by itself
  bool pairs = false;         ///< texts may have a second part, whose tokens have the token type 1
  bool exact = false;         ///< as DecoderOptions::exact
  bool repack = false;        ///< as DecoderOptions::repack
  bool check_finite = false;  ///< Session::check_finite
};

/// An encoder as a graph, for up to `rows` rows of texts that follow each other, or `fixed`, for exactly that many.
/// Inputs i32[rows] `tokens`, `sequence`, `position`, and unless the model is causal `until`, the length of each row's
/// text; with `pairs` `token_type`.
struct EncoderGraph {
  std::unique_ptr<Graph> graph;
  Value hidden;  ///< [rows,D]
};
/// Builds it. `dtype_of`: how a tensor is stored.
EncoderGraph build_encoder_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows, bool fixed,
                                 bool pairs = false);

/// Computes hidden states with an encoder. A text has the same bits by itself and among others.
class Encoder {
 public:
  /// Device and model must outlive it. Throws Error{bad_input} for a model that generates unless it also ranks, and
  /// when memory will not suffice.
  Encoder(Device& device, const Model& model, const EncoderOptions& options = {});
  int64_t width() const { return model_.spec.d_model; }
  int64_t context() const { return model_.spec.context; }
  /// Throws Error{bad_input} for no ids, more than the context, and one outside the vocabulary. `what` begins the
  /// message.
  void require_possible(std::span<const int32_t> text, std::string_view what) const;
  /// The hidden states [N,width] of each text, as they come, which is not the order of the texts. Texts of similar
  /// length are computed together. `second`, with EncoderOptions::pairs: where in each text the second part begins.
  void encode(std::span<const std::vector<int32_t>> texts,
              const std::function<void(size_t text, std::span<const float> hidden)>& take,
              std::span<const size_t> second = {});
  /// Their embeddings.
  std::vector<std::vector<float>> embed(std::span<const std::vector<int32_t>> texts, const EmbedOptions& options);

 private:
  void prepare(int64_t rows);
  void run(std::span<const std::vector<int32_t>> texts, std::span<const size_t> batch, std::span<const size_t> second,
           const std::function<void(size_t text, std::span<const float> hidden)>& take);

  Device& device_;
  const Model& model_;
  const EncoderOptions options_;
  int64_t rows_ = 0;    // of the plan
  bool fixed_ = false;  // every call has that many, some of which belong to no text
  std::unique_ptr<Session> session_;
};

/// The embeddings of texts, as token ids, with any model: an Encoder's, or those of the states of a model that
/// generates, whose tokens see those before them.
std::vector<std::vector<float>> embed_tokens(Device& device, const Model& model,
                                             std::span<const std::vector<int32_t>> texts, const EmbedOptions& options);
/// The same for texts. Longer texts than the model takes are cut.
///
///     const Model model = load_model("all-minilm-l6-v2.gguf", *device);
///     const auto vectors = embed(*device, model, {"a badger", "an otter"}, embed_options(model));
std::vector<std::vector<float>> embed(Device& device, const Model& model, const std::vector<std::string>& texts,
                                      const EmbedOptions& options);

}  // namespace toy
