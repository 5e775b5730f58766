// The endpoints of `toy serve`: from a request to what it does, and its reply.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dialog/constraints.h"
#include "dialog/thoughts.h"
#include "serve/access_log.h"
#include "serve/api/api.h"
#include "serve/api/embeddings.h"
#include "serve/api/ignored.h"
#include "serve/api/ollama.h"
#include "serve/api/reply_format.h"
#include "serve/http/http_server.h"
#include "serve/http/keep_alive.h"
#include "serve/http/origin.h"
#include "serve/metrics.h"
#include "serve/prompts.h"
#include "serve/read_body.h"
#include "serve/server.h"
#include "serve/states.h"
#include "toy/decode/service.h"

namespace toy::serve {

/// Answers requests with a GenerationService. Any thread may call handle(), one computes: service().serve().
class Server {
 public:
  Server(Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat, const ServerOptions& options,
         OriginRules origins);

  GenerationService& service() { return service_; }
  /// Finishes the texts that there are and refuses others.
  void stop();
  /// Notes which key a request has, and refuses those that may not ask.
  Admission admit(HttpRequest& header) const;
  void handle(const std::shared_ptr<Exchange>& exchange);
  /// Counts and logs a request.
  void answered(const Answered& a);

 private:
  using ExchangePointer = const std::shared_ptr<Exchange>&;

  // ---- Replies (server.cpp).
  // Sends what `call` throws.
  template <class Call>
  void answer(ExchangePointer exchange, Call&& call) {
    try {
      call();
    } catch (...) {
      send_error(*exchange, std::current_exception());
    }
  }
  void send_error(Exchange& exchange, const std::exception_ptr& error) noexcept;
  void send_json(Exchange& exchange, const nlohmann::ordered_json& j);
  template <class Parse>
  auto read(ExchangePointer exchange, Parse&& parse) const {
    return read_body(exchange, options_.strict, parse);
  }
  // Notes a field without an effect, or refuses it.
  void ignore(ExchangePointer exchange, const std::string& field, const std::string& what) const;

  // ---- What is asked for (endpoints.cpp).
  struct Route {
    const char *method, *target;
    void (Server::*handler)(ExchangePointer);
    ErrorBody errors = error_body;
  };
  static const Route kRoutes[];
  friend std::vector<std::string_view> endpoints();
  // That of another method where there is none of this one.
  static const Route* route_of(const std::string& target, const std::string& method = "");
  static ErrorBody errors_of(const std::string& target);
  void route(ExchangePointer exchange);

  void page(ExchangePointer exchange);
  void health(ExchangePointer exchange);
  void metrics(ExchangePointer exchange);
  void models(ExchangePointer exchange);
  void apply_template(ExchangePointer exchange);
  void tokenize(ExchangePointer exchange);
  void detokenize(ExchangePointer exchange);
  nlohmann::ordered_json model_json(const std::string& name) const;

  // ---- Texts (text_endpoints.cpp).
  void completions(ExchangePointer exchange);
  void chat_completions(ExchangePointer exchange);
  void responses(ExchangePointer exchange);
  void messages(ExchangePointer exchange);
  void count_tokens(ExchangePointer exchange);
  void embeddings(ExchangePointer exchange);
  void look(ExchangePointer exchange);
  // The only look that is computed. It ends with its request, whatever ends that.
  class LookTurn {
   public:
    explicit LookTurn(std::atomic<bool>& taken) : taken_(taken) {}
    ~LookTurn() { end(); }
    LookTurn(const LookTurn&) = delete;
    LookTurn& operator=(const LookTurn&) = delete;
    void end() {
      if (!std::exchange(ended_, true)) taken_ = false;
    }

   private:
    std::atomic<bool>& taken_;
    bool ended_ = false;
  };
  struct LookState {
    std::vector<int32_t> ids;
    std::vector<float> adapters;
    std::shared_ptr<LookTurn> turn;
    std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);  // the client
    ServerOptions::LookParts parts = {};                                                   // absent: it has not begun
  };
  // Computes a part, and sends the reply after the last one. False: nothing is left to do.
  bool compute_look(ExchangePointer exchange, LookState& state);
  // Factors of the adapters for a model; "": the base.
  std::vector<float> adapters_of(const std::string& model) const;
  std::vector<float> adapters_of(const CompletionRequest& r) const;
  void require_model(const std::string& name) const { adapters_of(name); }
  // Does a client mean the model itself?
  bool is_base(const std::string& model) const;
  // The name of an adapter or of the model, as it is served.
  std::string served_name(const std::string& model) const;
  // What a reply calls the model: as the request does, if it is known.
  std::string name_of(const std::string& model) const;
  ApiError unknown_model(const std::string& model) const;
  // Notes an unknown name for the only model.
  void note_model(ExchangePointer exchange, const std::string& model) const;
  ReplyHead head(const char* prefix, const CompletionRequest& r);
  // Whose texts' prefixes those of a request may take over.
  int64_t prefix_owner(const Exchange& exchange) const;
  // Submits the texts of a request, whose reply has this form.
  void start(ExchangePointer exchange, const CompletionRequest& r, std::unique_ptr<ReplyFormat> format);
  // They end when the client goes.
  void submit(Exchange& exchange, std::vector<TextRequest> texts);
  TextRequest text_request(const CompletionRequest& r, const std::vector<int32_t>& prompt, int64_t n,
                           uint64_t seed) const;

  // ---- llama-server's own endpoints (llama_endpoints.cpp).
  void props(ExchangePointer exchange);
  void slots(ExchangePointer exchange);
  void completion(ExchangePointer exchange);
  void infill(ExchangePointer exchange);

  // ---- Ollama's (ollama_endpoints.cpp).
  void ollama_version(ExchangePointer exchange);
  void ollama_tags(ExchangePointer exchange);
  void ollama_running(ExchangePointer exchange);
  void ollama_show(ExchangePointer exchange);
  void ollama_chat(ExchangePointer exchange);
  void ollama_generate(ExchangePointer exchange);
  void ollama_embed(ExchangePointer exchange);
  void ollama_embeddings(ExchangePointer exchange);
  void ollama_answer(ExchangePointer exchange, const OllamaRequest& r);
  nlohmann::ordered_json ollama_model(const std::string& name) const;
  void embed(ExchangePointer exchange, const EmbeddingsRequest& r);

  // ---- Saved conversations (state_endpoints.cpp).
  States& states();
  const StateOwner& owner_of(const Exchange& exchange) const;
  void list_states(ExchangePointer exchange);
  void state(ExchangePointer exchange);
  void save_state(ExchangePointer exchange, const StateRequest& r);
  void restore_state(ExchangePointer exchange, const std::string& name);

  const ServerOptions& options_;
  const OriginRules origins_;
  AccessLog log_;
  Timings timings_;
  const Tokenizer& tokenizer_;
  GenerationService service_;
  const std::unique_ptr<const Dialog> dialog_;  // nullptr: no chat template
  const CallForm* const form_;                  // of calls; nullptr: none is known
  const Prompts prompts_;
  const int64_t width_, cache_bytes_, parallel_;
  const UsualSampling usual_;   // what requests are drawn with that do not say it
  const std::string pooling_;   // stated_pooling() of the model
  const std::string template_;  // of chats
  const ThoughtMarks thoughts_;
  Constraints constraints_;
  nlohmann::ordered_json meta_;  // of the model
  const std::string ids_;        // what the ids of replies begin with
  std::atomic<uint64_t> numbers_ = 0;
  std::atomic<bool> stopping_ = false, looking_ = false;
  const int64_t started_;
  std::mutex mutex_;
  std::map<int, int64_t> replies_;  // by status
  std::vector<StateOwner> owners_;  // of each key; the first is of none
  std::unique_ptr<States> states_;  // nullptr: none are kept. Its thread ends before the rest is gone
  KeepAlive keep_alive_;            // so does its thread
};

/// Of the system.
uint64_t random_number();

}  // namespace toy::serve
