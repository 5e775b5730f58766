// /v1/embeddings: texts to vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api.h"
#include "serve/http/http_server.h"
#include "toy/decode/service.h"

namespace toy::serve {

/// Limits of one request: its texts, and the numbers of the reply.
inline constexpr int64_t kMostInputs = 2048, kMostNumbers = int64_t(1) << 22;

/// A request for embeddings.
struct EmbeddingsRequest {
  std::string model;  ///< "": not said
  std::vector<PromptSource> inputs;
  std::optional<Pooling> pooling = {};                     ///< none: that of the model
  bool base64 = false;                                     ///< little-endian f32 instead of numbers
  enum Form { openai, ollama, ollama_one } form = openai;  ///< of the reply
  std::optional<int64_t> dimensions;                       ///< has to be the model's width
};
/// The texts in a field, and the dimensions.
void read_inputs(Fields& f, EmbeddingsRequest& r, const char* field);
/// From the body of a request. Throws ApiError as parse_completion().
EmbeddingsRequest parse_embeddings(const std::string& body);

/// Appends numbers as a list of JSON, with the shortest digits that are the same f32.
void append_numbers(std::string& text, const std::vector<float>& numbers);
/// What the request says, else what the model's file `states` (stated_pooling()), else mean. Throws ApiError for a
/// model that ranks texts.
Pooling pooling_of(const EmbeddingsRequest& request, const std::string& states);

/// What a client should know that leaves the pooling to a model whose file `states` none, or "".
std::string_view pooling_warning(const EmbeddingsRequest& request, const std::string& states);

/// OpenAI's list of embeddings, each in `numbers` or base64.
/// `warning`: what the client should know, or "".
std::string embeddings_body(const std::vector<std::vector<float>>& embeddings, const std::string& model, bool base64,
                            int64_t prompt_tokens, std::string_view warning = {});

/// Collects the embeddings of one request and sends them. After its texts were submitted, only the service's thread
/// changes it.
class EmbeddingsJob : public std::enable_shared_from_this<EmbeddingsJob> {
 public:
  /// `states`: the pooling that the model's file states.
  EmbeddingsJob(std::shared_ptr<Exchange> exchange, const EmbeddingsRequest& request, const std::string& states,
                std::string model)
      : exchange_(std::move(exchange)),
        model_(std::move(model)),
        pooling_(pooling_of(request, states)),
        warning_(pooling_warning(request, states)),
        base64_(request.base64),
        form_(request.form) {}
  /// One more text, to be submitted.
  TextRequest add(std::vector<int32_t> ids);

 private:
  void finish(size_t i, const TextEnd& end);
  // The callbacks of a service must not throw.
  void fail(const std::exception_ptr& error) noexcept;

  std::shared_ptr<Exchange> exchange_;
  const std::string model_;
  const Pooling pooling_;
  const std::string_view warning_;
  const bool base64_;
  const EmbeddingsRequest::Form form_;
  std::vector<std::vector<float>> embeddings_;
  int64_t prompt_tokens_ = 0;
  size_t done_ = 0;
  bool failed_ = false;
};

}  // namespace toy::serve
