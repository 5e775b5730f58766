#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <functional>
#include <random>
#include <thread>

#include "serve/endpoints.h"
#include "serve/http/memory_reserve.h"
#include "serve/requests.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

// Seconds that streams pause, about, for the prompts of others.
constexpr double kLongestPause = 0.15;

// Tokens of the prompts of all requests.
constexpr size_t kMostPromptTokens = size_t(1) << 25;

// Positions of one text: the shared pages bound them, too.
int64_t context_of(Decoder& decoder) {
  const DecodeState& state = decoder.state();
  if (state.shape().shared_pages == 0 || !state.shared_pool()) return decoder.context();
  return std::min(decoder.context(), state.shape().shared_pages * kPagePositions);
}

// Errors of a template name it by its file, and clients are told no paths.
ChatTemplate without_paths(const ChatTemplate& chat) {
  const ChatTemplate usual(chat.one(false).source());
  const std::string with_tools = chat.one(true).source();
  return with_tools == usual.source() ? usual : usual.with_tool_use(ChatTemplate(with_tools));
}

// The thread that computes. It ends with its scope, whatever ends that.
class Computing {
 public:
  Computing(GenerationService& service, std::function<void()> broken)
      : service_(service), broken_(std::move(broken)), thread_([this] {
          try {
            service_.serve();
          } catch (...) {
            broken_();
            service_.close(false);
          }
        }) {}
  ~Computing() {
    service_.close(false);
    thread_.join();
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  GenerationService& service_;
  const std::function<void()> broken_;
  std::thread thread_;
};

}  // namespace

uint64_t random_number() {
  std::random_device device;
  return (uint64_t(device()) << 32) | device();
}

Server::Server(Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
               const ServerOptions& options, OriginRules origins)
    : options_(options),
      origins_(std::move(origins)),
      log_(options.log),
      tokenizer_(*model.tokenizer),
      service_(decoder, model.tokenizer.get(), options.most_waiting, options.speculation, kMostPromptTokens),
      dialog_(chat ? std::make_unique<Dialog>(*model.tokenizer, *chat) : nullptr),
      form_(dialog_ ? dialog_->form() : nullptr),
      prompts_(*model.tokenizer, dialog_.get(), context_of(decoder), decoder.vocab()),
      width_(model.spec.d_model),
      cache_bytes_(int64_t(decoder.state().bytes())),
      parallel_(decoder.state().shape().sequences),
      usual_(usual_sampling(model.metadata)),
      pooling_(stated_pooling(model.metadata)),
      template_(chat ? chat->source() : ""),
      thoughts_(thought_marks(template_)),
      constraints_(*model.tokenizer, form_, thoughts_),
      ids_(fmt::format("{:016x}", random_number())),
      started_(std::time(nullptr)),
      keep_alive_(options.keep_alive) {
  service_.limit_pause(kLongestPause);
  owners_.emplace_back();
  for (const std::string& key : options.api_keys) owners_.push_back(state_owner(key));
  if (!options.state_folder.empty())
    states_ = std::make_unique<States>(options.state_folder, options.adapters, model, decoder);
  const ModelSpec& spec = model.spec;
  meta_ = {{"architecture", spec.architecture}, {"parameters", parameter_count(spec)},
           {"layers", spec.layers.size()},      {"width", spec.d_model},
           {"vocabulary", spec.vocab},          {"context", context_of(decoder)},
           {"chat_template", chat.has_value()}};
}

void Server::stop() {
  stopping_ = true;
  service_.close(true);
}

Admission Server::admit(HttpRequest& header) const {
  return admit_with_key(header, origins_, options_.api_keys, errors_of(header.target));
}

void Server::handle(const std::shared_ptr<Exchange>& exchange) {
  answer(exchange, [&] {
    const MemoryReserve reserve(bytes_to_destroy(exchange->request.body));
    require_plain_body(exchange->request);
    route(exchange);
  });
}

void Server::answered(const Answered& a) {
  {
    const std::scoped_lock lock(mutex_);
    ++replies_[a.status];
  }
  if (a.notes.prompt >= 0 && a.status == 200) timings_.whole.observe(a.seconds);
  log_.write(a);
}

void Server::send_error(Exchange& exchange, const std::exception_ptr& error) noexcept {
  try {
    exchange.send(error_reply(api_error(error), errors_of(exchange.request.target)));
  } catch (...) {  // not even memory for that: the connection ends with the exchange
  }
}

void Server::send_json(Exchange& exchange, const nlohmann::ordered_json& j) { exchange.send({.body = json_text(j)}); }

void serve(HttpServer& http, Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
           const ServerOptions& options) {
  check(model.tokenizer != nullptr, "serve: the model {} has no tokenizer", model.spec.name);
  const std::optional<ChatTemplate> nameless = chat ? std::optional(without_paths(*chat)) : std::nullopt;
  Server server(decoder, model, nameless, options,
                {.host = options.host,
                 .port = http.port(),
                 .tls = options.tls,
                 .loopback = http.loopback(),
                 .keyless = options.api_keys.empty(),
                 .cors = options.cors});
  std::exception_ptr broken;
  {
    const Computing computing(server.service(), [&] {
      broken = std::current_exception();
      http.stop();
    });
    http.run({.handle = [&](const std::shared_ptr<Exchange>& exchange) { server.handle(exchange); },
              .bad = [](int status, const std::string& message) { return error_reply(ApiError(status, message)); },
              .stopping =
                  [&](size_t requests) {
                    server.stop();
                    if (options.stopping) options.stopping(requests);
                  },
              .ending = [&] { server.service().close(false); },
              .admit = [&](HttpRequest& header) { return server.admit(header); },
              .answered = [&](const Answered& a) { server.answered(a); },
              .stuck = options.stuck});
  }
  if (broken) std::rethrow_exception(broken);
}

}  // namespace toy::serve
