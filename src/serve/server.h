// What `toy serve` does with a request: OpenAI's endpoints on a GenerationService.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/access_log.h"
#include "serve/http/http_server.h"
#include "toy/chat/chat_template.h"
#include "toy/decode/service.h"
#include "toy/models/model.h"

namespace toy::serve {

/// What a server is told.
struct ServerOptions {
  std::string name;                   ///< of the model, for clients
  std::vector<std::string> aliases;   ///< its other names
  std::vector<std::string> adapters;  ///< names of the model's adapters: each is a model for clients, too
  std::vector<std::string> api_keys;  ///< one of them is needed; none: no key is
  size_t most_waiting = 1024;         ///< requests that wait for a sequence; more are refused
  HttpLimits http;
  SpeculationOptions speculation = {};  ///< who proposes tokens
  std::string state_folder = {};        ///< of /v1/state, a StateFolder; "": there is none
  /// Refuses fields of requests that have no effect, and names of models that are unknown. Else such fields are named
  /// in the header X-Toy-Ignored, and a server of one model takes any name for it.
  bool strict = false;
  std::chrono::milliseconds keep_alive =
      std::chrono::seconds(5);         ///< streams that are silent for so long send a comment
  std::string host = "127.0.0.1";      ///< that the HttpServer listens on
  bool tls = false;                    ///< does it speak TLS?
  std::vector<std::string> cors = {};  ///< origins of other pages that may use it: of origin_of()
  LogForm log = LogForm::off;          ///< a line for each request
  bool share_prefixes = false;         ///< keys see each other's states, and what was computed for others
  std::function<void()> stuck = {};    ///< as HttpCalls
  std::function<void(size_t requests)> stopping = {};  ///< as HttpCalls
  /// Computes a part of a look; the last one gives all of it, as JSON (docs/look.md).
  using LookParts = std::function<std::optional<std::string>()>;
  /// Begins a look inside the model while it reads these tokens, with its adapters times these factors. The thread that
  /// computes calls it and what it returns, between calls for texts. Absent: /v1/look is refused.
  std::function<LookParts(const std::vector<int32_t>& ids, const std::vector<float>& adapters)> look = {};
};

/// The paths that clients can ask for.
std::vector<std::string_view> endpoints();

/// Serves a model until HttpServer::run() returns. `chat`: its chat template, if it has one. Model and decoder must
/// outlive the call; nothing else may use the decoder, which has DecoderOptions::adapters_by_sequence if the model has
/// adapters.
void serve(HttpServer& http, Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
           const ServerOptions& options);

}  // namespace toy::serve
